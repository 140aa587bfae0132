//! Whether the gateway does its job, for a load balancer or a person.

use std::time::Duration;

use common::frame::Side;

use tunnel::session::Refusal;

use super::station::Way;
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
        let way = sample.way.as_ref();
        reasons.extend(way.and_then(without_next_hop));
        let tunnels = state.workers.iter().map(|worker| worker.tunnel());
        reasons.extend(tunnels.filter_map(|tunnel| without_session(&tunnel, way)));
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// Whether the tunnel's next hop answers.
fn without_next_hop(way: &Way) -> Option<String> {
    let Way { next_hop, mac: None, .. } = way else { return None };
    let protocol = if next_hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
    Some(format!(
        "tunnel: next hop {next_hop} does not answer {protocol}: is it up, and are wan.address, \
         wan.gateway and wan.peer right?"
    ))
}

/// Why there is no session with the peer, if there is none.
fn without_session(tunnel: &TunnelCounters, way: Option<&Way>) -> Option<String> {
    if tunnel.get(TunnelIo::Up) > 0 {
        return None;
    }
    let why = match (tunnel.last_refusal, way) {
        (None, Some(Way { peer, is_answered: true, .. })) => {
            return Some(format!(
                "tunnel: no session with the peer, frames are dropped; {peer} answers pings: does the other box \
                 run with wan.tunnel = \"udp\", wan.peer = this box and the same tunnel_port, and \
                 does the network pass that port?"
            ));
        }
        (None, Some(Way { peer, .. })) => {
            return Some(format!(
                "tunnel: no session with the peer, frames are dropped; {peer} does not answer pings: is it wan.peer's \
                 address, and is there a route to it and back?"
            ));
        }
        (None, None) => {
            "no peer answers: is the other box running, with wan.tunnel and the same \
                 tunnel_ethertype, and does the link forward that EtherType?"
        }
        (Some(Refusal::BadTag), _) => {
            "the peer has another key: peer.key_file must have the same content on both boxes"
        }
        (Some(Refusal::Version), _) => {
            "the peer speaks another version: install one release on both"
        }
        (Some(Refusal::OwnNode), _) => {
            "the peer has this box's node number, or its messages come back: set peer.node"
        }
        (Some(Refusal::OtherPeer), _) => "more than one other box answers on the WAN",
        (Some(Refusal::OldBoot), _) => {
            "the peer's boot id is older than before: its peer.boot_file is gone, or its clock was set back"
        }
        (Some(Refusal::Lanes), _) => "the peer has another number of lanes",
        (
            Some(Refusal::Truncated | Refusal::Invalid | Refusal::Replayed | Refusal::OtherSession),
            _,
        ) => "its newest message was refused (lr2_tunnel_refused_messages_total)",
    };
    let fate = if way.is_some() { "are dropped" } else { "cross unprotected" };
    Some(format!("tunnel: no session with the peer, frames {fate}; {why}"))
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
            way: None,
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
            way: None,
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

    #[test]
    fn a_tunnel_over_udp_says_how_far_it_gets() {
        let state = State::new("both", 1, true);
        let reasons = |mac, is_answered| {
            let peer = [198, 51, 100, 7].into();
            state.put(Sample {
                ports: Default::default(),
                up: [true; 2],
                mbufs_free: 1,
                mbufs: 2,
                workers: vec![WorkerHealth::default()],
                stopping: false,
                way: Some(Way { next_hop: [192, 0, 2, 1].into(), mac, peer, is_answered }),
            });
            check(&state).unwrap_err().join("\n")
        };
        let lost = reasons(None, false);
        assert!(lost.contains("next hop 192.0.2.1 does not answer ARP"), "{lost}");
        let lost = reasons(Some([2; 6]), false);
        assert!(
            !lost.contains("next hop") && lost.contains("198.51.100.7 does not answer pings"),
            "{lost}"
        );
        let lost = reasons(Some([2; 6]), true);
        assert!(
            lost.contains("198.51.100.7 answers pings") && lost.contains("tunnel_port"),
            "{lost}"
        );
    }
}
