//! Results on standard output.

use std::fmt::Write;

use crate::report::format::{count, micros, number, rate, share};
use crate::report::{Study, Sweep};
use crate::results::Summary;
use crate::text::{Table, wrapped};

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

/// A row per scheme.
fn schemes(summaries: &[Summary]) -> String {
    let is_any_unfinished = summaries.iter().any(|s| s.main().fct_us.unfinished > 0);
    let mut heads = vec![
        "scheme",
        "mean time",
        "median",
        "99th perc.",
        "slowdown",
        "goodput",
        "link used",
        "sent twice",
        "timeouts",
        "failed",
    ];
    if is_any_unfinished {
        heads.push("unfinished");
    }
    let mut table = Table::new(heads);
    for summary in summaries {
        let group = summary.main();
        let time = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), micros);
        let mut row = vec![
            summary.scheme.name().to_owned(),
            time(group.fct_us.mean),
            time(group.fct_us.p50),
            time(group.fct_us.p99),
            group.slowdown.mean.map_or_else(|| "–".to_owned(), number),
            rate(group.goodput_bps),
            share(summary.link.useful_share),
            share(summary.link.sent_twice_share),
            count(summary.hosts.timeouts),
            count(summary.hosts.failed_qps),
        ];
        if is_any_unfinished {
            let fct = &group.fct_us;
            row.push(format!("{} of {}", count(fct.unfinished), count(fct.count)));
        }
        table.row(row);
    }
    let mut out = table.to_string();
    if is_any_unfinished {
        out += "– : some messages were not complete at the end, so that there is no such figure.\n";
    }
    out
}
