//! The page on it, and the figures for programs.

use serde_json::json;

use super::design::{BASE, LEVELS, TRAFFIC};
use super::explained::reason;
use super::judge::{Judged, LIMIT, OURS, Verdict};
use super::table;
use crate::paper::Effort;
use crate::paper::data::{self, Column};
use crate::paper::markdown::{bullet, page};
use crate::report::format::number;
use crate::scheme::Scheme;

pub(super) fn text(effort: &Effort, command: &str, judged: &[Judged]) -> String {
    let factors: Vec<_> = BASE.iter().map(|(factor, base)| factor_row(factor, base)).collect();
    let values = [
        ("command", command.to_owned()),
        ("seeds", effort.cell_seeds.to_string()),
        ("traffic", TRAFFIC.map(|traffic| traffic.name).join(", ")),
        ("factors", table(&["factor", "base", "others"], &factors)),
        ("limit", LIMIT.to_string()),
        ("summary", in_short(judged)),
        ("cells", cells(judged)),
        ("missed", missed(judged)),
    ];
    format!("{}\n", page(include_str!("../pages/never-worse.md"), &values).trim_end())
}

/// A factor, its value in the base, and all others.
fn factor_row(factor: &str, base: &str) -> Vec<String> {
    let levels = LEVELS.iter().filter(|level| level.factor == factor);
    let others =
        levels.map(|level| format!("{} (`--set {}`)", level.name, level.set.join(" --set ")));
    vec![factor.to_owned(), base.to_owned(), others.collect::<Vec<_>>().join("; ")]
}

/// How many cells a mode meets.
fn met(judged: &[Judged], scheme: Scheme) -> usize {
    let is_met = |judged: &&Judged| judged.verdict(scheme).is_some_and(|v| judged.is_met(v));
    judged.iter().filter(is_met).count()
}

fn in_short(judged: &[Judged]) -> String {
    let mut text = String::new();
    for scheme in OURS {
        let verdicts = || judged.iter().filter_map(|judged| judged.verdict(scheme));
        let worst = |of: fn(&Verdict) -> f64| verdicts().map(of).fold(0.0, f64::max);
        let dead: u64 = verdicts().map(|verdict| verdict.dead).sum();
        text += &bullet(&format!(
            "`{}`: {} of {} cells met; the worst mean is {} times go-back-N's, the worst 99th \
             percentile {} times; incomplete messages: {dead}.",
            scheme.name(),
            met(judged, scheme),
            judged.len(),
            number(worst(|verdict| verdict.ratio.mean)),
            number(worst(|verdict| verdict.ratio.p99)),
        ));
    }
    let dead: u64 = judged.iter().map(|judged| judged.plain_dead).sum();
    text + &bullet(&format!("`gbn`: incomplete messages: {dead}."))
}

fn cells(judged: &[Judged]) -> String {
    let mut text = String::new();
    for traffic in TRAFFIC.map(|traffic| traffic.name) {
        let rows: Vec<_> =
            judged.iter().filter(|judged| judged.cell.traffic == traffic).map(row).collect();
        if rows.is_empty() {
            continue;
        }
        let mut heads = vec!["cell", "gbn"];
        heads.extend(OURS.map(Scheme::name));
        heads.push("incomplete");
        text += &format!("### {traffic}\n\n{}\n", table(&heads, &rows));
    }
    text
}

fn row(judged: &Judged) -> Vec<String> {
    let plain = judged.plain;
    let mut row =
        vec![judged.cell.name.clone(), format!("{} / {}", number(plain.mean), number(plain.p99))];
    row.extend(judged.verdicts.iter().map(ratio));
    let dead: Vec<_> = std::iter::once(judged.plain_dead)
        .chain(judged.verdicts.iter().map(|verdict| verdict.dead))
        .map(|dead| dead.to_string())
        .collect();
    row.push(dead.join(" / "));
    row
}

/// Mean and 99th percentile, bold where they are too much.
fn ratio(verdict: &Verdict) -> String {
    let one = |ratio: f64| match ratio <= LIMIT {
        true => format!("{ratio:.3}"),
        false => format!("**{ratio:.3}**"),
    };
    format!("{} / {}", one(verdict.ratio.mean), one(verdict.ratio.p99))
}

fn missed(judged: &[Judged]) -> String {
    let mut rows = Vec::new();
    for judged in judged {
        let cell = &judged.cell;
        for verdict in judged.verdicts.iter().filter(|verdict| verdict.scheme != Scheme::LR2) {
            if judged.is_met(verdict) {
                continue;
            }
            let reason = reason(cell.traffic, &cell.name, verdict.scheme);
            rows.push(vec![
                cell.scenario.name.clone(),
                verdict.scheme.name().to_owned(),
                with_error(verdict.ratio.mean, verdict.error.mean),
                with_error(verdict.ratio.p99, verdict.error.p99),
                format!("{} / {}", verdict.queue_drops, judged.plain_drops),
                verdict.local_resends.to_string(),
                format!("{} / {}", verdict.timeouts, judged.plain_timeouts),
                reason,
            ]);
        }
    }
    if rows.is_empty() {
        return "None.".to_owned();
    }
    let heads = ["cell", "mode", "mean", "p99", "drops", "local resends", "timeouts", "why"];
    format!(
        "Ratios with standard errors; packets dropped at full queues, and retransmission \
         timeouts, ours / go-back-N's; packets that the Depot resent on the LAN.\n\n{}",
        table(&heads, &rows)
    )
}

fn with_error(ratio: f64, error: f64) -> String {
    format!("{ratio:.3} ± {error:.3}")
}

/// A mode in a cell.
fn columns<'a>() -> [Column<(&'a Judged, &'a Verdict)>; 20] {
    [
        ("traffic", |(judged, _)| json!(judged.cell.traffic)),
        ("cell", |(judged, _)| json!(judged.cell.name)),
        ("scheme", |(_, of)| json!(of.scheme)),
        ("met", |(judged, of)| json!(judged.is_met(of))),
        ("gbn_mean_ms", |(judged, _)| json!(judged.plain.mean)),
        ("gbn_p99_ms", |(judged, _)| json!(judged.plain.p99)),
        ("mean_ratio", |(_, of)| json!(of.ratio.mean)),
        ("mean_ratio_error", |(_, of)| json!(of.error.mean)),
        ("p99_ratio", |(_, of)| json!(of.ratio.p99)),
        ("p99_ratio_error", |(_, of)| json!(of.error.p99)),
        ("seeds", |(judged, _)| json!(judged.cell.scenario.seeds.len())),
        ("slow_seeds", |(_, of)| json!(of.slow_seeds)),
        ("gbn_incomplete", |(judged, _)| json!(judged.plain_dead)),
        ("incomplete", |(_, of)| json!(of.dead)),
        ("gbn_queue_drops", |(judged, _)| json!(judged.plain_drops)),
        ("queue_drops", |(_, of)| json!(of.queue_drops)),
        ("gbn_timeouts", |(judged, _)| json!(judged.plain_timeouts)),
        ("timeouts", |(_, of)| json!(of.timeouts)),
        ("local_resends", |(_, of)| json!(of.local_resends)),
        ("command", |(judged, _)| json!(format!("lr2-sim run {}", judged.cell.command))),
    ]
}

/// A line per cell and mode.
pub(super) fn csv(judged: &[Judged]) -> String {
    let rows = judged
        .iter()
        .flat_map(|judged| judged.verdicts.iter().map(move |verdict| (judged, verdict)));
    data::csv(&columns(), &rows.collect::<Vec<_>>())
}
