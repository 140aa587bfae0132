//! Each way in which a tunnel does not protect every frame has its reason.

use super::*;
use crate::telemetry::PublishedTunnel;
use tunnel::{PathState, Port};

const ETHERNET: Expected = Expected {
    tunnels: 1,
    ports: 1,
    lanes: 1,
    is_udp: false,
    headers: 26,
    port: 4248,
    needed: 4200 + 14 + 8 + 26,
};
const UDP: Expected = Expected {
    tunnels: 1,
    ports: 1,
    lanes: 1,
    is_udp: true,
    headers: 66,
    port: 4288,
    needed: 4200 + 14 + 8 + 66,
};

fn counters(values: &[(TunnelIo, u64)]) -> TunnelCounters {
    let mut counters = PublishedTunnel::new(1).counters();
    values.iter().for_each(|(what, n)| counters.set(*what, *n));
    counters
}

/// A session, with a peer and paths for frames of so many bytes.
fn up(peer: u64, path: u16) -> TunnelCounters {
    let mut tunnel = counters(&[(TunnelIo::Up, 1), (TunnelIo::PeerFrame, peer)]);
    let state = PathState { longest: path, shortest: path, ..PathState::default() };
    Port::all(8).for_each(|port| tunnel.set_path(port, state));
    tunnel.use_all();
    tunnel
}

fn join(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}

fn known(ways: &[Way]) -> Known<'_> {
    Known { ways, is_refusing: false }
}

fn one(expected: &Expected, tunnel: &TunnelCounters, way: Option<&Way>) -> String {
    let reasons = of_one(expected, tunnel, &known(way.map_or(&[], core::slice::from_ref)));
    let line = join(&reasons);
    assert!(!reasons.is_empty() && !line.contains('\n'), "{line:?}");
    line
}

fn way(mac: bool, is_answered: bool) -> Way {
    let [next_hop, peer] = [[192, 0, 2, 1], [198, 51, 100, 7]].map(Into::into);
    let mac = mac.then_some([2; 6]);
    Way { next_hop, mac, peer, is_answered, has_stranger: false }
}

#[test]
fn another_key_is_named_with_either_encapsulation() {
    let mut tunnel = counters(&[]);
    let silent = one(&ETHERNET, &tunnel, None);
    assert!(silent.contains("cross unprotected: no peer answers"), "{silent}");
    tunnel.last_refusal = Some(Refusal::BadTag);
    for (expected, way) in [(&ETHERNET, None), (&UDP, Some(&way(true, true)))] {
        let line = one(expected, &tunnel, way);
        assert!(line.contains("peer.key_file") && line.contains(expected.fate()), "{line}");
    }
    tunnel.last_refusal = Some(Refusal::OwnNode);
    assert!(one(&ETHERNET, &tunnel, None).contains("set peer.node"));
}

#[test]
fn a_problem_of_one_of_several_tunnels_names_it() {
    let up = up(4248, 4248);
    let mut other = counters(&[]);
    other.last_refusal = Some(Refusal::Tunnels);
    let said = |tunnels: &[_]| join(&reasons(&ETHERNET, tunnels, &known(&[])));
    assert_eq!(said(&[up.clone(), up.clone()]), "");
    let line = said(&[up, other.clone()]);
    assert!(line.starts_with("tunnel 1 of 2: no session"), "{line}");
    let line = said(&[other.clone(), other.clone()]);
    assert!(line.starts_with("tunnel: no session") && line.contains("wan.tunnels"), "{line}");
    let line = said(&[other.clone(), counters(&[])]);
    assert!(line.starts_with("tunnel: no session") && line.contains("wan.tunnels"), "{line}");
    let mut third = counters(&[]);
    third.last_refusal = Some(Refusal::BadTag);
    let line = said(&[other, third]);
    for part in ["tunnel 0 of 2: no session", " | tunnel 1 of 2: no session", "peer.key_file"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn a_silent_lane_among_others_is_named() {
    let mut tunnel = up(4248, 4248);
    let several = Expected { lanes: 8, ports: 2, ..ETHERNET };
    assert_eq!(of_one(&several, &tunnel, &known(&[])), []);
    tunnel.set_silent(&[5]);
    let line = one(&several, &tunnel, None);
    assert!(line.starts_with("port wan1: tunnel: lane 5 carries nothing, other lanes"), "{line}");
    assert!(line.contains("REPORT") && line.ends_with("; next: lr2ctl lanes"), "{line}");
    // One lane that is silent is all there is: frames still take it.
    tunnel.set_silent(&[0]);
    assert_eq!(of_one(&ETHERNET, &tunnel, &known(&[])), []);
}

#[test]
fn every_silent_lane_is_named_beside_every_unused_port() {
    let mut tunnel = up(4248, 4248);
    let several = Expected { lanes: 255, ports: 2, ..ETHERNET };
    tunnel.set_silent(&[0, 3, 5, 201, 254]);
    let line = one(&several, &tunnel, None);
    for part in [
        "port wan: tunnel: lanes 0 and 254 carry nothing",
        " | port wan1: tunnel: lanes 3, 5 and 201 carry nothing",
    ] {
        assert!(line.contains(part), "{line}");
    }
    tunnel.use_only(&[Port::default()]);
    tunnel.set_silent(&[2]);
    let line = one(&several, &tunnel, None);
    for part in [
        "port wan1: tunnel: carries nothing, the other ports take its frames",
        "its link is down, or messages of the boxes do not pass it both ways",
        "port wan: tunnel: lane 2 carries",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

/// There are no others that take the frames.
#[test]
fn a_tunnel_of_which_no_lane_works_is_down() {
    let several = Expected { lanes: 4, ports: 2, ..ETHERNET };
    let (mut silent, mut unused) = (up(4248, 4248), up(4248, 4248));
    silent.set_silent(&[0, 1, 2, 3]);
    unused.use_only(&[]);
    for tunnel in [silent, unused] {
        let reasons = of_one(&several, &tunnel, &known(&[way(true, true), way(true, true)]));
        let [reason] = &*reasons else { panic!("{reasons:?}") };
        assert_eq!(reason.word, Word::Down);
        let line = reason.to_string();
        assert!(line.starts_with("peer 198.51.100.7: tunnel: no lane works"), "{line}");
        assert!(!line.contains("other"), "{line}");
    }
}

/// Later refusals are newer, and so is silence after them.
#[test]
fn a_peer_that_ended_the_session_is_said_to_have() {
    let mut tunnel = counters(&[]);
    tunnel.last_end = Some(End::Bye);
    for way in [None, Some(&way(false, false))] {
        let line = one(&UDP, &tunnel, way);
        assert!(
            line.contains("frames are dropped: the peer ended it, as a box that is drained"),
            "{line}"
        );
    }
    tunnel.last_refusal = Some(Refusal::OtherSession);
    assert!(one(&UDP, &tunnel, None).contains("the peer ended it"), "the BYE of another port");
    tunnel.last_refusal = Some(Refusal::BadTag);
    assert!(one(&UDP, &tunnel, None).contains("peer.key_file"));
    let mut silent = counters(&[]);
    silent.last_end = Some(End::Silence);
    assert!(one(&UDP, &silent, Some(&way(true, false))).contains("does not answer pings"));
}

#[test]
fn a_box_that_refuses_all_datagrams_does_not_ask_whether_the_peer_runs() {
    let ways = [way(true, true)];
    let reasons = of_one(&UDP, &counters(&[]), &Known { ways: &ways, is_refusing: true });
    let line = join(&reasons);
    assert!(
        line.contains("this box refuses the peer's datagrams") && !line.contains('?'),
        "{line}"
    );
}

#[test]
fn a_peer_that_does_not_hear_this_box_is_named() {
    let line = one(&ETHERNET, &counters(&[(TunnelIo::PeerHeard, 1)]), None);
    assert!(line.contains("does not hear this box"), "{line}");
}

#[test]
fn a_tunnel_over_udp_says_how_far_it_gets() {
    let none = counters(&[]);
    let line = one(&UDP, &none, Some(&way(false, false)));
    assert!(line.contains("are dropped: next hop 192.0.2.1 does not answer ARP"), "{line}");
    let line = one(&UDP, &none, Some(&way(true, false)));
    assert!(line.contains("are dropped: 198.51.100.7 does not answer pings"), "{line}");
    let line = one(&UDP, &none, Some(&way(true, true)));
    assert!(line.contains("198.51.100.7 answers") && line.contains("tunnel_port"), "{line}");
    let line = one(&UDP, &none, Some(&Way { has_stranger: true, ..way(true, true) }));
    assert!(line.contains("is wan.peer = \"198.51.100.7\" the address"), "{line}");
    assert_eq!(of_one(&UDP, &up(4288, 4288), &known(&[way(true, false)])), []);
}

#[test]
fn a_small_mtu_is_found_here_at_the_peer_and_between() {
    let said = |expected: &Expected, peer, path| one(expected, &up(peer, path), None);
    let line = said(&Expected { port: 4220 + 14, ..ETHERNET }, 4248, 4234);
    for part in ["more than 4208 bytes cross unprotected", "wan.mtu here is 4220, and 4234"] {
        assert!(line.contains(part), "{line}");
    }
    let line = said(&ETHERNET, 4220 + 14, 4234);
    assert!(line.contains("wan.mtu of the peer is 4220, and 4234"), "{line}");
    let line = one(&UDP, &up(4288, 1414), Some(&way(true, true)));
    for part in [
        "port wan, peer 198.51.100.7: tunnel: frames of more than 1348 bytes are dropped",
        "IP packets of more than 1400 bytes do not reach the peer",
        "next: lr2ctl path",
    ] {
        assert!(line.contains(part), "{line}");
    }
    for reached in [0, 4288] {
        assert_eq!(of_one(&UDP, &up(4288, reached), &known(&[])), []);
    }
}

#[test]
fn a_path_that_is_shorter_than_another_is_named() {
    let several = Expected { lanes: 8, ports: 2, ..UDP };
    let mut tunnel = up(4288, 4288);
    let second = Port::new(1).expect("a port");
    let short = PathState { longest: 1414, shortest: 1414, ..PathState::default() };
    tunnel.set_path(second, short);
    tunnel.use_only(&[Port::default()]);
    let ways = [way(true, true), way(true, true)];
    let said = |tunnel: &TunnelCounters| join(&of_one(&several, tunnel, &known(&ways)));
    let line = said(&tunnel);
    for part in [
        "port wan1, peer 198.51.100.7: tunnel: carries nothing",
        "IP packets of more than 1400 bytes do not reach the peer through it, longer ones pass the other ports",
        "; next: lr2ctl path",
    ] {
        assert!(line.contains(part), "{line}");
    }
    tunnel.use_all();
    tunnel.set_path(second, PathState { longest: 4288, ..short });
    let line = said(&tunnel);
    for part in [
        "port wan1, peer 198.51.100.7: tunnel: some lanes carry nothing",
        "on these lanes IP packets of more than 1400 bytes do not reach the peer",
        "; next: lr2ctl path",
    ] {
        assert!(line.contains(part), "{line}");
    }
}
