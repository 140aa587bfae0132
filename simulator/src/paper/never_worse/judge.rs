//! The verdict on the runs of a cell.

use common::time::Span;

use super::Cell;
use crate::path::Path;
use crate::results::{FlowResult, RunResult};
use crate::scheme::Scheme;

/// Longest time of a mode, as a multiple of go-back-N's time.
pub const LIMIT: f64 = 1.05;

/// The modes and the tunnel that are judged, and `lr2`, which is reported.
pub const OURS: [Scheme; 4] = [Scheme::AUTO, Scheme::CACHED, Scheme::TUNNEL, Scheme::LR2];

/// Completion times of a scheme in a cell, over all messages of all seeds that
/// are complete under every scheme compared, in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Times {
    /// Arithmetic mean.
    pub mean: f64,
    /// 99th percentile, nearest rank.
    pub p99: f64,
}

/// A mode in a cell, beside go-back-N.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Verdict {
    /// Which.
    pub scheme: Scheme,
    /// Times as multiples of go-back-N's, over the messages that both completed.
    pub ratio: Times,
    /// Standard error of both, by a jackknife over the seeds.
    pub error: Times,
    /// Messages that were not complete: their queue pair failed, or the limit came.
    pub dead: u64,
    /// Seeds in which the mean is longer than [`LIMIT`] allows.
    pub slow_seeds: u64,
    /// Packets that a queue on the way had no room for.
    pub queue_drops: u64,
    /// Packets that the Depot resent.
    pub local_resends: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Results of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The cell.
    pub cell: Cell,
    /// Go-back-N's own times, over all its messages that were complete.
    pub plain: Times,
    /// As of [`Verdict`], go-back-N's.
    pub plain_dead: u64,
    /// Likewise.
    pub plain_drops: u64,
    /// Likewise.
    pub plain_timeouts: u64,
    /// One for each of [`OURS`].
    pub verdicts: Vec<Verdict>,
}

/// The pairs of completion times of a seed, ours and go-back-N's.
type Pairs = Vec<(f64, f64)>;

impl Judged {
    /// Of `cell`, whose runs with go-back-N and each of [`OURS`] are in `results`.
    pub fn of(cell: Cell, results: &[RunResult]) -> Self {
        let runs = |scheme| -> Vec<&RunResult> {
            results.iter().filter(|run| run.scheme == scheme).collect()
        };
        let rtt = Path::longest(&cell.scenario, true).rtt(cell.scenario.nic.pmtu);
        let plain = runs(Scheme::GBN);
        let all = plain.iter().flat_map(|run| &run.flows).filter_map(|flow| taken(flow, rtt));
        let verdicts = OURS.iter().map(|scheme| verdict(*scheme, &runs(*scheme), &plain, rtt));
        Self {
            plain: times(all.collect()),
            plain_dead: dead(&plain),
            plain_drops: plain.iter().map(|run| run.long_haul.queue_drops).sum(),
            plain_timeouts: plain.iter().map(|run| run.hosts.timeouts).sum(),
            verdicts: verdicts.collect(),
            cell,
        }
    }

    /// The verdict on `scheme`.
    pub fn verdict(&self, scheme: Scheme) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.scheme == scheme)
    }

    /// Whether `verdict` is no worse than go-back-N: mean and 99th percentile
    /// within [`LIMIT`], and no more messages dead.
    pub fn is_met(&self, verdict: &Verdict) -> bool {
        let Times { mean, p99 } = verdict.ratio;
        mean <= LIMIT && p99 <= LIMIT && verdict.dead <= self.plain_dead
    }
}

/// Milliseconds of a message, and of its connection beyond a round
/// trip because a message of connection management was lost. `None` if it was
/// not complete.
fn taken(flow: &FlowResult, rtt: Span) -> Option<f64> {
    let late = flow.posted.since(flow.spec.start) - rtt; // never below zero
    Some((flow.fct()? + late).as_nanos() as f64 / 1e6)
}

fn dead(runs: &[&RunResult]) -> u64 {
    let flows = runs.iter().flat_map(|run| &run.flows);
    flows.filter(|flow| flow.completed.is_none()).count() as u64
}

fn verdict(scheme: Scheme, ours: &[&RunResult], plain: &[&RunResult], rtt: Span) -> Verdict {
    let both = ours.iter().zip(plain);
    let seeds: Vec<Pairs> = both.map(|(ours, plain)| pairs(ours, plain, rtt)).collect();
    let (ratio, error) = ratios(&seeds);
    let is_slow = |pairs: &&Pairs| ratio_of(pairs).mean > LIMIT;
    Verdict {
        scheme,
        ratio,
        error,
        dead: dead(ours),
        slow_seeds: seeds.iter().filter(is_slow).count() as u64,
        queue_drops: ours.iter().map(|run| run.long_haul.queue_drops).sum(),
        local_resends: ours.iter().map(|run| local_resends(run)).sum(),
        timeouts: ours.iter().map(|run| run.hosts.timeouts).sum(),
    }
}

/// Both runs have the same messages in the same order.
fn pairs(ours: &RunResult, plain: &RunResult, rtt: Span) -> Pairs {
    let both = ours.flows.iter().zip(&plain.flows);
    both.filter_map(|(ours, plain)| taken(ours, rtt).zip(taken(plain, rtt))).collect()
}

fn local_resends(run: &RunResult) -> u64 {
    let of =
        run.counters.iter().filter(|(name, _)| name.starts_with("lr2_depot_local_resent_total"));
    of.map(|(_, count)| count).sum()
}

/// Over all seeds, with the standard error.
fn ratios(seeds: &[Pairs]) -> (Times, Times) {
    let whole = ratio_of(&seeds.concat());
    let without: Vec<Times> = (0..seeds.len())
        .map(|n| {
            let others = seeds.iter().enumerate().filter(|(i, _)| *i != n);
            ratio_of(&others.flat_map(|(_, pairs)| pairs).copied().collect())
        })
        .collect();
    let error = |of: fn(&Times) -> f64| {
        let n = without.len().max(1) as f64;
        let mean = without.iter().map(of).sum::<f64>() / n;
        let squares: f64 = without.iter().map(|times| (of(times) - mean).powi(2)).sum();
        ((n - 1.0) / n * squares).sqrt()
    };
    (whole, Times { mean: error(|t| t.mean), p99: error(|t| t.p99) })
}

fn ratio_of(pairs: &Pairs) -> Times {
    let ours = times(pairs.iter().map(|pair| pair.0).collect());
    let plain = times(pairs.iter().map(|pair| pair.1).collect());
    Times { mean: share(ours.mean, plain.mean), p99: share(ours.p99, plain.p99) }
}

/// 1 of nothing.
fn share(ours: f64, plain: f64) -> f64 {
    if plain > 0.0 { ours / plain } else { 1.0 }
}

/// 0 of nothing.
fn times(values: Vec<f64>) -> Times {
    let all = crate::results::Distribution::of(values, 0);
    Times { mean: all.mean.unwrap_or_default(), p99: all.p99.unwrap_or_default() }
}
