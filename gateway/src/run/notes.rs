//! What the main thread notes while the workers run: events, links, boxes at the other end, and conditions that keep the
//! gateway from its job.

use std::time::{Duration, Instant, SystemTime};

use common::time::Time;

use crate::config::{Config, TunnelMode};
use crate::control::conditions::{Conditions, Kind, Problem};
use crate::control::tunnel::{Journal, News};
use crate::control::{Sample, State};
use crate::event::{Event, What};
use crate::port::PortId;
use crate::worker::events;

/// Watches the conditions, and writes each change into the log once.
pub(super) struct Notes {
    conditions: Conditions,
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
        Self { conditions: Conditions::new(config), journals: each.map(journal).collect() }
    }

    /// Finds the conditions that hold. To be called with each sample.
    pub(super) fn look(&mut self, state: &State, sample: &Sample, now: Instant) {
        let mut problems = self.conditions.look(state, sample.mbufs_free, now);
        let tunnel = state.tunnel_problem(sample);
        problems.extend(tunnel.map(|text| Problem { kind: Kind::Tunnel, text }));
        for (kind, name, journal) in &mut self.journals {
            let lines = problems.iter().filter(|problem| problem.kind == *kind);
            let text = lines.map(|problem| &*problem.text).collect::<Vec<_>>().join("; ");
            match (journal.look((!text.is_empty()).then_some(text), now), *kind) {
                (Some(News::Problem(line)), Kind::Tunnel) => tracing::warn!("{line}"),
                (Some(News::Problem(line)), _) => tracing::warn!("degraded: {line}"),
                (Some(News::Solved), Kind::Tunnel) => {
                    tracing::info!("tunnel: session with the peer, every frame fits");
                }
                (Some(News::Solved), _) => tracing::info!("no longer degraded: {name}"),
                (None, _) => {}
            }
        }
        state.set_problems(problems);
    }
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
