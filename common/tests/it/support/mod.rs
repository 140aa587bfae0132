//! Shared parts of the wire tests: the captured frames, and an ICRC that
//! shares nothing with the one under test.

use std::path::PathBuf;

use pcap_file::pcap::PcapReader;

/// The captures, by file name.
pub const CAPTURES: [&str; 8] = [
    "badicrc_write",
    "loss_write",
    "rc_atomic",
    "rc_read",
    "rc_send",
    "rc_write",
    "rc_write_128k",
    "rping_cm",
];

/// A file beside the captures.
pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "captures", name].iter().collect()
}

/// The frames of one capture.
pub fn frames(capture: &str) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path(&format!("{capture}.pcap"))).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    assert!(!frames.is_empty());
    frames
}

/// The frames of all captures.
pub fn all_frames() -> Vec<Vec<u8>> {
    CAPTURES.iter().flat_map(|name| frames(name)).collect()
}

/// A bit of a packet, counted from the IP header, that the ICRC doesn't cover.
/// `byte` is an offset, `bit` a mask.
pub fn is_masked(packet: &[u8], l4: usize, byte: usize, bit: u8) -> bool {
    let by_ip = match packet[0] >> 4 {
        4 => matches!(byte, 1 | 8 | 10 | 11),
        _ => matches!(byte, 1..=3 | 7) || byte == 0 && bit < 0x10,
    };
    by_ip || byte == l4 + 6 || byte == l4 + 7 || byte == l4 + 8 + 4
}

/// The ICRC, bit by bit, of a packet from its IP header to before its ICRC.
pub fn slow_icrc(packet: &[u8], l4: usize) -> u32 {
    let mut crc = u32::MAX;
    let mut feed = |one: bool| {
        let carry = (crc & 1 == 1) != one;
        crc = crc >> 1 ^ if carry { 0xedb8_8320 } else { 0 };
    };
    (0..64).for_each(|_| feed(true));
    for (at, byte) in packet.iter().enumerate() {
        for bit in (0..8).map(|n| 1 << n) {
            feed(byte & bit != 0 || is_masked(packet, l4, at, bit));
        }
    }
    !crc
}
