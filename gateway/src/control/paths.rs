//! Paths that are too short for the frames of the LAN, in words for `/healthz` and the log.

use tunnel::Port;

use super::station::Way;
use super::tunnel::{ETHER_LEN, Expected};
use crate::port::PortId;
use crate::telemetry::{TunnelCounters, TunnelIo};

/// Whether every frame of the LAN fits the longest path, with a session.
pub fn short(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Option<String> {
    let &Expected { headers, port, needed, .. } = expected;
    let (peer, reached) = (tunnel.get(TunnelIo::PeerFrame), u64::from(tunnel.longest()));
    let most = peer.min(port.into());
    // No HELLO of this session has been answered yet.
    if reached == 0 || reached.min(most) >= needed.into() {
        return None;
    }
    let needed = needed - ETHER_LEN;
    let why = if reached < most {
        let is_longest = |id: &PortId| u64::from(tunnel.path(id.wan_port()).longest) == reached;
        let port = PortId::all(expected.ports)
            .skip(1)
            .find(is_longest)
            .unwrap_or(PortId::wan(Port::default()));
        format!(
            "IP packets of more than {} bytes do not reach {} through port {}: a link between the boxes has a smaller MTU \
             than wan.mtu",
            reached.saturating_sub(ETHER_LEN.into()),
            peer_at(port, ways),
            port.name()
        )
    } else if port < expected.needed {
        format!("wan.mtu here is {}, and {needed} has room for all", port - ETHER_LEN)
    } else {
        let mtu = peer - u64::from(ETHER_LEN);
        format!("wan.mtu of the peer is {mtu}, and {needed} has room for all")
    };
    let longest = reached.min(most).saturating_sub(headers.into());
    let fate = expected.fate();
    Some(format!("tunnel: frames of more than {longest} bytes {fate}: {why}"))
}

/// Why a port takes no frames, if its path is shorter than that of another port.
pub fn shorter(tunnel: &TunnelCounters, port: PortId, ways: &[Way]) -> Option<String> {
    let longest = tunnel.path(port.wan_port()).longest;
    (longest > 0 && longest < tunnel.longest()).then(|| {
        format!(
            "IP packets of more than {} bytes do not reach {} through it, longer ones pass the other ports: a link on its \
             path has a smaller MTU",
            longest.saturating_sub(ETHER_LEN),
            peer_at(port, ways)
        )
    })
}

/// The ports with lanes that take no frames, as their paths are shorter than those of other lanes.
pub fn short_lanes(expected: &Expected, tunnel: &TunnelCounters, ways: &[Way]) -> Vec<String> {
    let ports = PortId::all(expected.ports).skip(1);
    let say = |port: PortId| {
        let path = tunnel.path(port.wan_port());
        let is_used = tunnel.uses(port.wan_port()) && path.longest == tunnel.longest();
        (is_used && path.shortest > 0 && path.shortest < path.longest).then(|| {
            format!(
                "lanes of port {} carry nothing, the others take their frames: on these lanes IP packets of more than {} \
                 bytes do not reach {}: a link on their paths has a smaller MTU",
                port.name(),
                path.shortest.saturating_sub(ETHER_LEN),
                peer_at(port, ways)
            )
        })
    };
    ports.filter_map(say).collect()
}

/// The peer, with its address if the port has one for it.
fn peer_at(port: PortId, ways: &[Way]) -> String {
    let way = ways.get(usize::from(port.wan_port().get()));
    way.map_or("the peer".into(), |way| format!("the peer {}", way.peer))
}
