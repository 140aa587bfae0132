//! Pieces of a page in Markdown.

use std::fmt::Write;

use super::Found;
use crate::report::format::number;
use crate::scheme::Scheme;

/// A table: the first column to the left, the others to the right.
pub(super) fn table<T: AsRef<str>>(heads: &[T], rows: &[Vec<String>]) -> String {
    let heads: Vec<&str> = heads.iter().map(AsRef::as_ref).collect();
    let mut text = format!("| {} |\n| ---", heads.join(" | "));
    text.push_str(&" | ---:".repeat(heads.len() - 1));
    text.push_str(" |\n");
    for row in rows {
        // Into a String nothing can fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// A page, or a section of one, from its template: `{name}` stands for the value
/// of that name. Paragraphs are wrapped; headings, tables, lists, code and
/// figures stay as they are. An empty line separates any two of these.
///
/// # Panics
/// If the template lacks a name: a mistake here.
pub(super) fn page(template: &str, values: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        let place = format!("{{{name}}}");
        assert!(template.contains(&place), "the template has no {place}");
        text = text.replace(&place, value);
    }
    let blocks = text.split("\n\n").map(|block| block.trim_matches('\n'));
    blocks.filter(|block| !block.is_empty()).map(|block| wrapped(block) + "\n\n").collect()
}

/// A paragraph in lines of at most some ninety characters; anything else as it is.
fn wrapped(block: &str) -> String {
    let is_caption = block.starts_with('*') && !block.starts_with("**");
    let is_code = block.starts_with("```");
    if is_caption || is_code || block.starts_with(['#', '|', '-', '!', '<']) {
        return block.to_owned();
    }
    // Not at any white space: a unit stays with its figure.
    let words: Vec<&str> = block.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
    crate::text::wrapped(&together(&words.join(" ")), 88, "", "")
}

/// A point of a list.
pub(super) fn bullet(text: &str) -> String {
    crate::text::wrapped(&together(text), 88, "- ", "  ") + "\n"
}

/// A space that does not break before each unit, and before a plus: at the
/// beginning of a line that would begin a list.
fn together(text: &str) -> String {
    const UNITS: [&str; 8] = ["%", "µs", "ms", "kB", "KB", "MB", "Gbit/s", "+ "];
    let mut text = text.to_owned();
    for unit in UNITS {
        text = text.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    }
    text
}

/// A table of a row per setting and a column per scheme.
pub(super) fn by_scheme(
    head: &str,
    schemes: &[Scheme],
    found: &[&Found],
    cell: impl Fn(&Found, Scheme) -> String,
) -> String {
    let heads: Vec<_> = std::iter::once(head).chain(schemes.iter().map(|s| s.name())).collect();
    let rows = found.iter().map(|found| {
        let cells = schemes.iter().map(|scheme| cell(found, *scheme));
        std::iter::once(found.setting.label.clone()).chain(cells).collect()
    });
    table(&heads, &rows.collect::<Vec<_>>())
}

/// Mean and 99th percentile of completion times under `scheme`, in ms.
pub(super) fn mean_and_p99(found: &Found, scheme: Scheme) -> String {
    let ms = |us: Option<f64>| us.map_or("–".to_owned(), |us| number(us / 1e3));
    found.scheme(scheme).map_or(String::new(), |summary| {
        let fct = &summary.main().fct_us;
        format!("{} / {}", ms(fct.mean), ms(fct.p99))
    })
}

/// Mean, median and 99th percentile of completion times under `scheme`, in ms; behind the
/// mean how many times the lossless one it is, with its confidence interval.
pub(super) fn mean_median_p99(found: &Found, scheme: Scheme) -> String {
    let ms = |us: Option<f64>| us.map_or("–".to_owned(), |us| number(us / 1e3));
    found.scheme(scheme).map_or(String::new(), |summary| {
        let times = match found.times_lossless(scheme) {
            Some(times) if scheme != Scheme::LOSSLESS => format!(" ({})", interval(times)),
            _ => String::new(),
        };
        let fct = &summary.main().fct_us;
        format!("{}{times} / {} / {}", ms(fct.mean), ms(fct.p50), ms(fct.p99))
    })
}

/// A value with half of the width of its confidence interval, if there is one.
pub(super) fn interval((value, half): (f64, Option<f64>)) -> String {
    let half = half.map_or(String::new(), |half| format!(" ± {half:.2}"));
    format!("{value:.2}{half}")
}

/// A loss as it is written: "1e-3".
pub(super) fn loss(share: f64) -> String {
    format!("{share:e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_rule_for_each_column() {
        let rows = vec![vec!["gbn".to_owned(), "1".to_owned()]];
        assert_eq!(
            table(&["scheme", "time"], &rows),
            "| scheme | time |\n| --- | ---: |\n| gbn | 1 |\n"
        );
    }

    #[test]
    fn losses_are_powers_of_ten() {
        assert_eq!([1e-3, 3e-2].map(loss), ["1e-3", "3e-2"]);
    }
}
