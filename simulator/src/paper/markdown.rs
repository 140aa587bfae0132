//! Pieces of a page in Markdown.

use std::fmt::Write;

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

/// Lines of at most some ninety characters; paragraphs are apart by an empty line.
pub(super) fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| {
        // Not at any white space: a unit stays with its figure.
        let words: Vec<&str> = p.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
        crate::text::wrapped(&together(&words.join(" ")), 88, "", "")
    });
    let mut text = paragraphs.collect::<Vec<_>>().join("\n\n");
    text.push_str("\n\n");
    text
}

/// A point of a list.
pub(super) fn bullet(text: &str) -> String {
    crate::text::wrapped(&together(text), 88, "- ", "  ") + "\n"
}

/// A space that does not break before each unit.
fn together(text: &str) -> String {
    const UNITS: [&str; 7] = ["%", "µs", "ms", "kB", "KB", "MB", "Gbit/s"];
    let mut text = text.to_owned();
    for unit in UNITS {
        text = text.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    }
    text
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
