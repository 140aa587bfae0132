//! The figures behind the page, for programs.

use serde::Serialize;
use serde_json::json;

use super::{Closed, Effort, Found};
use crate::results::Summary;

/// A scheme in a setting.
#[derive(Serialize)]
struct Row<'a> {
    part: &'static str,
    series: &'static str,
    point: &'a str,
    scenario: &'a str,
    delay_us: f64,
    rate_bps: u64,
    loss: f64,
    scheme: &'static str,
    messages: u64,
    unfinished: u64,
    fct_mean_us: Option<f64>,
    fct_p50_us: Option<f64>,
    fct_p99_us: Option<f64>,
    slowdown_mean: Option<f64>,
    slowdown_p99: Option<f64>,
    goodput_bps: f64,
    useful_share: f64,
    sent_twice_share: f64,
    timeouts: u64,
    failed_qps: u64,
    reorder_mean_bytes: f64,
    reorder_peak_bytes: u64,
    backup_peak_bytes: u64,
    cache_peak_bytes: u64,
}

fn row<'a>(found: &'a Found, summary: &Summary, mean_reorder: f64) -> Row<'a> {
    let setting = &found.setting;
    let haul = &setting.scenario.long_haul;
    let group = summary.main();
    Row {
        part: setting.part.name(),
        series: setting.series,
        point: &setting.label,
        scenario: &setting.scenario.name,
        delay_us: haul.delay.as_nanos() as f64 / 1e3,
        rate_bps: haul.rate,
        loss: haul.loss.mean(),
        scheme: summary.scheme.name(),
        messages: group.fct_us.count,
        unfinished: group.fct_us.unfinished,
        fct_mean_us: group.fct_us.mean,
        fct_p50_us: group.fct_us.p50,
        fct_p99_us: group.fct_us.p99,
        slowdown_mean: group.slowdown.mean,
        slowdown_p99: group.slowdown.p99,
        goodput_bps: group.goodput_bps,
        useful_share: summary.link.useful_share,
        sent_twice_share: summary.link.sent_twice_share,
        timeouts: summary.hosts.timeouts,
        failed_qps: summary.hosts.failed_qps,
        reorder_mean_bytes: mean_reorder,
        reorder_peak_bytes: summary.pools.reorder_bytes,
        backup_peak_bytes: summary.pools.backup_bytes,
        cache_peak_bytes: summary.pools.cache_bytes,
    }
}

fn rows(found: &[Found]) -> impl Iterator<Item = Row<'_>> {
    found.iter().flat_map(|found| {
        let both = found.summaries.iter().zip(&found.mean_reorder);
        both.map(|(summary, mean)| row(found, summary, *mean))
    })
}

/// A line per setting and scheme; times in microseconds.
pub(super) fn csv(found: &[Found]) -> String {
    text(rows(found))
}

/// A line per cell of the closed forms.
pub(super) fn forms(closed: &Closed) -> String {
    #[derive(Serialize)]
    struct Form {
        scheme: &'static str,
        window: u32,
        loss: f64,
        packets: u64,
        simulated: f64,
        form: f64,
        timeouts: u64,
    }
    text(closed.long.iter().map(|found| Form {
        scheme: found.cell.scheme.name(),
        window: found.cell.window,
        loss: found.cell.loss,
        packets: found.packets,
        simulated: found.simulated,
        form: found.form,
        timeouts: found.timeouts,
    }))
}

pub(super) fn text(rows: impl Iterator<Item = impl Serialize>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("memory can be written, and rows are flat");
    }
    let bytes = writer.into_inner().expect("memory can be flushed");
    String::from_utf8(bytes).expect("all fields are text")
}

/// All of it, a row per line.
pub(super) fn json(effort: &Effort, command: &str, closed: &Closed, found: &[Found]) -> String {
    let finite = closed.finite.iter().map(|(cell, length, formula, simulated)| {
        json!({
            "window": cell.window, "loss": cell.loss, "round_trips": length,
            "formula": formula, "simulated": simulated,
        })
    });
    let lines = |values: Vec<serde_json::Value>| {
        let lines: Vec<String> = values.iter().map(ToString::to_string).collect();
        format!("[\n{}\n]", lines.join(",\n"))
    };
    let forms = closed.long.iter().map(|found| {
        json!({
            "scheme": found.cell.scheme.name(), "window": found.cell.window,
            "loss": found.cell.loss, "packets": found.packets, "simulated": found.simulated,
            "form": found.form, "timeouts": found.timeouts,
        })
    });
    let results = rows(found).map(|row| json!(row));
    format!(
        "{{\"command\": {}, \"quick\": {}, \"forms\": {}, \"finite\": {}, \"results\": {}}}\n",
        json!(command),
        effort.is_quick,
        lines(forms.collect()),
        lines(finite.collect()),
        lines(results.collect())
    )
}
