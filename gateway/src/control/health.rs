//! Whether the gateway does its job, for a load balancer or a person.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reason::{self, Kind, Reason, Standing, Word};
use super::{Fault, State};
use crate::port::PortId;

/// The command that shows the log.
const LOG: &str = "journalctl -u lr2-gateway -n 50";

/// Silence of a worker after which it counts as stalled. It publishes every
/// few milliseconds.
pub const STALL: Duration = Duration::from_secs(1);

/// The word and the lines of all pairs of ports: the worst word, and the reasons. Of several pairs, each line begins with the
/// name of its pair.
pub fn check_all(states: &[Arc<State>]) -> (Word, Vec<String>) {
    let (mut worst, mut lines) = (Word::Ok, Vec::new());
    for state in states {
        let standing = check(state, Instant::now());
        worst = worst.max(reason::word(&standing));
        lines.extend(standing.iter().map(|it| match state.pair() {
            Some(name) if states.len() > 1 => format!("pair {name}: {it}"),
            _ => it.to_string(),
        }));
    }
    (worst, lines)
}

/// The reasons for which a pair of ports does not do its job; none if it does. The main thread calls it with each sample, so
/// that ages are right however rarely others ask.
pub fn check(state: &State, now: Instant) -> Vec<Standing> {
    state.ages.stamp(reasons(state), now)
}

fn reasons(state: &State) -> Vec<Reason> {
    let down = |text: String, next| Reason::down(Kind::Box, text, next);
    if let Some(fault) = state.fault() {
        return vec![down(format!("it does not forward: {fault}"), LOG)];
    }
    let Some(sample) = state.sample() else {
        return vec![down("starting: ports are not open yet".into(), LOG)];
    };
    let mut reasons = Vec::new();
    if sample.stopping {
        reasons.push(down("stopping".into(), LOG));
    }
    for (n, _) in sample.workers.iter().enumerate().filter(|(_, worker)| worker.stalled) {
        reasons.push(down(silent(n), LOG));
    }
    let is_wan_up = sample.up.iter().skip(1).any(|is_up| *is_up);
    for (port, is_up) in PortId::all(u8::MAX).zip(&sample.up) {
        if state.links.is_held(port) {
            let other =
                if port == PortId::LAN { "no WAN port has a" } else { "the LAN port has no" };
            let text = format!(
                "port {} is taken down, as {other} link: mend that one (link_loss.forward)",
                port.name()
            );
            reasons.push(down(text, "lr2ctl ports"));
        } else if !is_up {
            let down = down(format!("port {} is down", port.name()), "lr2ctl ports");
            let has_others = is_wan_up && port != PortId::LAN;
            reasons.push(if has_others { Reason { word: Word::Degraded, ..down } } else { down });
        }
    }
    reasons.extend(state.reasons());
    reasons
}

/// The sentence about a worker that stalls.
pub fn silent(worker: usize) -> String {
    format!("worker {worker} has shown no sign of life for {} s", STALL.as_secs())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, next } = self;
        match next {
            None => write!(f, "{why}; mend it, and restart the gateway"),
            Some(next) => {
                let left = next.saturating_duration_since(Instant::now());
                write!(f, "{why}; mend it: it is tried again in {} s", left.as_secs() + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Sample, WorkerHealth};

    fn said(state: &State) -> (Word, Vec<String>) {
        let standing = check(state, Instant::now());
        (reason::word(&standing), standing.iter().map(ToString::to_string).collect())
    }

    fn sample() -> Sample {
        Sample {
            ports: vec![Default::default(); 2],
            up: vec![true; 2],
            mbufs_free: 1,
            mbufs: 2,
            workers: vec![WorkerHealth::default(); 2],
            stopping: false,
            ways: Vec::new(),
        }
    }

    #[test]
    fn every_reason_is_told() {
        let state = State::new("both", 2, None);
        let (word, lines) = said(&state);
        assert_eq!(word, Word::Down);
        assert!(lines[0].starts_with("down for 0s: starting"), "{lines:?}");
        state.put(sample());
        assert_eq!(said(&state), (Word::Ok, vec![]));
        state.set_reasons(vec![Reason::degraded(Kind::NoPeer, "no peer answers", "lr2ctl peers")]);
        let line = "degraded for 0s: no peer answers; next: lr2ctl peers".to_owned();
        assert_eq!(said(&state), (Word::Degraded, vec![line.clone()]));
        state.put(Sample {
            up: vec![true, false],
            workers: vec![WorkerHealth::default(), WorkerHealth { stalled: true, busy_ratio: 0.0 }],
            stopping: true,
            ..sample()
        });
        let (word, lines) = said(&state);
        let log = LOG;
        assert_eq!(
            (word, lines),
            (
                Word::Down,
                vec![
                    format!("down for 0s: stopping; next: {log}"),
                    format!("down for 0s: worker 1 has shown no sign of life for 1 s; next: {log}"),
                    "down for 0s: port wan is down; next: lr2ctl ports".into(),
                    line,
                ]
            )
        );
        state.links.set_held(PortId::LAN, true);
        let (_, lines) = said(&state);
        let held = "down for 0s: port lan is taken down, as no WAN port has a link";
        assert!(lines.iter().any(|it| it.starts_with(held)), "{lines:?}");
    }

    /// The others carry the frames.
    #[test]
    fn a_wan_port_without_a_link_beside_others_drops_nothing() {
        let state = State::new("both", 1, None);
        for (up, word) in [
            ([true, false, true], Word::Degraded),
            ([true, false, false], Word::Down),
            ([false, true, true], Word::Down),
        ] {
            state.put(Sample { up: up.to_vec(), ..sample() });
            assert_eq!(said(&state).0, word, "{up:?}");
        }
    }
}
