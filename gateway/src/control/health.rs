//! Whether the gateway does its job, for a load balancer or a person.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Fault, State};
use crate::port::PortId;

/// Silence of a worker after which it counts as stalled. It publishes every
/// few milliseconds.
pub const STALL: Duration = Duration::from_secs(1);

/// How a reason begins that says that frames are forwarded, and not all are protected.
pub const DEGRADED: &str = "degraded: ";

/// The same of all pairs of ports; of several, each reason begins with the name of its pair.
///
/// # Errors
/// The reasons, in words.
pub fn check_all(states: &[Arc<State>]) -> Result<(), Vec<String>> {
    let mut all = Vec::new();
    for state in states {
        let named = |reason: String| match state.pair() {
            Some(name) if states.len() > 1 => format!("pair {name}: {reason}"),
            _ => reason,
        };
        all.extend(check(state).err().into_iter().flatten().map(named));
    }
    if all.is_empty() { Ok(()) } else { Err(all) }
}

/// `Ok` if a pair of ports does its job, else the reasons why it does not.
///
/// # Errors
/// The reasons, in words.
pub fn check(state: &State) -> Result<(), Vec<String>> {
    if let Some(fault) = state.fault() {
        return Err(vec![format!("it does not forward: {fault}")]);
    }
    let Some(sample) = state.sample() else {
        return Err(vec!["starting: ports are not open yet".into()]);
    };
    let mut reasons = Vec::new();
    if sample.stopping {
        reasons.push("stopping".to_owned());
    }
    for (n, _) in sample.workers.iter().enumerate().filter(|(_, worker)| worker.stalled) {
        reasons.push(silent(n));
    }
    for (port, is_up) in PortId::all(u8::MAX).zip(&sample.up) {
        if state.links.is_held(port) {
            let other =
                if port == PortId::LAN { "no WAN port has a" } else { "the LAN port has no" };
            reasons.push(format!(
                "port {} is taken down, as {other} link: mend that one (link_loss.forward)",
                port.name()
            ));
        } else if !is_up {
            reasons.push(format!("port {} is down", port.name()));
        }
    }
    // It forwards, and does not protect as it should.
    reasons.extend(state.problems().iter().map(|problem| format!("{DEGRADED}{}", problem.text)));
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
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
    use crate::control::conditions::{Kind, Problem};
    use crate::control::{Sample, WorkerHealth};

    #[test]
    fn every_reason_is_told() {
        let state = State::new("both", 2, None);
        assert!(check(&state).unwrap_err()[0].starts_with("starting"));
        let sample = Sample {
            ports: vec![Default::default(); 2],
            up: vec![true; 2],
            mbufs_free: 1,
            mbufs: 2,
            workers: vec![WorkerHealth::default(); 2],
            stopping: false,
            ways: Vec::new(),
        };
        state.put(sample.clone());
        assert_eq!(check(&state), Ok(()));
        state.put(Sample {
            up: vec![true, false],
            workers: vec![WorkerHealth::default(), WorkerHealth { stalled: true, busy_ratio: 0.0 }],
            stopping: true,
            ..sample
        });
        let text = "no peer answers".to_owned();
        state.set_problems(vec![Problem { kind: Kind::NoPeer, text }]);
        let reasons = check(&state).unwrap_err();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert!(reasons.contains(&"degraded: no peer answers".to_owned()));
        assert!(reasons.iter().any(|reason| reason.starts_with("worker 1 ")), "{reasons:?}");
        assert!(reasons.contains(&"port wan is down".to_owned()));
        state.links.set_held(PortId::LAN, true);
        let reasons = check(&state).unwrap_err();
        assert!(
            reasons.iter().any(|it| it.starts_with("port lan is taken down, as no WAN port has")),
            "{reasons:?}"
        );
    }
}
