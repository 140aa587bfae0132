//! The rules of `[[queue_pair]]`.

use super::*;
use common::wire::Qpn;

/// From line 8 on, where `lab` ends.
fn pair(a: &str, a_qpn: &str, b: &str, b_qpn: &str, more: &str) -> String {
    format!("[[queue_pair]]\na = \"{a}\"\na_qpn = {a_qpn}\nb = \"{b}\"\nb_qpn = {b_qpn}\n{more}\n")
}

#[test]
fn queue_pairs_are_read() {
    let c = good(&lab(&format!(
        "{}{}",
        pair("10.0.0.1", "0x11", "10.0.1.1", "2", ""),
        // The same addresses elsewhere, and an IPv4 address in the form of IPv6.
        pair("::ffff:10.0.0.1", "0x11", "10.0.1.1", "0xfffffe", "vlans = [100]"),
    )));
    let [one, other] = &c.queue_pairs[..] else { panic!("{:?}", c.queue_pairs) };
    let host = |ip: &str| ip.parse::<IpAddr>().unwrap().into();
    let [a, b] = [host("10.0.0.1"), host("10.0.1.1")];
    let ends =
        |a_qpn, b_qpn| [(a, a_qpn), (b, b_qpn)].map(|(addr, n)| End { addr, qpn: Qpn::new(n) });
    assert!(one.vlans.is_empty());
    assert_eq!(one.ends, ends(0x11, 2));
    assert_eq!(other.vlans.ids().collect::<Vec<_>>(), [100]);
    assert_eq!(other.ends, ends(0x11, 0xfffffe));
}

#[test]
fn what_is_wrong_with_a_queue_pair() {
    let refuses = |pair: String, parts: &[&str]| refuses(&lab(&pair), parts);
    let [a, b] = ["10.0.0.1", "10.0.1.1"];
    refuses(
        pair(a, "1", b, "2", ""),
        &["gw.toml:9:9: queue_pair[1].a_qpn: found 1;", "0x2 to 0xfffffe, the number of"],
    );
    refuses(pair(a, "2", b, "0xffffff", ""), &["gw.toml:11:9: queue_pair[1].b_qpn"]);
    refuses(pair("ten", "2", b, "2", ""), &["queue_pair[1].a: found \"ten\"", "the IP address"]);
    for group in ["224.0.0.1", "0.0.0.0", "255.255.255.255", "ff02::1", "::"] {
        refuses(pair(a, "2", group, "2", ""), &["queue_pair[1].b: found", group]);
    }
    refuses(pair(a, "2", a, "3", ""), &["queue_pair[1].b: found 10.0.0.1, which is a too"]);
    refuses(
        pair(a, "2", "fd00::1", "3", ""),
        &["fd00::1 beside a = 10.0.0.1", "both IPv4, or both"],
    );
    for vlans in ["[0]", "[4095]", "[1, 2, 3]", "7", "[\"a\"]"] {
        let found = format!("queue_pair[1].vlans: found {vlans}");
        refuses(
            pair(a, "2", b, "3", &format!("vlans = {vlans}")),
            &[&found, "at most two VLAN ids from 1 to 4094"],
        );
    }
    refuses(
        pair(a, "2", b, "3", "vlan = 7"),
        &["queue_pair[1].vlan: found an unknown key", "did you mean \"vlans\""],
    );
    let lines = bad(&lab("[[queue_pair]]\na = \"10.0.0.1\"\na_qpn = 2\n"));
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].starts_with("gw.toml:7:"), "{}", lines[0]);
    assert!(lines[0].contains("queue_pair[1].b: found nothing"), "{}", lines[0]);
    assert!(lines[1].contains("queue_pair[1].b_qpn: found nothing"), "{}", lines[1]);
    let table = "[queue_pair]\na = \"10.0.0.1\"\n".to_owned();
    refuses(table, &["gw.toml:7:2: queue_pair: found", "tables, [[queue_pair]]"]);
}

#[test]
fn queue_pairs_that_contradict_each_other() {
    let [a, b, c] = ["10.0.0.1", "10.0.1.1", "10.0.1.2"];
    let first = pair(a, "0x11", b, "0x22", "");
    let after = |second: String| bad(&lab(&format!("{first}{second}")));
    for second in [pair(a, "0x11", b, "0x22", ""), pair(b, "0x22", a, "0x11", "")] {
        let lines = after(second);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].starts_with("gw.toml:13:"), "{}", lines[0]);
        assert!(
            lines[0].contains("queue_pair[2]: found the queue pair of line 7 again"),
            "{}",
            lines[0]
        );
    }
    assert_eq!(
        after(pair(a, "0x11", c, "0x22", "")),
        ["gw.toml:15:9: queue_pair[2].a_qpn: found 0x11 of 10.0.0.1, which line 7 pairs with \
          0x22 of 10.0.1.1; allowed: each QP in one queue pair"]
    );
    let crossed = pair(c, "0x22", b, "0x33", "") + &pair(b, "0x22", c, "0x22", "");
    let lines = after(crossed);
    assert_eq!(lines.len(), 2, "both ends are taken: {lines:#?}");
    assert!(lines[0].contains("queue_pair[3].a_qpn: found 0x22 of 10.0.1.1, which line 7"));
    assert!(lines[1].contains("queue_pair[3].b_qpn: found 0x22 of 10.0.1.2, which line 13"));
}
