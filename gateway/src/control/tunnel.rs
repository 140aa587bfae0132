//! Whether the tunnel does its job, and the likely reason where it does not: for `/healthz` and the log.

use std::time::{Duration, Instant};

use tunnel::session::Refusal;

use super::paths;
use super::station::Way;
use crate::config::{Config, TunnelMode};
use crate::port::PortId;
use crate::telemetry::{TunnelCounters, TunnelIo};

/// Time that a problem stands before it is logged. A session begins, or begins again, in less.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an Ethernet header.
pub(super) const ETHER_LEN: u16 = 14;

/// Settings by which the state of the tunnel is judged. Lengths of frames begin with the destination MAC
/// address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Tunnels between the boxes.
    pub tunnels: u8,
    /// WAN ports.
    pub ports: u8,
    /// Lanes of each tunnel in each direction.
    pub lanes: u8,
    /// Without a session frames are dropped, and do not cross as they came.
    pub is_udp: bool,
    /// Bytes by which the tunnel's headers make a frame longer.
    pub headers: u16,
    /// Bytes of the longest frame that the WAN port carries.
    pub port: u16,
    /// Bytes of a full frame of the LAN with those headers.
    pub needed: u16,
}

impl Expected {
    /// `None` without a tunnel.
    pub fn of(config: &Config) -> Option<Self> {
        (config.tunnel.mode != TunnelMode::Off).then(|| Self {
            tunnels: config.tunnel.tunnels,
            ports: u8::try_from(config.wan.len()).unwrap_or(u8::MAX),
            lanes: config.lanes(),
            is_udp: config.tunnel.mode == TunnelMode::Udp,
            headers: config.tunnel.headers(),
            port: config.wan_mtu() + ETHER_LEN,
            needed: config.wan_mtu_needed() + ETHER_LEN,
        })
    }

    /// The fate of frames that do not go through the tunnel.
    pub(super) const fn fate(&self) -> &'static str {
        if self.is_udp { "are dropped" } else { "cross unprotected" }
    }
}

/// The reason why some of the tunnels do not protect every frame, in one line; `None` if all do. It names each of these,
/// unless all have the same problem. Boxes with different numbers of tunnels are the reason why some hear nothing: that is said once.
pub fn problems(expected: &Expected, tunnels: &[TunnelCounters], ways: &[Way]) -> Option<String> {
    let differs = |tunnel: &TunnelCounters| tunnel.last_refusal == Some(Refusal::Tunnels);
    let is_silent = |tunnel: &TunnelCounters| tunnel.last_refusal.is_none();
    let is_explained =
        |it: &TunnelCounters| it.get(TunnelIo::Up) == 0 && (differs(it) || is_silent(it));
    if let Some(tunnel) = tunnels.iter().find(|it| differs(it))
        && tunnels.iter().all(is_explained)
    {
        return problem(expected, tunnel, ways);
    }
    let all: Vec<_> = tunnels.iter().map(|tunnel| problem(expected, tunnel, ways)).collect();
    let first = all.first()?;
    if all.iter().all(|line| line == first) {
        return first.clone();
    }
    let name = |(n, line): (usize, &Option<String>)| {
        let line = line.as_ref()?;
        let rest = line.strip_prefix("tunnel: ").unwrap_or(line);
        Some(format!("tunnel {n} of {}: {rest}", tunnels.len()))
    };
    let named: Vec<_> = all.iter().enumerate().filter_map(name).collect();
    Some(named.join("; "))
}

/// The reason why a tunnel does not protect every frame, in one line; `None` if it does.
pub fn problem(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Option<String> {
    if tunnel.get(TunnelIo::Up) > 0 {
        return paths::short(expected, tunnel, ways).or_else(|| out(expected, tunnel, ways));
    }
    let fate = expected.fate();
    let way = ways.iter().find(|way| way.mac.is_none() || way.has_stranger).or(ways.first());
    let why = without_session(tunnel, way);
    Some(format!("tunnel: no session with the peer, frames {fate}: {why}"))
}

/// Every WAN port and every lane that carries nothing beside others that do, and why.
fn out(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Option<String> {
    let ports = unused_ports(expected, tunnel, ways);
    let short = paths::short_lanes(expected, tunnel, ways);
    let all: Vec<_> =
        ports.into_iter().chain(silent_lanes(expected, tunnel)).chain(short).collect();
    (!all.is_empty()).then(|| format!("tunnel: {}", all.join("; ")))
}

/// The WAN ports that carry nothing beside others that do.
fn unused_ports(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Vec<String> {
    let all = PortId::all(expected.ports).skip(1);
    if expected.ports == 1 || !all.clone().any(|port| tunnel.uses(port.wan_port())) {
        return Vec::new();
    }
    let unused = all.filter(|port| !tunnel.uses(port.wan_port()));
    let say = |port: PortId| {
        let why = match ways.get(usize::from(port.wan_port().get())) {
            Some(Way { next_hop, mac: None, .. }) => format!("next hop {next_hop} does not answer"),
            _ => paths::shorter(tunnel, port, ways).unwrap_or_else(|| {
                "its link is down, or messages of the boxes do not pass it both ways".into()
            }),
        };
        format!("port {} carries nothing, the others take its frames: {why}", port.name())
    };
    unused.map(say).collect()
}

/// The lanes that new frames avoid, beside others. Those of a port that is not used are said with it.
fn silent_lanes(expected: &Expected, tunnel: &TunnelCounters) -> Option<String> {
    let mut of_ports = Vec::new();
    for port in PortId::all(expected.ports).skip(1) {
        let is_of_port = |lane: &u8| lane % expected.ports == port.wan_port().get();
        let lanes: Vec<_> =
            tunnel.silent_lanes().filter(is_of_port).map(|lane| lane.to_string()).collect();
        if let Some((last, others)) = lanes.split_last() {
            let words = match others {
                [] => format!("lane {last}"),
                _ => format!("lanes {} and {last}", others.join(", ")),
            };
            of_ports.push(format!("{words} of port {}", port.name()));
        }
    }
    let is_beside_others = expected.lanes > 1 && !of_ports.is_empty();
    let is_single = tunnel.silent_lanes().count() == 1;
    let [verb, whose, of, paths] = match is_single {
        true => ["carries", "its", "it", "its path is"],
        false => ["carry", "their", "them", "their paths are"],
    };
    is_beside_others.then(|| {
        format!(
            "{} {verb} nothing, the others take {whose} frames: REPORTs of the peer about {of} are overdue, {paths} broken \
             in one direction or both",
            of_ports.join(", ")
        )
    })
}

/// The likely reason for which there is no session.
fn without_session(tunnel: &TunnelCounters, way: Option<&Way>) -> String {
    if let Some(Way { peer, .. }) = way.filter(|way| way.has_stranger) {
        return format!(
            "{peer} is silent, and another address sends to the tunnel: is wan.peer = \"{peer}\" \
             the address of the other box?"
        );
    }
    if let Some(Way { next_hop, mac: None, .. }) = way {
        let protocol = if next_hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
        return format!(
            "next hop {next_hop} does not answer {protocol}: is it up, are wan.address, \
             wan.gateway and wan.peer right, and LAN and WAN the right way round?"
        );
    }
    if let Some(refusal) = tunnel.last_refusal {
        return refused(refusal).into();
    }
    if tunnel.get(TunnelIo::PeerHeard) > 0 {
        return "the peer is heard, and does not hear this box: it refuses our key, as its /healthz says \
                then, or frames get lost on the way to it"
            .into();
    }
    match way {
        None => "no peer answers: is the other box running, with wan.tunnel and the same \
                 tunnel_ethertype, and does the link forward that EtherType?"
            .into(),
        Some(Way { peer, is_answered: true, .. }) => format!(
            "{peer} answers pings: does the other box run with wan.tunnel = \"udp\", wan.peer = this \
             box and the same tunnel_port, and does the network pass that port?"
        ),
        Some(Way { peer, is_answered: false, .. }) => format!(
            "{peer} does not answer pings: is wan.peer the address of the other box, and is there a \
             route to it and back?"
        ),
    }
}

/// The reason for which the peer's newest message was refused.
const fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::BadTag => {
            "the peer has another key: peer.key_file must have the same content on both boxes"
        }
        Refusal::Version => "the peer has another version: install one release on both",
        Refusal::OwnNode => {
            "the peer has this box's node number, or its messages come back: set peer.node"
        }
        Refusal::OtherPeer => "more than one other box answers on the WAN",
        Refusal::OldBoot => {
            "the peer's boot id is older than before: its peer.boot_file is gone, or its clock was set back"
        }
        Refusal::Lanes => "the peer has another number of lanes",
        Refusal::Tunnels => {
            "the peer has another number of tunnels, or divides flows otherwise: set wan.tunnels and \
             worker.spread to the same on both"
        }
        Refusal::Truncated | Refusal::Invalid | Refusal::Replayed | Refusal::OtherSession => {
            "its newest message was refused (lr2_tunnel_refused_messages_total)"
        }
    }
}

/// A line for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// A problem that is new, and stands.
    Problem(String),
    /// There is none any more.
    Solved,
}

/// Remembers the problem that was logged.
#[derive(Debug)]
pub struct Journal {
    /// `None`: nothing was logged.
    logged: Option<Option<String>>,
    seen: Option<String>,
    since: Instant,
}

impl Journal {
    /// Nothing was logged.
    pub fn new(now: Instant) -> Self {
        Self { logged: None, seen: None, since: now }
    }

    /// That there is no problem was said.
    pub fn of_solved(now: Instant) -> Self {
        Self { logged: Some(None), ..Self::new(now) }
    }

    /// The news, given the problem of now. That there is none is news at once.
    pub fn look(&mut self, problem: Option<String>, now: Instant) -> Option<News> {
        if problem != self.seen {
            (self.seen, self.since) = (problem, now);
        }
        let is_early = self.seen.is_some() && now.duration_since(self.since) < PATIENCE;
        if is_early || self.logged.as_ref() == Some(&self.seen) {
            return None;
        }
        self.logged = Some(self.seen.clone());
        Some(self.seen.clone().map_or(News::Solved, News::Problem))
    }
}

#[cfg(test)]
mod tests {
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

    /// A session, with a peer and a path for frames of so many bytes.
    fn up(peer: u64, path: u16) -> TunnelCounters {
        let mut counters = counters(&[(TunnelIo::Up, 1), (TunnelIo::PeerFrame, peer)]);
        let state = PathState { longest: path, shortest: path, ..PathState::default() };
        Port::all(8).for_each(|port| counters.set_path(port, state));
        counters
    }

    fn one(expected: &Expected, tunnel: &TunnelCounters, way: Option<&Way>) -> String {
        let line =
            problem(expected, tunnel, way.map_or(&[], core::slice::from_ref)).expect("a problem");
        assert!(!line.contains('\n'), "{line:?}");
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
        let up = up(4288, 4288);
        let mut other = counters(&[]);
        other.last_refusal = Some(Refusal::Tunnels);
        let said = |tunnels: &[_]| problems(&ETHERNET, tunnels, &[]);
        assert_eq!(said(&[up.clone(), up.clone()]), None);
        let line = said(&[up, other.clone()]).expect("a problem");
        assert!(line.starts_with("tunnel 1 of 2: no session"), "{line}");
        let line = said(&[other.clone(), other.clone()]).expect("a problem");
        assert!(line.starts_with("tunnel: no session") && line.contains("wan.tunnels"), "{line}");
        let line = said(&[other.clone(), counters(&[])]).expect("a problem");
        assert!(line.starts_with("tunnel: no session") && line.contains("wan.tunnels"), "{line}");
        let mut third = counters(&[]);
        third.last_refusal = Some(Refusal::BadTag);
        let line = said(&[other, third]).expect("two problems");
        for part in ["tunnel 0 of 2: no session", "; tunnel 1 of 2: no session", "peer.key_file"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_silent_lane_among_others_is_named() {
        let mut tunnel = up(4248, 4248);
        let several = Expected { lanes: 8, ports: 2, ..ETHERNET };
        tunnel.use_all();
        assert_eq!(problem(&several, &tunnel, &[]), None);
        tunnel.set_silent(&[5]);
        let line = one(&several, &tunnel, None);
        assert!(line.contains("lane 5 of port wan1 carries nothing") && line.contains("REPORT"));
        // One lane that is silent is all there is: frames still take it.
        assert_eq!(problem(&ETHERNET, &tunnel, &[]), None);
    }

    #[test]
    fn every_silent_lane_is_named_beside_every_unused_port() {
        let mut tunnel = up(4248, 4248);
        let several = Expected { lanes: 255, ports: 2, ..ETHERNET };
        tunnel.use_all();
        tunnel.set_silent(&[0, 3, 5, 201, 254]);
        let line = one(&several, &tunnel, None);
        assert!(
            line.starts_with(
                "tunnel: lanes 0 and 254 of port wan, lanes 3, 5 and 201 of port wan1 carry nothing"
            ),
            "{line}"
        );
        tunnel.use_only(&[Port::default()]);
        tunnel.set_silent(&[2]);
        let line = one(&several, &tunnel, None);
        for part in
            ["tunnel: port wan1 carries nothing", "do not pass", "; lane 2 of port wan carries"]
        {
            assert!(line.contains(part), "{line}");
        }
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
        assert_eq!(problem(&UDP, &up(4288, 4288), &[way(true, false)]), None);
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
        assert_eq!(
            line,
            "tunnel: frames of more than 1348 bytes are dropped: IP packets of more than 1400 bytes do not reach the peer \
             198.51.100.7 through port wan: a link between the boxes has a smaller MTU than wan.mtu"
        );
        for reached in [0, 4288] {
            assert_eq!(problem(&UDP, &up(4288, reached), &[]), None);
        }
    }

    /// One of two paths shrinks; a path of one lane does.
    #[test]
    fn a_path_that_is_shorter_than_another_is_named() {
        let several = Expected { lanes: 8, ports: 2, ..UDP };
        let mut tunnel = up(4288, 4288);
        let second = Port::new(1).expect("a port");
        let short = PathState { longest: 1414, shortest: 1414, ..PathState::default() };
        tunnel.set_path(second, short);
        tunnel.use_only(&[Port::default()]);
        let ways = [way(true, true), way(true, true)];
        let line = problem(&several, &tunnel, &ways).expect("a problem");
        assert_eq!(
            line,
            "tunnel: port wan1 carries nothing, the others take its frames: IP packets of more than 1400 bytes do not reach \
             the peer 198.51.100.7 through it, longer ones pass the other ports: a link on its path has a smaller MTU"
        );
        tunnel.use_all();
        tunnel.set_path(second, PathState { longest: 4288, ..short });
        let line = problem(&several, &tunnel, &ways).expect("a problem");
        assert_eq!(
            line,
            "tunnel: lanes of port wan1 carry nothing, the others take their frames: on these lanes IP packets of more than \
             1400 bytes do not reach the peer 198.51.100.7: a link on their paths has a smaller MTU"
        );
    }

    #[test]
    fn a_problem_that_stands_is_logged_once_and_so_is_its_end() {
        let start = Instant::now();
        let at = |half: u32| start + PATIENCE * half / 2;
        let mut journal = Journal::new(start);
        let [peer, router] = ["no peer", "no router"].map(|text| Some(text.to_owned()));
        assert_eq!(journal.look(peer.clone(), at(0)), None);
        assert_eq!(journal.look(peer.clone(), at(2)), peer.clone().map(News::Problem));
        assert_eq!(journal.look(peer.clone(), at(3)), None);
        assert_eq!(journal.look(router.clone(), at(4)), None);
        assert_eq!(journal.look(router.clone(), at(6)), router.map(News::Problem));
        assert_eq!(journal.look(None, at(7)), Some(News::Solved));
        assert_eq!(journal.look(None, at(8)), None);
        // A short one is not worth a line.
        assert_eq!(journal.look(peer, at(9)), None);
        assert_eq!(journal.look(None, at(10)), None);
    }
}
