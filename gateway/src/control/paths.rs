//! Paths that are too short for the frames of the LAN, in words for `/healthz` and the log.

use tunnel::Port;

use super::reason::Reason;
use super::station::Way;
use super::tunnel::{ETHER_LEN, Expected};
use crate::port::PortId;
use crate::telemetry::{TunnelCounters, TunnelIo};

/// The reason for which frames of the LAN do not fit the longest path, with a session.
pub fn short(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Option<Reason> {
    let &Expected { headers, port, needed, .. } = expected;
    let (peer, reached) = (tunnel.get(TunnelIo::PeerFrame), u64::from(tunnel.longest()));
    let most = peer.min(port.into());
    // No HELLO of this session has been answered yet.
    if reached == 0 || reached.min(most) >= needed.into() {
        return None;
    }
    let needed = needed - ETHER_LEN;
    let is_longest = |id: &PortId| u64::from(tunnel.path(id.wan_port()).longest) == reached;
    let mut ports = PortId::all(expected.ports).skip(1);
    let at = ports.find(is_longest).unwrap_or(PortId::wan(Port::default()));
    let (why, next) = if reached < most {
        let reached = reached.saturating_sub(ETHER_LEN.into());
        let why = format!(
            "IP packets of more than {reached} bytes do not reach the peer: a link between the boxes has a smaller MTU than \
             wan.mtu"
        );
        (why, "lr2ctl path")
    } else if port < expected.needed {
        let why = format!("wan.mtu here is {}, and {needed} has room for all", port - ETHER_LEN);
        (why, "lr2ctl parameters")
    } else {
        let mtu = peer - u64::from(ETHER_LEN);
        let why = format!("wan.mtu of the peer is {mtu}, and {needed} has room for all");
        (why, "lr2ctl parameters (on the other box)")
    };
    let longest = reached.min(most).saturating_sub(headers.into());
    let fate = expected.fate();
    let text = format!("tunnel: frames of more than {longest} bytes {fate}: {why}");
    let way = ways.get(usize::from(at.wan_port().get()));
    Some(expected.unsent(text, next).at(at).of(way.map(|way| way.peer)))
}

/// The cause for which a port takes no frames, if its path is shorter than that of another port.
pub fn shorter(tunnel: &TunnelCounters, port: PortId) -> Option<String> {
    let longest = tunnel.path(port.wan_port()).longest;
    (longest > 0 && longest < tunnel.longest()).then(|| {
        format!(
            "IP packets of more than {} bytes do not reach the peer through it, longer ones pass the other ports: a link on \
             its path has a smaller MTU",
            longest.saturating_sub(ETHER_LEN)
        )
    })
}

/// The sentence about lanes of a port that take no frames, as their paths are shorter than those of its other lanes.
pub fn short_lanes(tunnel: &TunnelCounters, port: PortId) -> Option<String> {
    let path = tunnel.path(port.wan_port());
    let is_longest = path.longest == tunnel.longest();
    (is_longest && path.shortest > 0 && path.shortest < path.longest).then(|| {
        format!(
            "tunnel: some lanes carry nothing, the others take their frames: on these lanes IP packets of more than {} bytes \
             do not reach the peer: a link on their paths has a smaller MTU",
            path.shortest.saturating_sub(ETHER_LEN)
        )
    })
}
