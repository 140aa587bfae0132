//! The addresses of the tunnel over UDP: keys of `[wan]`.

use std::net::IpAddr;

use settings::{Document, Section, integer};

use super::{IpNet, TunnelMode, UdpSettings};

const ADDRESS: &str = "the port's IP address with the prefix of its link, e.g. \"192.0.2.1/30\" or \
                       \"2001:db8::1/64\"";
const PEER: &str = "the IP address of the other box's WAN port";
const GATEWAY: &str = "the IP address of the router towards the peer";
const VLAN: &str = "1 to 4094, the VLAN of the WAN port's link";
const DSCP: &str = "0 to 63, the DSCP of every datagram";

/// Reads the keys, and complains of addresses that can't be or lead nowhere.
pub(super) fn read(
    doc: &Document<'_>,
    s: &mut Section<'_>,
    mode: TunnelMode,
) -> Option<UdpSettings> {
    if mode == TunnelMode::Udp {
        s.require("address", ADDRESS);
        s.require("peer", PEER);
    }
    let address = s.parsed::<IpNet>("address", ADDRESS);
    let gateway = s.parsed::<IpAddr>("gateway", GATEWAY);
    let peer = s.parsed::<IpAddr>("peer", PEER);
    let dscp =
        s.read("dscp", DSCP, |v| integer(v).and_then(|n| u8::try_from(n).ok()).filter(|n| *n < 64));
    let vlan = s.read("vlan", VLAN, |v| {
        integer(v).and_then(|id| u16::try_from(id).ok()).filter(|id| (1..=4094).contains(id))
    });
    if mode != TunnelMode::Udp {
        for key in
            ["address", "gateway", "peer", "dscp", "vlan"].into_iter().filter(|key| s.has(key))
        {
            doc.problem(&s.path(key), "a value", "no such key, or tunnel = \"udp\"");
        }
        return None;
    }
    let (address, peer) = (address?, peer?);
    let settings = UdpSettings { address, gateway, peer, dscp, vlan };
    check(doc, s, &settings);
    Some(settings)
}

fn check(doc: &Document<'_>, s: &Section<'_>, settings: &UdpSettings) {
    let UdpSettings { address, gateway, peer, .. } = settings;
    let own = address.addr();
    let is_station = |ip: IpAddr| {
        let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || is_broadcast)
    };
    let mut is_sound = true;
    for (key, ip) in [("address", Some(own)), ("peer", Some(*peer)), ("gateway", *gateway)] {
        let Some(ip) = ip else { continue };
        // In a link of two addresses, both are stations' (RFC 3021).
        let names_link = address.max_prefix_len() - address.prefix_len() > 1
            && ip.is_ipv4()
            && (ip == address.network() || ip == address.broadcast());
        if !is_station(ip) || names_link {
            doc.problem(&s.path(key), ip.to_string(), "the address of one station");
            is_sound = false;
        } else if ip.is_ipv4() != own.is_ipv4() {
            let found = format!("{ip} beside address = \"{address}\"");
            doc.problem(&s.path(key), found, "IPv4 for all, or IPv6 for all");
            is_sound = false;
        }
    }
    if !is_sound {
        return;
    }
    let net = address.trunc();
    if *peer == own {
        doc.problem(&s.path("peer"), format!("{peer}, which is this box's own address"), PEER);
    }
    match gateway {
        Some(gateway) if *gateway == own => {
            doc.problem(&s.path("gateway"), format!("{gateway}, which is this box's own"), GATEWAY);
        }
        Some(gateway) if !net.contains(gateway) && !is_link_local(*gateway) => {
            let allowed = format!("{GATEWAY}, within {net}");
            doc.problem(&s.path("gateway"), format!("{gateway}, outside {net}"), allowed);
        }
        None if !net.contains(peer) => {
            let found = format!("none, and peer = \"{peer}\" is outside {net}");
            doc.problem(&s.path("gateway"), found, format!("{GATEWAY}, within {net}"));
        }
        Some(_) | None => {}
    }
}

/// Whether the address is one of IPv6 that each link has of its own, as routers often do.
const fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
