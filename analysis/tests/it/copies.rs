//! Captures that have packets twice: of all interfaces of a host with a bond, and of mirrors.

use std::time::Duration;

use pcap_file::DataLink;

use crate::support::{Records, error, json, path, records, warns, write};

/// Each packet, and `apart` later what `copy` makes of it; in the order of the times.
fn doubled(apart: Duration, copy: impl Fn(&[u8]) -> Vec<u8>) -> Records {
    let mut all = Vec::new();
    for (at, frame) in records("loss_write.pcap") {
        all.push((at + apart, copy(&frame)));
        all.push((at, frame));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// A frame as `tcpdump -i any` writes it, of the interface with this index.
fn cooked(frame: &[u8], index: u8) -> Vec<u8> {
    let header = [8, 0, 0, 0, 0, 0, 0, index, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    [&header, &frame[14..]].concat()
}

#[test]
fn a_bond_and_its_member_are_one_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut all = doubled(Duration::from_micros(1), |frame| cooked(frame, 2));
    for (_, frame) in all.iter_mut().filter(|(_, frame)| frame[0] != 8) {
        *frame = cooked(frame, 5);
    }
    write(&file, DataLink::from(276), usize::MAX, &all);
    let plain = json(&path("loss_write.pcap"), &[]);
    let report = json(&file, &[]);
    assert_eq!(report["flows"], plain["flows"]);
    assert_eq!(
        (&report["totals"]["copies"], &report["totals"]["roce"]),
        (&125.into(), &125.into())
    );
    warns(&file, &["has 2 interfaces (2, 5)", "has 125 copies of packets"]);
    for index in ["2", "5"] {
        let report = json(&file, &["--interface", index]);
        assert_eq!(report["flows"], plain["flows"], "{index}");
        assert_eq!(report["totals"]["records"], 125);
    }
    let said = error(&file, &["--interface", "9"]);
    assert!(said.contains("no interface \"9\"; it has: \"2\", \"5\""), "{said}");
}

/// The other port's copy has a VLAN tag, has passed a router, and was marked on the way.
#[test]
fn a_mirror_of_both_directions_is_one_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let all = doubled(Duration::from_micros(15), |frame| {
        let mut copy = frame.to_vec();
        (copy[15], copy[22], copy[24]) = (copy[15] | 3, copy[22] - 1, copy[24].wrapping_add(1));
        copy.splice(12..12, [0x81, 0, 0, 42]);
        copy
    });
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    let report = json(&file, &[]);
    let plain = json(&path("loss_write.pcap"), &[]);
    assert_eq!(report["flows"][0]["requests"], plain["flows"][0]["requests"]);
    warns(&file, &["has 125 copies of packets"]);
}

/// Copies that a queue has held back might be resends, too.
#[test]
fn late_copies_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let all = doubled(Duration::from_micros(300), <[u8]>::to_vec);
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    warns(&file, &["packets within 1 ms of the same bytes: if they are copies"]);
    assert_eq!(json(&file, &[])["totals"]["copies"], 0);
}

#[test]
fn resends_are_no_copies() {
    for name in ["loss_write.pcap", "badicrc_write.pcap", "rc_read.pcap", "rping_cm.pcap"] {
        warns(&path(name), &[]);
        assert_eq!(json(&path(name), &[])["totals"]["copies"], 0, "{name}");
    }
}
