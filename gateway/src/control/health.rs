//! Whether the gateway does its job, for a load balancer or a person.

use std::time::Duration;

use common::frame::Side;

use tunnel::session::Refusal;

use super::{State, side_name};
use crate::telemetry::{TunnelCounters, TunnelIo};

/// Silence of a worker after which it counts as stalled. It publishes every
/// few milliseconds.
pub const STALL: Duration = Duration::from_secs(1);

/// `Ok` if all is well, else the reasons why it is not.
///
/// # Errors
/// The reasons, in words.
pub fn check(state: &State) -> Result<(), Vec<String>> {
    let Some(sample) = state.sample() else {
        return Err(vec!["starting: ports are not open yet".into()]);
    };
    let mut reasons = Vec::new();
    if sample.stopping {
        reasons.push("stopping".to_owned());
    }
    for (n, _) in sample.workers.iter().enumerate().filter(|(_, worker)| worker.stalled) {
        reasons.push(format!("worker {n} has shown no sign of life for {} s", STALL.as_secs()));
    }
    for side in [Side::Lan, Side::Wan] {
        if !sample.up[side.index()] {
            reasons.push(format!("port {} is down", side_name(side)));
        }
    }
    if state.has_tunnel {
        reasons.extend(state.workers.iter().filter_map(|worker| without_session(&worker.tunnel())));
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// Why there is no session with the peer, if there is none.
fn without_session(tunnel: &TunnelCounters) -> Option<String> {
    if tunnel.get(TunnelIo::Up) > 0 {
        return None;
    }
    let why = match tunnel.last_refusal {
        None => {
            "no peer answers: is the other box running, with wan.tunnel and the same \
                 tunnel_ethertype, and does the link forward that EtherType?"
        }
        Some(Refusal::BadTag) => {
            "the peer has another key: peer.key_file must have the same content on both boxes"
        }
        Some(Refusal::Version) => "the peer speaks another version: install one release on both",
        Some(Refusal::OwnNode) => {
            "the peer has this box's node number, or its messages come back: set peer.node"
        }
        Some(Refusal::OtherPeer) => "more than one other box answers on the WAN",
        Some(Refusal::OldBoot) => {
            "the peer's boot id is older than before: its peer.boot_file is gone, or its clock was set back"
        }
        Some(Refusal::Lanes) => "the peer has another number of lanes",
        Some(Refusal::Truncated | Refusal::Invalid | Refusal::Replayed | Refusal::OtherSession) => {
            "its newest message was refused (lr2_tunnel_refused_messages_total)"
        }
    };
    Some(format!("tunnel: no session with the peer, frames cross unprotected; {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Sample, WorkerHealth};

    #[test]
    fn every_reason_is_told() {
        let state = State::new("both", 2, false);
        assert!(check(&state).unwrap_err()[0].starts_with("starting"));
        let sample = Sample {
            ports: Default::default(),
            up: [true; 2],
            mbufs_free: 1,
            mbufs: 2,
            workers: vec![WorkerHealth::default(); 2],
            stopping: false,
        };
        state.put(sample.clone());
        assert_eq!(check(&state), Ok(()));
        state.put(Sample {
            up: [true, false],
            workers: vec![WorkerHealth::default(), WorkerHealth { stalled: true, busy_ratio: 0.0 }],
            stopping: true,
            ..sample
        });
        let reasons = check(&state).unwrap_err();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons.iter().any(|reason| reason.starts_with("worker 1 ")), "{reasons:?}");
        assert!(reasons.contains(&"port wan is down".to_owned()));
    }
    #[test]
    fn a_tunnel_without_a_session_says_why() {
        let state = State::new("both", 1, true);
        state.put(Sample {
            ports: Default::default(),
            up: [true; 2],
            mbufs_free: 1,
            mbufs: 2,
            workers: vec![WorkerHealth::default()],
            stopping: false,
        });
        let reason = || check(&state).unwrap_err().concat();
        assert!(reason().contains("no peer answers"), "{}", reason());
        let mut tunnel = state.workers[0].tunnel();
        let mut publish = |refusal| {
            tunnel.last_refusal = Some(refusal);
            state.workers[0].store(&Default::default(), &Default::default(), Some(&tunnel));
        };
        publish(Refusal::BadTag);
        assert!(reason().contains("peer.key_file"), "{}", reason());
        publish(Refusal::OwnNode);
        assert!(reason().contains("peer.node"), "{}", reason());
    }
}
