//! The figures behind the pages, for programs: tables of named columns.

use serde_json::{Map, Value, json};

use super::forms::{Cell, Outcome};
use super::{Closed, Effort, Found};
use crate::results::Summary;

/// A column: its name, and its value in a row.
pub(super) type Column<T> = (&'static str, fn(&T) -> Value);

/// A scheme in a setting, with the mean of its fullest reordering pool.
type Row<'a> = (&'a Found, &'a Summary, f64);

/// Of each scheme in each setting; times in microseconds.
fn results<'a>() -> [Column<Row<'a>>; 24] {
    [
        ("part", |(found, ..)| json!(found.setting.part.name())),
        ("series", |(found, ..)| json!(found.setting.series)),
        ("point", |(found, ..)| json!(found.setting.label)),
        ("scenario", |(found, ..)| json!(found.setting.scenario.name)),
        ("delay_us", |(found, ..)| {
            json!(found.setting.scenario.long_haul.delay.as_nanos() as f64 / 1e3)
        }),
        ("rate_bps", |(found, ..)| json!(found.setting.scenario.long_haul.rate)),
        ("loss", |(found, ..)| json!(found.setting.scenario.long_haul.loss.mean())),
        ("scheme", |(_, of, _)| json!(of.scheme)),
        ("messages", |(_, of, _)| json!(of.main().fct_us.count)),
        ("unfinished", |(_, of, _)| json!(of.main().fct_us.unfinished)),
        ("fct_mean_us", |(_, of, _)| json!(of.main().fct_us.mean)),
        ("fct_p50_us", |(_, of, _)| json!(of.main().fct_us.p50)),
        ("fct_p99_us", |(_, of, _)| json!(of.main().fct_us.p99)),
        ("slowdown_mean", |(_, of, _)| json!(of.main().slowdown.mean)),
        ("slowdown_p99", |(_, of, _)| json!(of.main().slowdown.p99)),
        ("goodput_bps", |(_, of, _)| json!(of.main().goodput_bps)),
        ("useful_share", |(_, of, _)| json!(of.link.useful_share)),
        ("sent_twice_share", |(_, of, _)| json!(of.link.sent_twice_share)),
        ("timeouts", |(_, of, _)| json!(of.hosts.timeouts)),
        ("failed_qps", |(_, of, _)| json!(of.hosts.failed_qps)),
        ("reorder_mean_bytes", |(.., mean)| json!(mean)),
        ("reorder_peak_bytes", |(_, of, _)| json!(of.pools.reorder_bytes)),
        ("backup_peak_bytes", |(_, of, _)| json!(of.pools.backup_bytes)),
        ("cache_peak_bytes", |(_, of, _)| json!(of.pools.cache_bytes)),
    ]
}

/// Of each cell of the closed forms.
const FORMS: [Column<Outcome>; 7] = [
    ("scheme", |of| json!(of.cell.scheme)),
    ("window", |of| json!(of.cell.window)),
    ("loss", |of| json!(of.cell.loss)),
    ("packets", |of| json!(of.packets)),
    ("simulated", |of| json!(of.simulated)),
    ("form", |of| json!(of.form)),
    ("timeouts", |of| json!(of.timeouts)),
];

/// Of each finite flow: cell, length, slowdown by the formula and simulated.
const FINITE: [Column<(Cell, u32, f64, f64)>; 5] = [
    ("window", |(cell, ..)| json!(cell.window)),
    ("loss", |(cell, ..)| json!(cell.loss)),
    ("round_trips", |(_, length, ..)| json!(length)),
    ("formula", |(_, _, formula, _)| json!(formula)),
    ("simulated", |(.., simulated)| json!(simulated)),
];

fn rows(found: &[Found]) -> Vec<Row<'_>> {
    let of = found.iter().flat_map(|found| {
        let both = found.summaries.iter().zip(&found.mean_reorder);
        both.map(move |(summary, mean)| (found, summary, *mean))
    });
    of.collect()
}

/// A line per setting and scheme.
pub(super) fn results_csv(found: &[Found]) -> String {
    csv(&results(), &rows(found))
}

/// A line per cell of the closed forms.
pub(super) fn forms_csv(closed: &Closed) -> String {
    csv(&FORMS, &closed.long)
}

/// A heading, and a line per row; nothing for `null`.
pub(super) fn csv<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let cell = |value: Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let rows = rows.iter().map(|row| columns.iter().map(|(_, of)| cell(of(row))).collect());
    crate::report::csv::table(columns.iter().map(|(name, _)| *name), rows)
}

/// A list of objects, a row per line.
fn lines<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let object = |row: &T| -> Map<String, Value> {
        columns.iter().map(|(name, of)| ((*name).to_owned(), of(row))).collect()
    };
    let lines: Vec<String> =
        rows.iter().map(|row| Value::Object(object(row)).to_string()).collect();
    format!("[\n{}\n]", lines.join(",\n"))
}

/// All of it, a row per line.
pub(super) fn json(effort: &Effort, command: &str, closed: &Closed, found: &[Found]) -> String {
    format!(
        "{{\"command\": {}, \"quick\": {}, \"forms\": {}, \"finite\": {}, \"results\": {}}}\n",
        json!(command),
        effort.is_quick,
        lines(&FORMS, &closed.long),
        lines(&FINITE, &closed.finite),
        lines(&results(), &rows(found)),
    )
}
