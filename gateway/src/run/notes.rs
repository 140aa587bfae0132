//! What the main thread notes while the workers run: events, links, boxes at the other end, and conditions that keep the
//! gateway from its job.

use std::time::{Duration, Instant, SystemTime};

use common::time::Time;

use crate::config::{Config, TunnelMode};
use crate::control::conditions::Conditions;
use crate::control::journal::{Journal, News};
use crate::control::reason::{Kind, Word};
use crate::control::refused::Refusals;
use crate::control::{Sample, State, WorkerHealth, health};
use crate::event::{Event, What};
use crate::port::PortId;
use crate::worker::events;

/// Watches the conditions and the workers, and writes each change into the log once.
pub(super) struct Notes {
    /// By worker.
    stalled: Vec<bool>,
    conditions: Conditions,
    refusals: Refusals,
    journals: Vec<(Kind, &'static str, Journal)>,
}

impl Notes {
    /// Nothing was found yet.
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        let has_tunnel = config.tunnel.mode != TunnelMode::Off;
        let each = Kind::ALL.into_iter().filter(|(kind, _)| has_tunnel || *kind != Kind::Tunnel);
        let journal = |(kind, name)| match kind {
            // That all is well is news.
            Kind::Tunnel => (kind, name, Journal::new(now)),
            _ => (kind, name, Journal::of_solved(now)),
        };
        let journals = each.map(journal).collect();
        let (conditions, refusals) = (Conditions::new(config), Refusals::default());
        Self { stalled: Vec::new(), conditions, refusals, journals }
    }

    /// Finds the conditions that hold. To be called with each sample.
    pub(super) fn look(&mut self, state: &State, sample: &Sample, now: Instant) {
        for (line, is_over) in stalls(&mut self.stalled, &sample.workers) {
            if is_over {
                tracing::info!("{line}");
            } else {
                tracing::error!("{line}");
            }
        }
        let mut reasons = self.conditions.look(state, sample.mbufs_free, now);
        let refused = self.refusals.look(state, sample, now);
        reasons.extend(state.tunnel_reasons(sample, !refused.is_empty()));
        reasons.extend(refused);
        for (kind, name, journal) in &mut self.journals {
            let of_kind = || reasons.iter().filter(|reason| reason.kind == *kind);
            let lines: Vec<_> = of_kind().map(ToString::to_string).collect();
            let word = of_kind().map(|reason| reason.word).max().unwrap_or_default();
            let text = (word > Word::Ok).then(|| format!("{word}: {}", lines.join("; ")));
            match (journal.look(text, now), *kind) {
                (Some(News::Reasons(line)), _) => tracing::warn!("{line}"),
                (Some(News::Solved), Kind::Tunnel) => {
                    tracing::info!("tunnel: session with the peer, every frame fits");
                }
                (Some(News::Solved), _) => tracing::info!("no longer degraded: {name}"),
                (None, _) => {}
            }
        }
        state.set_reasons(reasons);
    }
}

/// A line for each worker that stalls since the last call, and for each that no longer does.
fn stalls(before: &mut Vec<bool>, workers: &[WorkerHealth]) -> Vec<(String, bool)> {
    before.resize(workers.len(), false);
    let each = before.iter_mut().zip(workers).enumerate();
    let changed = each.filter_map(|(n, (before, worker))| {
        let was_stalled = std::mem::replace(before, worker.stalled);
        (was_stalled != worker.stalled).then_some((n, was_stalled))
    });
    let line = |(n, is_over)| match is_over {
        true => (format!("worker {n} shows signs of life again"), true),
        false => (health::silent(n), false),
    };
    changed.map(line).collect()
}

/// Notes links that went up or down.
pub(super) fn links(state: &State, up: &mut [Option<bool>], sample: &Sample) {
    for ((id, before), now) in PortId::all(u8::MAX).zip(up).zip(&sample.up) {
        if before.replace(*now) != Some(*now) {
            let port = id.name();
            let what = if *now { What::LinkUp { port } } else { What::LinkDown { port } };
            state.events.note(Default::default(), SystemTime::now(), what);
        }
    }
}

/// Takes what the workers say. `now` is a time of their clock.
pub(super) fn workers(state: &State, ends: &mut [events::ControlEnd], now: Time) {
    let wall = SystemTime::now();
    state.wall.set(now, wall);
    for (worker, end) in ends.iter_mut().enumerate() {
        while let Some(Event { at, tunnel, what }) = end.event() {
            let ago = Duration::from_nanos(now.since(at).as_nanos());
            let place = state.place(worker, tunnel);
            state.events.note(place, wall.checked_sub(ago).unwrap_or(wall), what);
        }
        state.events.set_missed(worker, end.missed());
        while let Some(report) = end.report() {
            state.peers.note(report, now, wall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_stalls_is_said_once_and_again_when_it_is_over() {
        let mut before = Vec::new();
        let mut look = |stalled: [bool; 2]| {
            let workers = stalled.map(|stalled| WorkerHealth { busy_ratio: 0.0, stalled });
            stalls(&mut before, &workers)
        };
        assert!(look([false; 2]).is_empty());
        let said = ("worker 1 has shown no sign of life for 1 s".to_owned(), false);
        assert_eq!(look([false, true]), [said]);
        assert!(look([false, true]).is_empty());
        let said = ("worker 1 shows signs of life again".to_owned(), true);
        assert_eq!(look([false; 2]), [said]);
    }
}
