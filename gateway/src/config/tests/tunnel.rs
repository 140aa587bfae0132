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
    assert_eq!(frames.backup_pool, 0);
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
    refuses(&tunnel("[worker]\ncount = 2\n"), &["worker.count: found 2 workers", "one worker"]);
    refuses(&format!("role = \"depot\"\n{}", tunnel("")), &["role: found \"depot\"", "\"both\""]);
    refuses(
        &tunnel("").replace("\"ethernet\"", "\"gre\""),
        &["wan.tunnel: found \"gre\"", "\"off\", \"ethernet\""],
    );
}
