//! The rules of the tunnel.

use super::*;

fn tunnel(more: &str) -> String {
    lab(more).replace("net_null1\"\n", "net_null1\"\ntunnel = \"ethernet\"\n")
}

#[test]
fn a_tunnel_leaves_the_queue_pairs_alone_and_has_the_pools() {
    let c = good(&tunnel(""));
    assert_eq!((c.tunnel.mode, c.tunnel.ethertype), (TunnelMode::Ethernet, 0x88b5));
    assert_eq!(c.recovery.mode, Recovery::Off);
    let frames = c.pool_frames();
    assert!(frames.resend_cache > 0 && frames.reorder_pool > 0, "{frames:?}");
    assert_eq!(c.recovery.lan, LanMode::Auto);
    assert!(frames.backup_pool > 0, "for the repair of the LANs");
    let off = good(&tunnel("[recovery]\nlan = \"off\"\n"));
    assert_eq!((off.recovery.lan, off.pool_frames().backup_pool), (LanMode::Off, 0));
    assert_eq!(good(&lab("")).recovery.lan, LanMode::Off);
    assert_eq!(good(&lab("")).recovery.mode, Recovery::Auto);
    assert_eq!(good(&lab("")).tunnel.mode, TunnelMode::Off);
    let c = good(&tunnel("").replace("tunnel = ", "tunnel_ethertype = 0x9999\ntunnel = "));
    assert_eq!(c.tunnel.ethertype, 0x9999);
}

#[test]
fn headers_need_room_on_the_wan() {
    let mtu = |lan: u16, wan: u16| {
        tunnel("")
            .replace("net_null0\"\n", &format!("net_null0\"\nmtu = {lan}\n"))
            .replace("net_null1\"\n", &format!("net_null1\"\nmtu = {wan}\n"))
    };
    let warnings = |lan, wan| good(&mtu(lan, wan)).warnings.join("\n");
    assert!(!warnings(4200, 4234).contains("wan.mtu"), "{}", warnings(4200, 4234));
    let short = warnings(4200, 4220);
    for part in ["wan.mtu: 4220", "lan.mtu 4200", "more than 4194 bytes", "wan.mtu = 4234"] {
        assert!(short.contains(part), "{short}");
    }
    refuses(&mtu(4200, 1500), &["wan.mtu: found 1500 beside lan.mtu 4200", "4234 has room"]);
    let plain = mtu(4200, 4234).replace("tunnel = \"ethernet\"\n", "");
    refuses(&plain, &["wan.mtu: found lan.mtu 4200 beside wan.mtu 4234", "the same on both"]);
}

#[test]
fn what_a_tunnel_cannot_be_combined_with() {
    refuses(
        &tunnel("[recovery]\nmode = \"cached\"\n"),
        &["recovery.mode: found \"cached\" beside wan.tunnel", "the tunnel repairs the long haul"],
    );
    refuses(&lab("[recovery]\nlan = \"on\"\n"), &["recovery.lan: found a value", "wan.tunnel"]);
    refuses(&format!("role = \"depot\"\n{}", tunnel("")), &["role: found \"depot\"", "\"both\""]);
    refuses(
        &tunnel("").replace("\"ethernet\"", "\"gre\""),
        &["wan.tunnel: found \"gre\"", "\"off\", \"ethernet\""],
    );
}

/// R-TUN-44
#[test]
fn several_workers_have_a_tunnel_each() {
    let workers = |count: u16, keys: &str| {
        let text = tunnel(&format!("[worker]\ncount = {count}\n[eal]\nmemory = \"2GiB\"\n"));
        text.replace("tunnel = ", &format!("{keys}tunnel = "))
    };
    for (count, tunnels) in [(1, 1), (2, 2), (3, 4), (4, 4)] {
        let c = good(&workers(count, ""));
        assert_eq!((c.tunnel.tunnels, c.parts()), (tunnels, tunnels.into()));
        let uneven = c.warnings.iter().any(|line| line.starts_with("wan.tunnels: 4 tunnels"));
        assert_eq!(uneven, count == 3, "{:?}", c.warnings);
        assert_eq!(good(&c.to_string()).tunnel, c.tunnel);
    }
    assert_eq!(good(&workers(1, "tunnels = 4\n")).parts(), 4);
    assert_eq!(good(&lab("[worker]\ncount = 2\n[eal]\nmemory = \"2GiB\"\n")).parts(), 2);
    refuses(
        &workers(4, "tunnels = 2\n"),
        &["wan.tunnels: found 2 beside worker.count = 4", "at least one"],
    );
    refuses(&workers(2, "tunnels = 3\n"), &["wan.tunnels: found 3", "1, 2, 4, 8"]);
    let off = workers(2, "tunnels = 2\n").replace("\"ethernet\"", "\"off\"");
    refuses(&off, &["wan.tunnels: found 2", "wan.tunnel"]);
}

/// A tunnel over UDP with these keys in `[wan]`, and room for its headers.
fn udp(keys: &str) -> String {
    let wan = format!("net_null1\"\nmtu = 4400\ntunnel = \"udp\"\n{keys}");
    lab("").replace("net_null0\"\n", "net_null0\"\nmtu = 4200\n").replace("net_null1\"\n", &wan)
}

#[test]
fn a_tunnel_over_udp_has_addresses() {
    let direct = "address = \"192.0.2.1/30\"\npeer = \"192.0.2.2\"\n";
    let c = good(&udp(direct));
    let expected = UdpSettings {
        address: "192.0.2.1/30".parse().unwrap(),
        gateway: None,
        peer: [192, 0, 2, 2].into(),
        dscp: None,
        vlan: None,
    };
    assert_eq!((c.tunnel.mode, c.tunnel.port), (TunnelMode::Udp, 49791));
    assert_eq!(c.wan[0].udp(), Some(expected));
    assert_eq!(c.recovery.mode, Recovery::Off);
    let routed = "address = \"2001:db8::1/64\"\npeer = \"2001:db8:1::1\"\n\
                  gateway = \"2001:db8::ff\"\ndscp = 26\nvlan = 4094\ntunnel_port = 5000\n";
    let c = good(&udp(routed));
    let found = c.wan[0].udp().expect("addresses");
    assert_eq!((found.gateway, found.dscp), (Some("2001:db8::ff".parse().unwrap()), Some(26)));
    assert_eq!(c.tunnel.port, 5000);
    good(&udp(&routed.replace("2001:db8::ff", "fe80::1")));
    // A link of two addresses has neither network nor broadcast address.
    good(&udp("address = \"192.0.2.0/31\"\npeer = \"192.0.2.1\"\n"));
    // The printed configuration has the same meaning.
    let again = good(&c.to_string());
    assert_eq!((again.tunnel, again.wan), (c.tunnel, c.wan));
}

/// Two WAN ports with a tunnel, and these keys in the sections.
fn two(first: &str, second: &str) -> String {
    let wan = |n: u8, keys: &str| format!("[[wan]]\ndevice = \"net_null{n}\"\nmtu = 4400\n{keys}");
    let text = lab("").replace("net_null0\"\n", "net_null0\"\nmtu = 4200\n");
    let both = wan(1, first) + &wan(2, second);
    text.replace("[wan]\ndevice = \"net_null1\"\n", &both)
}

/// R-TUN-30: lanes of one port share the paths of a network; those of several ports are taken for paths.
#[test]
fn the_policy_follows_from_lanes_and_ports() {
    use ::tunnel::spray::Policy;
    let one = "address = \"192.0.2.1/29\"\npeer = \"192.0.2.2\"\n";
    let other = "address = \"198.51.100.1/29\"\npeer = \"198.51.100.2\"\n";
    let spray = |text: &str| good(text).tunnel.spray;
    assert_eq!(spray(&udp(one)), Policy::Reps);
    assert_eq!(spray(&udp(&format!("{one}lanes = 1\n"))), Policy::Earliest);
    assert_eq!(spray(&udp(&format!("{one}spray = \"earliest\"\n"))), Policy::Earliest);
    assert_eq!(spray(&two(&format!("tunnel = \"udp\"\n{one}"), other)), Policy::Earliest);
    assert_eq!(spray(&tunnel("")), Policy::Earliest);
}

#[test]
fn there_may_be_several_wan_ports() {
    let c = good(&two("tunnel = \"ethernet\"\nspray = \"reps\"\n", "rx_desc = 512\n"));
    let devices: Vec<_> =
        c.ports().map(|(name, port)| (name, &*port.device, port.rx_desc)).collect();
    let expected =
        [("lan", "net_null0", 1024), ("wan[1]", "net_null1", 1024), ("wan[2]", "net_null2", 512)];
    assert_eq!(devices, expected);
    assert_eq!((c.lanes(), c.tunnel.spray), (2, ::tunnel::spray::Policy::Reps));
    let again = good(&c.to_string());
    assert_eq!((again.tunnel, again.wan), (c.tunnel, c.wan));

    assert_eq!(c.tunnel.lanes, 1);

    let udp = |n: u8| format!("address = \"192.0.{n}.1/30\"\npeer = \"192.0.{n}.2\"\n");
    let first = format!("tunnel = \"udp\"\nlanes = 4\n{}", udp(2));
    let c = good(&two(&first, &udp(3)));
    assert_eq!(c.lanes(), 8);
    let c = good(&two(&first.replace("lanes = 4\n", ""), &udp(3)));
    assert_eq!((c.tunnel.lanes, c.lanes()), (8, 16));
    let second = c.wan[1].udp().expect("addresses");
    assert_eq!(second.peer, IpAddr::from([192, 0, 3, 2]));

    refuses(
        &two(&first, "peer = \"192.0.3.2\"\n"),
        &["wan[2].address: found nothing", "with the prefix"],
    );
    refuses(
        &two("", "").replace("4200", "4400"),
        &["wan: found 2 WAN ports without wan.tunnel", "one WAN port"],
    );
    let ethernet = "tunnel = \"ethernet\"\n";
    refuses(&two(ethernet, "spray = \"reps\"\n"), &["wan[2]", "spray"]);
    refuses(&two(&format!("{ethernet}lanes = 2\n"), ""), &["wan.lanes: found 2", "the same path"]);
    let many = first.replace("lanes = 4", "lanes = 200");
    refuses(&two(&many, &udp(3)), &["wan.lanes: found 400", "at most 255"]);
    let v6 = "address = \"2001:db8::1/64\"\npeer = \"2001:db8::2\"\n";
    refuses(&two(&first, v6), &["wan.peer: found IPv4 on one port and IPv6", "on all"]);
    let same = two(ethernet, "").replace("net_null2", "net_null1");
    refuses(&same, &["wan[2].device: found net_null1, wan[1]'s device too"]);
}

#[test]
fn addresses_lead_to_the_peer() {
    let own = "address = \"192.0.2.1/30\"\n";
    let both = |peer: &str| format!("{own}peer = \"{peer}\"\n");
    refuses(&udp("peer = \"192.0.2.2\"\n"), &["wan.address: found nothing", "with the prefix"]);
    refuses(&udp(own), &["wan.peer: found nothing", "the other box's WAN port"]);
    refuses(
        &udp("address = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n"),
        &["wan.address: found \"192.0.2.1\"", "with the prefix of its link"],
    );
    refuses(&udp(&both("192.0.2.1")), &["wan.peer: found 192.0.2.1, which is this box's own"]);
    refuses(&udp(&both("192.0.2.3")), &["wan.peer: found 192.0.2.3", "one station"]);
    refuses(&udp(&both("224.0.0.1")), &["wan.peer: found 224.0.0.1", "one station"]);
    refuses(&udp(&both("2001:db8::2")), &["wan.peer: found 2001:db8::2 beside", "IPv4 for all"]);
    // With room for the headers of IPv4 alone.
    let narrow = udp(&both("2001:db8::2")).replace("mtu = 4400", "mtu = 4274");
    refuses(&narrow, &["wan.peer: found 2001:db8::2 beside", "IPv4 for all"]);
    refuses(
        &udp(&both("198.51.100.7")),
        &["wan.gateway: found none", "198.51.100.7\" is outside 192.0.2.0/30", "the router"],
    );
    let routed = |gateway: &str| format!("{}gateway = \"{gateway}\"\n", both("198.51.100.7"));
    good(&udp(&routed("192.0.2.2")));
    refuses(&udp(&routed("10.0.0.1")), &["wan.gateway: found 10.0.0.1, outside 192.0.2.0/30"]);
    refuses(&udp(&routed("192.0.2.1")), &["wan.gateway: found 192.0.2.1, which is this box's"]);
    refuses(&udp(&routed("2001:db8::1")), &["wan.gateway: found 2001:db8::1 beside"]);
    refuses(&udp(&(both("192.0.2.2") + "dscp = 64\n")), &["wan.dscp: found 64", "0 to 63"]);
    for vlan in ["0", "4095"] {
        let text = udp(&(both("192.0.2.2") + &format!("vlan = {vlan}\n")));
        refuses(&text, &[&format!("wan.vlan: found {vlan}"), "1 to 4094"]);
    }
    refuses(&udp(&(both("192.0.2.2") + "tunnel_port = 4791\n")), &["wan.tunnel_port", "RoCE's"]);
    let lost = udp(&both("192.0.2.2")).replace("tunnel = \"udp\"\n", "tunnel = \"ethernet\"\n");
    let Err(refusal) = parse(Path::new("gw.toml"), &lost, None, None) else { panic!("refused") };
    let text = refusal.report.to_string();
    for key in ["wan.address", "wan.peer"] {
        assert!(text.contains(&format!("{key}: found a value")), "{text}");
    }
}

#[test]
fn a_frame_in_udp_needs_room_on_the_wan() {
    let v4 = "address = \"192.0.2.1/30\"\npeer = \"192.0.2.2\"\n";
    let v6 = "address = \"2001:db8::1/64\"\npeer = \"2001:db8::2\"\n";
    let with = |keys, mtu: u16| udp(keys).replace("mtu = 4400", &format!("mtu = {mtu}"));
    good(&with(v4, 4274));
    refuses(
        &with(v4, 4273),
        &["wan.mtu: found 4273 beside lan.mtu 4200", "at least 4274", "IPv4", "lan.mtu = 4199"],
    );
    good(&with(v6, 4294));
    refuses(&with(v6, 4293), &["wan.mtu: found 4293", "at least 4294", "IPv6"]);
}
