//! Results on standard output.

use std::fmt::Write;

use crate::report::format::{count, micros, number, rate, share};
use crate::report::{Study, Sweep};
use crate::results::Summary;
use crate::text::{Column, Table, wrapped};

const WIDTH: usize = 100;

/// All schemes on one scenario.
pub(super) fn study(study: &Study) -> String {
    let mut out = study.scenario.clone() + "\n";
    if !study.about.is_empty() {
        out += &(wrapped(&study.about, WIDTH, "", "") + "\n");
    }
    for parameter in &study.parameters {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {}: {}", parameter.name, parameter.value);
    }
    out.push('\n');
    out + &schemes(&study.summaries())
}

/// A table per point.
pub(super) fn sweep(sweep: &Sweep) -> String {
    let mut out = format!("{}\n", sweep.name);
    for parameter in &sweep.parameters {
        let _ = writeln!(out, "  {}: {}", parameter.name, parameter.value);
    }
    for point in &sweep.points {
        // The unit stands in the label already.
        let name = sweep.axis.split(" (").next().unwrap_or_default();
        let _ = write!(out, "\n{name} = {}\n{}", point.label, schemes(&point.summaries));
    }
    out
}

/// Times that there are; a dash for others.
fn time(us: Option<f64>) -> String {
    us.map_or_else(|| "–".to_owned(), micros)
}

/// The columns of every table.
const COLUMNS: [Column<Summary>; 10] = [
    ("scheme", |s| s.scheme.name().to_owned()),
    ("mean time", |s| time(s.main().fct_us.mean)),
    ("median", |s| time(s.main().fct_us.p50)),
    ("99th perc.", |s| time(s.main().fct_us.p99)),
    ("slowdown", |s| s.main().slowdown.mean.map_or_else(|| "–".to_owned(), number)),
    ("goodput", |s| rate(s.main().goodput_bps)),
    ("link used", |s| share(s.link.useful_share)),
    ("sent twice", |s| share(s.link.sent_twice_share)),
    ("timeouts", |s| count(s.hosts.timeouts)),
    ("failed", |s| count(s.hosts.failed_qps)),
];
/// One more, if a message was not complete.
const UNFINISHED: Column<Summary> = ("unfinished", |s| {
    let fct = &s.main().fct_us;
    format!("{} of {}", count(fct.unfinished), count(fct.count))
});

/// A row per scheme.
fn schemes(summaries: &[Summary]) -> String {
    let is_any_unfinished = summaries.iter().any(|s| s.main().fct_us.unfinished > 0);
    let more = is_any_unfinished.then_some(UNFINISHED);
    let columns: Vec<_> = COLUMNS.into_iter().chain(more).collect();
    let mut out = Table::of(&columns, summaries).to_string();
    if is_any_unfinished {
        out += "– : some messages were not complete at the end, so that there is no such figure.\n";
    }
    out
}
