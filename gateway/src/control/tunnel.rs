//! Whether the tunnel does its job, and the likely reason where it does not: for `/healthz` and the log.

use std::borrow::Cow;

use tunnel::session::{End, Refusal};

use super::paths;
use super::reason::{Kind, Reason, Word};
use super::station::Way;
use crate::config::{Config, TunnelMode};
use crate::port::PortId;
use crate::telemetry::{TunnelCounters, TunnelIo};

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

    /// A reason for which frames do not go through the tunnel.
    pub(super) fn unsent(&self, text: String, next: impl Into<Cow<'static, str>>) -> Reason {
        let word = if self.is_udp { Word::Down } else { Word::Degraded };
        Reason { word, ..Reason::degraded(Kind::Tunnel, text, next) }
    }
}

/// The findings of others about the path.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The way to the peer from each WAN port, over UDP.
    pub ways: &'a [Way],
    /// The peer's datagrams come, and this box refuses them.
    pub is_refusing: bool,
}

/// The reasons for which some of the tunnels do not protect every frame. Each names its tunnel, unless it holds for all.
/// If the boxes have different numbers of tunnels, the tunnels that hear nothing are explained by that.
pub fn reasons(expected: &Expected, tunnels: &[TunnelCounters], known: &Known<'_>) -> Vec<Reason> {
    let differs = |tunnel: &TunnelCounters| tunnel.last_refusal == Some(Refusal::Tunnels);
    let is_silent = |tunnel: &TunnelCounters| tunnel.last_refusal.is_none();
    let is_explained =
        |it: &TunnelCounters| it.get(TunnelIo::Up) == 0 && (differs(it) || is_silent(it));
    if let Some(tunnel) = tunnels.iter().find(|it| differs(it))
        && tunnels.iter().all(is_explained)
    {
        return of_one(expected, tunnel, known);
    }
    let all: Vec<_> = tunnels.iter().map(|tunnel| of_one(expected, tunnel, known)).collect();
    let mut found: Vec<Reason> = Vec::new();
    for (n, reason) in all.iter().enumerate().flat_map(|(n, of)| of.iter().map(move |it| (n, it))) {
        if !all.iter().all(|of| of.contains(reason)) {
            let rest = reason.text.strip_prefix("tunnel: ").unwrap_or(&reason.text);
            let text = Cow::Owned(format!("tunnel {n} of {}: {rest}", tunnels.len()));
            found.push(Reason { text, ..reason.clone() });
        } else if n == 0 {
            found.push(reason.clone());
        }
    }
    found
}

/// The reasons for which a tunnel does not protect every frame.
fn of_one(expected: &Expected, tunnel: &TunnelCounters, known: &Known<'_>) -> Vec<Reason> {
    let ways = known.ways;
    if tunnel.get(TunnelIo::Up) > 0 {
        let short = paths::short(expected, tunnel, ways);
        return short.into_iter().chain(out(expected, tunnel, ways)).collect();
    }
    let mut each = PortId::all(expected.ports).skip(1).zip(ways);
    let first = each.clone().next();
    let at = each.find(|(_, way)| way.mac.is_none() || way.has_stranger).or(first);
    let (why, next) = without_session(tunnel, at.map(|(_, way)| way), known.is_refusing);
    let text = format!("tunnel: no session with the peer, frames {}: {why}", expected.fate());
    let reason = expected.unsent(text, next);
    vec![match at {
        Some((port, way)) => reason.at(port).of(Some(way.peer)),
        None => reason,
    }]
}

/// The WAN ports and the lanes that carry nothing.
fn out(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Vec<Reason> {
    let silent = tunnel.silent_lanes().count();
    let all = || PortId::all(expected.ports).skip(1);
    let has_used = all().any(|port| tunnel.uses(port.wan_port()));
    let peer = |port: PortId| ways.get(usize::from(port.wan_port().get())).map(|way| way.peer);
    if !has_used || silent == usize::from(expected.lanes) && silent > 1 {
        let text = "tunnel: no lane works: the peer's REPORTs of all are overdue, the paths are broken in one direction or both";
        let reason = Reason::down(Kind::Tunnel, text, "lr2ctl lanes");
        return vec![reason.of(ways.first().map(|way| way.peer))];
    }
    let mut found = Vec::new();
    for port in all() {
        let is_of_port = |lane: &u8| lane % expected.ports == port.wan_port().get();
        let lanes: Vec<_> = tunnel.silent_lanes().filter(is_of_port).collect();
        let (text, next) = if !tunnel.uses(port.wan_port()) {
            unused(tunnel, port, ways)
        } else if !lanes.is_empty() && expected.lanes > 1 {
            (silent_lanes(&lanes), "lr2ctl lanes")
        } else if let Some(text) = paths::short_lanes(tunnel, port) {
            (text, "lr2ctl path")
        } else {
            continue;
        };
        let reason = Reason::degraded(Kind::Tunnel, text, next);
        found.push(reason.at(port).of(peer(port)));
    }
    found
}

/// The sentence about a WAN port that carries nothing beside others that do, and the next command.
fn unused(tunnel: &TunnelCounters, port: PortId, ways: &[Way]) -> (String, &'static str) {
    let (why, next) = match ways.get(usize::from(port.wan_port().get())) {
        Some(Way { next_hop, mac: None, .. }) => {
            (format!("next hop {next_hop} does not answer"), "lr2ctl lanes")
        }
        _ => match paths::shorter(tunnel, port) {
            Some(why) => (why, "lr2ctl path"),
            None => (
                "its link is down, or messages of the boxes do not pass it both ways".into(),
                "lr2ctl lanes",
            ),
        },
    };
    (format!("tunnel: carries nothing, the other ports take its frames: {why}"), next)
}

/// The sentence about lanes of a port that new frames avoid beside others.
fn silent_lanes(lanes: &[u8]) -> String {
    let names: Vec<_> = lanes.iter().map(u8::to_string).collect();
    let (words, [verb, whose, of, paths]) = match &*names {
        [lane] => (format!("lane {lane}"), ["carries", "its", "it", "its path is"]),
        [others @ .., last] => (
            format!("lanes {} and {last}", others.join(", ")),
            ["carry", "their", "them", "their paths are"],
        ),
        [] => return String::new(),
    };
    format!(
        "tunnel: {words} {verb} nothing, other lanes take {whose} frames: REPORTs of the peer about {of} are overdue, \
         {paths} broken in one direction or both"
    )
}

/// The likely cause for which there is no session, and the next command.
fn without_session(
    tunnel: &TunnelCounters,
    way: Option<&Way>,
    is_refusing: bool,
) -> (String, Cow<'static, str>) {
    const PEERS: Cow<'static, str> = Cow::Borrowed("lr2ctl peers");
    if let Some(Way { peer, .. }) = way.filter(|way| way.has_stranger) {
        let why = format!(
            "{peer} is silent, and another address sends to the tunnel: is wan.peer = \"{peer}\" \
             the address of the other box?"
        );
        return (why, "lr2ctl config".into());
    }
    if is_refusing {
        return (
            "this box refuses the peer's datagrams, see the other line".into(),
            "lr2ctl peers".into(),
        );
    }
    // The BYE of each port but the first is refused.
    let is_explained =
        matches!(tunnel.last_refusal, None | Some(Refusal::Replayed | Refusal::OtherSession));
    if is_explained && tunnel.last_end == Some(End::Bye) && tunnel.get(TunnelIo::PeerHeard) == 0 {
        let why =
            "the peer ended it, as a box that is drained or stopped does, and is silent since";
        return (why.into(), "systemctl status lr2-gateway (on the other box)".into());
    }
    if let Some(Way { next_hop, mac: None, .. }) = way {
        let protocol = if next_hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
        let why = format!(
            "next hop {next_hop} does not answer {protocol}: is it up, are wan.address, \
             wan.gateway and wan.peer right, and LAN and WAN the right way round?"
        );
        return (why, "lr2ctl ports".into());
    }
    if let Some(refusal) = tunnel.last_refusal {
        let next = match refusal {
            Refusal::BadTag => "sha256sum PEER.KEY_FILE (on both boxes)".into(),
            Refusal::Version => "lr2ctl build (on both boxes)".into(),
            _ => PEERS,
        };
        return (refused(refusal).into(), next);
    }
    if tunnel.get(TunnelIo::PeerHeard) > 0 {
        let why = "the peer is heard, and does not hear this box: it refuses our key, as its /healthz says \
                   then, or frames get lost on the way to it";
        return (why.into(), "lr2ctl status (on the other box)".into());
    }
    match way {
        None => (
            "no peer answers: is the other box running, with wan.tunnel and the same \
             tunnel_ethertype, and does the link forward that EtherType?"
                .into(),
            "systemctl status lr2-gateway (on the other box)".into(),
        ),
        Some(Way { peer, is_answered: true, .. }) => (
            format!(
                "{peer} answers pings: does the other box run with wan.tunnel = \"udp\", wan.peer = this \
                 box and the same tunnel_port, and does the network pass that port?"
            ),
            "systemctl status lr2-gateway (on the other box)".into(),
        ),
        Some(Way { peer, is_answered: false, .. }) => (
            format!(
                "{peer} does not answer pings: is wan.peer the address of the other box, and is there a \
                 route to it and back?"
            ),
            format!("traceroute {peer} (from a host beside the WAN port)").into(),
        ),
    }
}

/// The cause for which the peer's newest message was refused.
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

#[cfg(test)]
mod tests;
