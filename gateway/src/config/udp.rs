//! The addresses of the tunnel over UDP: keys of `[wan]`.

use std::net::IpAddr;

use settings::{Document, Section};

use super::keys::{ADDRESS, GATEWAY, PEER};
use super::{TunnelMode, UdpSettings, Wan};

/// Complains of addresses that can't be or lead nowhere, and takes out those that are for no tunnel over UDP.
pub(super) fn check(doc: &Document<'_>, s: &Section<'_>, mode: TunnelMode, wan: &mut Wan) {
    if mode == TunnelMode::Udp {
        s.require("address", ADDRESS);
        s.require("peer", PEER);
        if let Some(settings) = wan.udp() {
            check_addresses(doc, s, &settings);
        }
        return;
    }
    for key in ["address", "gateway", "peer", "dscp", "vlan"].into_iter().filter(|key| s.has(key)) {
        doc.problem(&s.path(key), "a value", "no such key, or tunnel = \"udp\"");
    }
    let (section, port) = (std::mem::take(&mut wan.section), std::mem::take(&mut wan.port));
    *wan = Wan { section, port, link_rate: wan.link_rate, ..Wan::default() };
}

fn check_addresses(doc: &Document<'_>, s: &Section<'_>, settings: &UdpSettings) {
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
