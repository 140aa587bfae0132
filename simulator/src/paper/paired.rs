//! The tunnel against `cached`, run by run: the same messages, hosts and switches.

use super::evaluation::{WORKLOADS, scenario};
use super::markdown::table;
use super::{Effort, Found, Part, Setting, of_series, read};
use crate::scheme::Scheme;

const SERIES: &str = "published-paired";

/// One-way delays in microseconds.
const DELAYS_US: [u32; 3] = [400, 600, 800];
const LOSS: f64 = 1e-3;
/// Runs for each of the other settings': they differ by a few per cent.
const RUNS: u64 = 8;

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    let mut all = Vec::new();
    for ((_, sizes, name), messages) in WORKLOADS.into_iter().zip(effort.messages) {
        for delay_us in DELAYS_US {
            let schemes = r#""cached", "tunnel""#;
            let mut scenario =
                read(&scenario(sizes, delay_us, LOSS, messages, schemes, "", "20s"))?;
            scenario.seeds = (seed..seed + RUNS * effort.seeds).collect();
            let label = format!("{name}, {delay_us} µs");
            let part = Part::Published;
            all.push(Setting { part, series: SERIES, x: delay_us.into(), label, scenario });
        }
    }
    Ok(all)
}

/// The mean completion time of the tunnel as a multiple of that of `cached`, and its interval.
fn times(found: &Found) -> Option<(f64, Option<f64>)> {
    found.times(Scheme::TUNNEL, Scheme::CACHED)
}

/// A row per setting.
pub(super) fn table_of(found: &[Found]) -> String {
    let row = |found: &&Found| {
        let cell = match times(found) {
            Some((times, Some(half))) => format!("{times:.3} ± {half:.3}"),
            Some((times, None)) => format!("{times:.3}"),
            None => "not done".to_owned(),
        };
        vec![found.setting.label.clone(), cell]
    };
    let rows: Vec<_> = of_series(found, SERIES).iter().map(row).collect();
    table(&["workload, delay", "mean of `tunnel` / mean of `cached`"], &rows)
}

/// The result, in a sentence.
pub(super) fn in_short(found: &[Found]) -> Option<String> {
    let all: Vec<_> = of_series(found, SERIES).into_iter().filter_map(times).collect();
    let least = all.iter().map(|(times, _)| *times).reduce(f64::min)?;
    let most = all.iter().map(|(times, _)| *times).reduce(f64::max)?;
    let half = |half: &Option<f64>| half.unwrap_or(0.0);
    let longer = all.iter().filter(|(times, within)| times - half(within) > 1.0).count();
    let shorter = all.iter().filter(|(times, within)| times + half(within) < 1.0).count();
    Some(format!(
        "`tunnel` at a loss of 1e-3: mean completion times of {least:.3} to {most:.3} times those of \
         `cached`, which is beyond the confidence interval longer in {longer} and shorter in \
         {shorter} of {} settings.",
        all.len()
    ))
}
