//! RoCEv2 inside other protocols: overlays, pseudowires and mirrors.

use pcap_file::DataLink;

use crate::support::{error, json, path, records, warns, write};

/// Ethernet and IPv4 before a payload of this protocol.
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len() as u16).to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend_from_slice(&[0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    [&frame, payload].concat()
}

fn ip6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x86, 0xdd];
    frame.extend_from_slice(&[0x60, 0, 0, 0, len[0], len[1], protocol, 64]);
    frame.extend_from_slice(&[0xfd; 32]);
    [&frame, payload].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    let port = port.to_be_bytes();
    [&[0xc0, 0, port[0], port[1], len[0], len[1], 0, 0], payload].concat()
}

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8][..], &ethertype.to_be_bytes(), payload].concat()
}

fn all(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

type Wrap = fn(&[u8]) -> Vec<u8>;

/// The name that the report has, and the frame inside.
pub const WRAPS: [(&str, Wrap); 16] = [
    ("vxlan", |frame| ip(17, &udp(4789, &all(&[&[8, 0, 0, 0, 0, 0, 42, 0], frame])))),
    ("vxlan", |frame| ip6(17, &udp(4789, &all(&[&[8, 0, 0, 0, 0, 0, 42, 0], frame])))),
    ("vxlan", |frame| ip(17, &udp(4790, &all(&[&[12, 0, 0, 1, 0, 0, 42, 0], &frame[14..]])))),
    ("geneve", |frame| {
        let header = [1, 0, 0x65, 0x58, 0, 0, 42, 0, 0, 1, 2, 0];
        ip(17, &udp(6081, &all(&[&header, frame])))
    }),
    // NVGRE has a key.
    ("gre", |frame| ip(47, &all(&[&[0x20, 0, 0x65, 0x58, 0, 0, 42, 0], frame]))),
    // Checksum, key and sequence number before IP.
    ("gre", |frame| ip(47, &all(&[&[0xb0, 0, 8, 0], &[0; 12], &frame[14..]]))),
    ("gre", |frame| ip6(47, &all(&[&[0, 0, 8, 0], &frame[14..]]))),
    ("erspan", |frame| ip(47, &all(&[&[0, 0, 0x88, 0xbe], frame]))),
    ("erspan", |frame| {
        let header = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 7, 0x10, 1, 0, 1, 0, 0, 0, 0];
        ip(47, &all(&[&header, frame]))
    }),
    ("erspan", |frame| {
        let header = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 7, 0x20, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        ip(47, &all(&[&header, frame]))
    }),
    // With a platform's header behind.
    ("erspan", |frame| {
        let header = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 7, 0x20, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        ip(47, &all(&[&header, &[0; 8], frame]))
    }),
    ("mpls", |frame| ethernet(0x8847, &all(&[&[0, 1, 0, 64, 0, 1, 1, 64], &frame[14..]]))),
    // A pseudowire with a control word, and one without.
    ("mpls", |frame| ethernet(0x8847, &all(&[&[0, 1, 1, 64, 0, 0, 0, 0], frame]))),
    ("mpls", |frame| {
        let mut frame = frame.to_vec();
        frame[0] = 0x12;
        ethernet(0x8848, &all(&[&[0, 1, 1, 64], &frame]))
    }),
    ("ip", |frame| ip(4, &frame[14..])),
    ("ip", |frame| ip6(4, &frame[14..])),
];

#[test]
fn encapsulated_packets_are_as_plain_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    for (n, (name, wrap)) in WRAPS.iter().enumerate() {
        for snaplen in [usize::MAX, 128] {
            let mut wrapped = records("loss_write.pcap");
            wrapped.iter_mut().for_each(|(_, frame)| *frame = wrap(frame));
            write(&file, DataLink::ETHERNET, snaplen, &wrapped);
            let report = json(&file, &[]);
            assert_eq!(report["flows"], plain["flows"], "{n}: {name}, {snaplen}");
            assert_eq!(report["totals"]["encapsulated"][name], 125, "{n}: {name}");
            warns(&file, &[]);
        }
    }
}

#[test]
fn one_within_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut wrapped = records("loss_write.pcap");
    let (vxlan, erspan) = (WRAPS[0].1, WRAPS[8].1);
    wrapped.iter_mut().for_each(|(_, frame)| *frame = erspan(&vxlan(frame)));
    write(&file, DataLink::ETHERNET, usize::MAX, &wrapped);
    let report = json(&file, &[]);
    assert_eq!(report["flows"], json(&path("loss_write.pcap"), &[])["flows"]);
    let counts = &report["totals"]["encapsulated"];
    assert_eq!((&counts["vxlan"], &counts["erspan"]), (&125.into(), &125.into()));
}

/// A mirror cuts frames, and its capture says nothing of it: only the IP header inside does.
#[test]
fn a_mirror_that_cuts_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut wrapped = records("loss_write.pcap");
    let erspan = WRAPS[8].1;
    wrapped.iter_mut().for_each(|(_, frame)| *frame = erspan(&frame[..frame.len().min(64)]));
    write(&file, DataLink::ETHERNET, usize::MAX, &wrapped);
    let plain = json(&path("loss_write.pcap"), &[]);
    assert_eq!(json(&file, &[])["flows"], plain["flows"]);
}

#[test]
fn what_is_not_looked_at_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut all = records("loss_write.pcap");
    // A first fragment of RoCEv2, and one of an overlay; more fragments follow.
    all[20].1[20] = 0x20;
    all[30].1 = WRAPS[0].1(&all[30].1);
    all[30].1[20] = 0x20;
    // A third VLAN tag.
    (0..3).for_each(|_| drop(all[40].1.splice(12..12, [0x81, 0, 0, 42])));
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    warns(&file, &["has 3 IP fragments, or frames"]);
    assert_eq!(json(&file, &[])["totals"]["unread"], 3);
}

/// Source routes and PPTP's version have other headers behind the flags.
#[test]
fn another_gre_is_not_taken_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    for flags in [[0x40, 0], [0, 1]] {
        let mut all = records("loss_write.pcap");
        for (_, frame) in &mut all {
            *frame = ip(47, &[&flags, &[0x65, 0x58], &frame[..]].concat());
        }
        write(&file, DataLink::ETHERNET, usize::MAX, &all);
        assert!(error(&file, &[]).contains("has 125 records, and none is RoCEv2"));
    }
}

/// Wrong headers of each kind, cut everywhere: nothing panics, and every record is counted.
#[test]
fn any_length_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let (at, frame) = records("loss_write.pcap")[0].clone();
    let mut all = vec![(at, frame.clone())];
    for (_, wrap) in WRAPS {
        let wrapped = wrap(&frame);
        all.extend((0..200).map(|len| (at, wrapped[..len].to_vec())));
    }
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    let totals = json(&file, &[])["totals"].clone();
    let count = |name: &str| totals[name].as_u64().expect(name);
    let parts = ["roce", "not_roce", "malformed", "cut", "unread", "copies"];
    assert_eq!(count("records"), parts.into_iter().map(count).sum::<u64>());
    assert_eq!(count("records"), 1 + 16 * 200);
}
