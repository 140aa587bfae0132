//! Files with records, blocks and options that are odd: what can be read is read, what can't is said.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::{Records, error, json, path, records, warns};

const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// A block in little-endian order.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

fn section() -> Vec<u8> {
    let body = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
    block(0x0a0d_0d0a, &body)
}

fn interface(link: u16, options: &[u8]) -> Vec<u8> {
    block(INTERFACE, &[&link.to_le_bytes()[..], &[0; 6], options].concat())
}

/// A packet block of this kind, in microseconds.
fn packet(kind: u32, interface: u32, at: Duration, frame: &[u8]) -> Vec<u8> {
    let len = (frame.len() as u32).to_le_bytes();
    if kind == SIMPLE {
        return block(kind, &[&len, frame].concat());
    }
    let micros = at.as_micros() as u64;
    let times = [((micros >> 32) as u32).to_le_bytes(), (micros as u32).to_le_bytes()].concat();
    block(kind, &[&interface.to_le_bytes(), &times[..], &len, &len, frame].concat())
}

fn file(folder: &Path, blocks: &[Vec<u8>]) -> std::path::PathBuf {
    let file = folder.join("x.pcapng");
    fs::write(&file, blocks.concat()).expect("written");
    file
}

fn blocks(all: &Records, kind: impl Fn(usize) -> u32) -> Vec<Vec<u8>> {
    let packets = all.iter().enumerate().map(|(n, (at, frame))| packet(kind(n), 0, *at, frame));
    [section(), interface(1, &[])].into_iter().chain(packets).collect()
}

#[test]
fn obsolete_packet_blocks_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = records("loss_write.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    let report = json(&file(folder.path(), &blocks(&all, |_| PACKET)), &[]);
    assert_eq!(report["flows"], plain["flows"]);
}

#[test]
fn records_without_a_time_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = records("loss_write.pcap");
    let simple = file(folder.path(), &blocks(&all, |_| SIMPLE));
    let said = error(&simple, &[]);
    assert!(said.contains("has 125 records, all without a time (Simple Packet Blocks)"), "{said}");
    // The first three records, and every fifth one.
    let kind = |n: usize| if n < 3 || n.is_multiple_of(5) { SIMPLE } else { ENHANCED };
    let mixed = file(folder.path(), &blocks(&all, kind));
    warns(&mixed, &["has 27 records without a time", "has 3 records before the first time"]);
    let requests = json(&mixed, &[])["flows"][0]["requests"].clone();
    assert_eq!((&requests["packets"], &requests["gaps"]), (&119.into(), &0.into()));
}

#[test]
fn an_odd_record_refuses_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = records("loss_write.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    let mut odd = blocks(&all, |_| ENHANCED);
    let at = all[50].0;
    // An interface of another link type, with a record; a record of an interface that is not described; a block that
    // is too short for its fields; one that says it has more bytes than are there.
    odd.insert(2, interface(105, &[]));
    let mut long = packet(ENHANCED, 0, all[124].0, &all[124].1);
    long[20..24].copy_from_slice(&60_000_u32.to_le_bytes());
    *odd.last_mut().expect("blocks") = long;
    odd.insert(50, packet(ENHANCED, 1, at, &all[50].1));
    odd.insert(51, packet(ENHANCED, 7, at, &all[50].1));
    odd.insert(52, block(ENHANCED, &[0; 8]));
    let odd = file(folder.path(), &odd);
    let report = json(&odd, &["--interface", "0"]);
    // The bytes that fill up the last block count as captured.
    assert_eq!(report["flows"][0]["requests"], plain["flows"][0]["requests"]);
    assert_eq!(report["flows"][0]["responses"], plain["flows"][0]["responses"]);
    warns(
        &odd,
        &[
            "has 2 interfaces (0, 1)",
            "has 1 records of link type 105",
            "has 2 records that contradict",
        ],
    );
}

#[test]
fn a_bad_option_refuses_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = records("loss_write.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    for (options, warning) in [
        // A name that is no UTF-8 is none of our business.
        (vec![2, 0, 2, 0, 0xff, 0xfe, 0, 0], None),
        // A time resolution of two bytes; an option that is longer than its block.
        (vec![9, 0, 2, 0, 6, 6, 0, 0], Some("has 1 options of interfaces that can't be read")),
        (vec![1, 0, 99, 0, 65, 65, 0, 0], Some("has 1 options of interfaces that can't be read")),
    ] {
        let mut blocks = blocks(&all, |_| ENHANCED);
        blocks[1] = interface(1, &options);
        let file = file(folder.path(), &blocks);
        assert_eq!(json(&file, &[])["flows"], plain["flows"], "{options:?}");
        warns(&file, &warning.into_iter().collect::<Vec<_>>());
    }
}

/// The upper bits of the link type say that frames end with their FCS of four bytes.
#[test]
fn a_frame_check_sequence_is_no_part_of_the_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let header = |word: u32| {
        let fields = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, word];
        fields.map(u32::to_le_bytes).concat()
    };
    let mut bytes = header(0x2400_0001);
    for (at, frame) in records("loss_write.pcap") {
        let len = frame.len() as u32 + 4;
        for field in [at.as_secs() as u32, at.subsec_micros(), len, len] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&frame);
        bytes.extend_from_slice(&[0xee; 4]);
    }
    fs::write(&file, &bytes).expect("written");
    let plain = json(&path("loss_write.pcap"), &[]);
    assert_eq!(json(&file, &[])["flows"], plain["flows"]);
    assert_eq!(json(&file, &[])["totals"]["bytes"], plain["totals"]["bytes"]);
    warns(&file, &[]);
    // Without these bits, and with reserved ones.
    bytes[..24].copy_from_slice(&header(0x0801_0001));
    fs::write(&file, &bytes).expect("written");
    assert_eq!(json(&file, &[])["flows"][0]["requests"], plain["flows"][0]["requests"]);
}

#[test]
fn records_out_of_order_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = records("loss_write.pcap");
    all.swap(3, 4);
    warns(&file(folder.path(), &blocks(&all, |_| ENHANCED)), &["has 1 records that are older"]);
}
