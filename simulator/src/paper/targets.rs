//! The product's targets, met or missed.

use super::Found;
use super::markdown::{interval, table};
use crate::report::format::number;
use crate::results::Summary;
use crate::scheme::Scheme;

/// `of` of one scheme as a share of that of another.
pub(super) fn ratio(
    found: &Found,
    of: fn(&Summary) -> Option<f64>,
    scheme: Scheme,
    base: Scheme,
) -> Option<f64> {
    let value = of(found.scheme(scheme)?)?;
    let base = of(found.scheme(base)?)?;
    (base > 0.0).then(|| value / base)
}

/// Mean completion time at [`LOSS`], as a multiple of that without loss.
const MEAN: f64 = 1.05;
/// 99th percentile likewise, and one round trip on top.
const P99: f64 = 1.15;
/// Where both are asked for.
const LOSS: f64 = 1e-3;

/// How near each workload comes to the targets.
pub(super) fn reached_table(workloads: &[(&str, Vec<&Found>)]) -> String {
    let mut rows = Vec::new();
    for (name, found) in workloads {
        for found in found.iter().filter(|found| found.setting.x == LOSS) {
            rows.extend([Scheme::LR2, Scheme::CACHED].map(|scheme| row(name, found, scheme)));
        }
    }
    let heads =
        ["workload, delay, loss", "scheme", "mean / lossless", "p99 / (1.15 lossless + RTT)"];
    table(&heads, &rows)
}

/// Where ours is not better than LR2 as published.
pub(super) fn behind(workloads: &[(&str, Vec<&Found>)]) -> String {
    [Scheme::LR2, Scheme::CACHED].map(|scheme| against_published(workloads, scheme)).concat()
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// Mean as a multiple of the lossless one, and the 99th percentile as one of
/// its limit; `None` if not all was done.
fn reached(found: &Found, scheme: Scheme) -> [Option<f64>; 2] {
    let mean = ratio(found, |s| s.main().fct_us.mean, scheme, Scheme::LOSSLESS);
    let p99 = |scheme| found.scheme(scheme)?.main().fct_us.p99;
    let rtt = found.setting.scenario.long_haul.rtt().as_nanos() as f64 / 1e3;
    let tail = p99(scheme).zip(p99(Scheme::LOSSLESS)).map(|(us, ideal)| us / most_p99(ideal, rtt));
    [mean, tail]
}

/// The longest 99th percentile that meets the target where the lossless link has
/// `ideal`: a round trip of `rtt` on top, unless messages without loss take less than
/// one.
fn most_p99(ideal: f64, rtt: f64) -> f64 {
    P99 * ideal + if ideal < rtt { 0.0 } else { rtt }
}

/// The limits of both.
const MOST: [f64; 2] = [MEAN, 1.0];

fn row(name: &str, found: &Found, scheme: Scheme) -> Vec<String> {
    let half = found.times_lossless(scheme).and_then(|(_, half)| half);
    let values = reached(found, scheme).into_iter().zip([half, None]).zip(MOST);
    let cells = values.map(|((value, half), most)| match value {
        Some(value) => format!("{}, {}", interval((value, half)), verdict(value <= most)),
        None => format!("not done, {}", verdict(false)),
    });
    let head = [format!("{name}, {}", found.setting.label), scheme.name().to_owned()];
    head.into_iter().chain(cells).collect()
}

/// The result of `scheme`, in a sentence.
pub(super) fn in_short(workloads: &[(&str, Vec<&Found>)], scheme: Scheme) -> String {
    let name = scheme.name();
    let asked = workloads.iter().flat_map(|(_, found)| found);
    let reached: Vec<_> =
        asked.filter(|found| found.setting.x == LOSS).map(|found| reached(found, scheme)).collect();
    let met =
        |n: usize| reached.iter().filter(|r| r[n].is_some_and(|value| value <= MOST[n])).count();
    let means = || reached.iter().filter_map(|reached| reached[0]);
    let (low, high) = (means().fold(f64::MAX, f64::min), means().fold(0.0, f64::max));
    let (all, worse) = behind_published(workloads, scheme);
    format!(
        "`{name}` at a loss of 1e-3: mean completion times of {} to {} times those without loss; \
         it meets the target for the mean in {} of {} settings, that for the 99th percentile in \
         {}. It is better than LR2 as published in {} of {all} figures.",
        number(low),
        number(high),
        met(0),
        reached.len(),
        met(1),
        all - worse.len(),
    )
}

/// How many figures there are, and those in which `scheme` is not better than LR2
/// as published.
fn behind_published(workloads: &[(&str, Vec<&Found>)], scheme: Scheme) -> (usize, Vec<String>) {
    type Of = fn(&Summary) -> Option<f64>;
    let figures: [(&str, Of); 2] =
        [("mean", |s| s.main().fct_us.mean), ("p99", |s| s.main().fct_us.p99)];
    let (mut all, mut worse) = (0, Vec::new());
    for (name, found) in workloads {
        for found in found {
            for (figure, of) in figures {
                all += 1;
                let what = format!("{name}, {}: {figure}", found.setting.label);
                match ratio(found, of, scheme, Scheme::LR2_PAPER) {
                    Some(ratio) if ratio <= 1.0 => {}
                    Some(ratio) => worse.push(format!("{what} {} times as long", number(ratio))),
                    // Of LR2 as published not all was done.
                    None if found.scheme(scheme).and_then(of).is_some() => {}
                    None => worse.push(format!("{what} not done")),
                }
            }
        }
    }
    (all, worse)
}

fn against_published(workloads: &[(&str, Vec<&Found>)], scheme: Scheme) -> String {
    let (all, worse) = behind_published(workloads, scheme);
    let name = scheme.name();
    if worse.is_empty() {
        return format!(
            "Against `lr2-paper`, mean and 99th percentile in all settings: `{name}` is better in \
             all {all} of them: **met**.\n\n"
        );
    }
    let list: Vec<String> = worse.iter().map(|line| format!("- {line}\n")).collect();
    let head = format!(
        "Against `lr2-paper`, mean and 99th percentile in all settings: `{name}` is not better in \
         {} of {all}: **missed**. These are:\n\n",
        worse.len()
    );
    format!("{head}{}\n", list.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_shorter_than_a_round_trip_are_not_granted_one() {
        assert_eq!(most_p99(100.0, 800.0), 100.0 * P99);
        assert_eq!(most_p99(2_000.0, 800.0), 2_000.0 * P99 + 800.0);
    }
}
