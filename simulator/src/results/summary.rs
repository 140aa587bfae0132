//! The figures of a scheme: all its runs together.

use std::collections::BTreeMap;

use common::time::{Span, Time};
use serde::Serialize;

use super::{Distribution, FlowResult, HostUse, OfferedUse, Pools, RunResult};
use crate::scheme::Scheme;

/// Upper bounds of the buckets by message size, in bytes; the last bucket holds
/// larger messages.
pub const SIZE_BOUNDS: [u64; 5] = [10_000, 100_000, 500_000, 1_000_000, 10_000_000];

/// The names of the buckets in tables and plots.
pub const SIZE_LABELS: [&str; 6] =
    ["≤ 10 kB", "10–100 kB", "100–500 kB", "0.5–1 MB", "1–10 MB", "> 10 MB"];

/// The figures of a scheme over all its seeds.
///
/// Distributions are those of all runs' values together. Counters are sums over
/// the runs. Shares and goodput are means of the runs' own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Who repaired.
    pub scheme: Scheme,
    /// The runs.
    pub seeds: Vec<u64>,
    /// All messages.
    pub all: Group,
    /// Those over a long-haul link.
    pub long_haul: Group,
    /// Those within a site.
    pub within: Group,
    /// How long each round of a collective took, from the first message posted to
    /// the last one complete, in microseconds; empty if no traffic has more than
    /// one round.
    pub rounds_us: Distribution,
    /// The long-haul links.
    pub link: LinkSummary,
    /// The hosts.
    pub hosts: HostUse,
    /// How long a packet lost on a long-haul link took to arrive all the same, in
    /// microseconds.
    pub recovery_us: Distribution,
    /// The most that was in the fullest gateway at any time.
    pub pools: Pools,
    /// Packet events simulated.
    pub packet_events: u64,
}

/// Messages that are looked at together.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Group {
    /// Flow completion times: from posted to complete at the sender, in
    /// microseconds.
    pub fct_us: Distribution,
    /// As `fct_us`, from the time at which a message was to be sent: with the time that its
    /// queue pair took to be connected, if it had to be.
    pub fct_with_setup_us: Distribution,
    /// Mean completion time of each run, in microseconds; empty if a message of any
    /// of them was not completed.
    pub seed_means_us: Vec<f64>,
    /// Flow completion time as a multiple of that alone on a network
    /// without loss.
    pub slowdown: Distribution,
    /// Payload of the messages that were completed, per time from the first posted
    /// to the last completed, in bit/s.
    pub goodput_bps: f64,
    /// Payload of a message per its completion time in bit/s, mean over the
    /// messages; 0 for one that was not completed.
    pub message_goodput_bps: f64,
    /// By message size: as many as [`SIZE_LABELS`].
    pub sizes: Vec<SizeBucket>,
}

/// Messages of about the same size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SizeBucket {
    /// Its name.
    pub label: &'static str,
    /// The largest that belong here, in bytes; `None`: no bound.
    pub up_to_bytes: Option<u64>,
    /// As [`Group::fct_us`].
    pub fct_us: Distribution,
    /// As [`Group::slowdown`].
    pub slowdown: Distribution,
}

/// The long-haul links.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct LinkSummary {
    /// Wire bytes of data packets that crossed for the first time, as a share of
    /// the links' capacity in the directions in which messages go: while messages
    /// came, not until the last one was complete. If all were due at the beginning, until
    /// the end of the run.
    pub useful_share: f64,
    /// Wire bytes of data packets that had crossed before, as a share of all wire
    /// bytes of data packets.
    pub sent_twice_share: f64,
    /// Data packets lost on a long-haul link.
    pub lost_packets: u64,
    /// Packets lost because a queue before it was full.
    pub queue_drops: u64,
}

impl Summary {
    /// The figures of `scheme`, from those of `results` that are its runs. `None`
    /// if none is.
    pub fn of(scheme: Scheme, results: &[RunResult]) -> Option<Self> {
        let runs: Vec<&RunResult> = results.iter().filter(|run| run.scheme == scheme).collect();
        if runs.is_empty() {
            return None;
        }
        let recoveries = runs.iter().flat_map(|run| &run.recoveries);
        let samples = runs.iter().flat_map(|run| &run.pools);
        let mut hosts = HostUse::default();
        for run in &runs {
            hosts += &run.hosts;
        }
        Some(Self {
            scheme,
            seeds: runs.iter().map(|run| run.seed).collect(),
            all: Group::of(&runs, |_| true),
            long_haul: Group::of(&runs, |flow| flow.is_long_haul),
            within: Group::of(&runs, |flow| !flow.is_long_haul),
            rounds_us: rounds(&runs),
            link: LinkSummary::of(&runs),
            hosts,
            recovery_us: Distribution::of(recoveries.copied().map(micros).collect(), 0),
            pools: samples.map(|sample| sample.held).fold(Pools::default(), Pools::max),
            packet_events: runs.iter().map(|run| run.packet_events).sum(),
        })
    }

    /// The messages that a comparison of schemes is about: those over a long-haul
    /// link, or all if there are none.
    pub fn main(&self) -> &Group {
        if self.long_haul.fct_us.count > 0 { &self.long_haul } else { &self.all }
    }
}

impl FlowResult {
    /// As [`fct`](Self::fct), with the time that its queue pair took to be connected.
    pub fn fct_with_setup(&self) -> Option<Span> {
        Some(self.completed?.since(self.due))
    }

    /// From posted to complete; `None` if it was not completed.
    pub fn fct(&self) -> Option<Span> {
        Some(self.completed?.since(self.posted))
    }

    /// The completion time as a multiple of the [ideal](Self::ideal) one.
    pub fn slowdown(&self) -> Option<f64> {
        let ideal = self.ideal.as_nanos().max(1);
        Some(self.fct()?.as_nanos() as f64 / ideal as f64)
    }

    /// Index of its size in [`SIZE_LABELS`].
    pub fn size_bucket(&self) -> usize {
        SIZE_BOUNDS.partition_point(|&bound| bound < self.spec.bytes)
    }
}

impl Group {
    fn of(runs: &[&RunResult], belongs: impl Fn(&FlowResult) -> bool) -> Self {
        let of_run = |run: &&RunResult| -> Vec<FlowResult> {
            run.flows.iter().copied().filter(&belongs).collect()
        };
        let runs: Vec<Vec<FlowResult>> = runs.iter().map(of_run).collect();
        let flows: Vec<FlowResult> = runs.concat();
        if flows.is_empty() {
            return Self::default();
        }
        let (fct_us, slowdown) = times(&flows);
        let of_message =
            |flow: &FlowResult| flow.fct().map_or(0.0, |fct| rate(flow.spec.bytes, fct));
        let sizes = SIZE_LABELS.iter().enumerate().map(|(i, label)| {
            let of_size = |flow: &&FlowResult| flow.size_bucket() == i;
            let flows: Vec<FlowResult> = flows.iter().filter(of_size).copied().collect();
            let (fct_us, slowdown) = times(&flows);
            SizeBucket { label, up_to_bytes: SIZE_BOUNDS.get(i).copied(), fct_us, slowdown }
        });
        let seed_means = runs.iter().map(|flows| times(flows).0.mean);
        Self {
            fct_us,
            fct_with_setup_us: with_setup(&flows),
            seed_means_us: seed_means.collect::<Option<_>>().unwrap_or_default(),
            slowdown,
            goodput_bps: mean(runs.iter().map(|flows| goodput(flows))),
            message_goodput_bps: mean(flows.iter().map(of_message)),
            sizes: sizes.collect(),
        }
    }
}

/// Completion times in microseconds, and slowdowns.
fn times(flows: &[FlowResult]) -> (Distribution, Distribution) {
    let fcts: Vec<f64> = flows.iter().filter_map(FlowResult::fct).map(micros).collect();
    let unfinished = (flows.len() - fcts.len()) as u64;
    let slowdowns = flows.iter().filter_map(FlowResult::slowdown).collect();
    (Distribution::of(fcts, unfinished), Distribution::of(slowdowns, unfinished))
}

/// Completion times in microseconds, with connection set-up.
fn with_setup(flows: &[FlowResult]) -> Distribution {
    let times: Vec<f64> = flows.iter().filter_map(FlowResult::fct_with_setup).map(micros).collect();
    let unfinished = (flows.len() - times.len()) as u64;
    Distribution::of(times, unfinished)
}

/// Payload completed by the messages of one run, in bit/s.
fn goodput(flows: &[FlowResult]) -> f64 {
    let first = flows.iter().map(|flow| flow.posted).min();
    let last = flows.iter().filter_map(|flow| flow.completed).max();
    let (Some(first), Some(last)) = (first, last) else { return 0.0 };
    let completed = flows.iter().filter(|flow| flow.completed.is_some());
    rate(completed.map(|flow| flow.spec.bytes).sum(), last.since(first))
}

/// bit/s.
fn rate(bytes: u64, time: Span) -> f64 {
    8e9 * bytes as f64 / time.as_nanos().max(1) as f64
}

fn rounds(runs: &[&RunResult]) -> Distribution {
    let (mut durations, mut unfinished) = (Vec::new(), 0);
    for run in runs {
        let mut rounds: BTreeMap<(u16, u32), Vec<&FlowResult>> = BTreeMap::new();
        for flow in &run.flows {
            rounds.entry((flow.spec.traffic, flow.spec.round)).or_default().push(flow);
        }
        // A later round is posted once the one before is complete; the first alone
        // does not show whether there are more.
        for (&(traffic, _), flows) in &rounds {
            if !rounds.contains_key(&(traffic, 1)) {
                continue;
            }
            let posted = flows.iter().map(|flow| flow.posted).min().unwrap_or(Time::ZERO);
            match flows.iter().map(|flow| flow.completed).collect::<Option<Vec<Time>>>() {
                Some(ends) => {
                    durations.extend(ends.into_iter().max().map(|t| micros(t.since(posted))))
                }
                None => unfinished += 1,
            }
        }
    }
    Distribution::of(durations, unfinished)
}

impl LinkSummary {
    fn of(runs: &[&RunResult]) -> Self {
        Self {
            useful_share: mean(runs.iter().map(|run| useful_share(run))),
            sent_twice_share: mean(runs.iter().map(|run| {
                ratio(run.long_haul.repeated_bytes as f64, run.long_haul.data_bytes as f64)
            })),
            lost_packets: runs.iter().map(|run| run.long_haul.lost_packets).sum(),
            queue_drops: runs.iter().map(|run| run.long_haul.queue_drops).sum(),
        }
    }
}

fn useful_share(run: &RunResult) -> f64 {
    // Hosts are numbered through, site 0 first.
    let over: Vec<&FlowResult> = run.flows.iter().filter(|flow| flow.is_long_haul).collect();
    let forward = over.iter().any(|flow| flow.spec.src < flow.spec.dst);
    let back = over.iter().any(|flow| flow.spec.src > flow.spec.dst);
    let directions = f64::from(u8::from(forward) + u8::from(back));
    let link = &run.long_haul;
    let whole = OfferedUse {
        until: run.end,
        data_bytes: link.data_bytes,
        repeated_bytes: link.repeated_bytes,
    };
    let OfferedUse { until, data_bytes, repeated_bytes } = link.offered.unwrap_or(whole);
    let seconds = until.since(Time::ZERO).as_secs_f64();
    let capacity = directions * link.rate as f64 * seconds / 8.0;
    let unique = data_bytes.saturating_sub(repeated_bytes);
    ratio(unique as f64, capacity)
}

fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// 0 of nothing.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    ratio(values.sum(), count)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
