//! Captures, made from those of real hosts, and the program on them.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use serde_json::Value;

/// A record: its time and its bytes.
pub type Records = Vec<(Duration, Vec<u8>)>;

pub const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/tests/captures");

pub fn path(name: &str) -> PathBuf {
    Path::new(CAPTURES).join(name)
}

/// Time and frame of each record.
pub fn records(name: &str) -> Records {
    let mut reader = PcapReader::new(File::open(path(name)).expect("a capture")).expect("pcap");
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("whole");
        all.push((packet.timestamp, packet.data.into_owned()));
    }
    all
}

pub fn write(file: &Path, link: DataLink, snaplen: usize, records: &[(Duration, Vec<u8>)]) {
    let header = PcapHeader {
        datalink: link,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let mut writer =
        PcapWriter::with_header(File::create(file).expect("made"), header).expect("written");
    for (at, frame) in records {
        let data = Cow::Borrowed(&frame[..frame.len().min(snaplen)]);
        let packet = PcapPacket { timestamp: *at, orig_len: frame.len() as u32, data };
        writer.write_packet(&packet).expect("written");
    }
}

pub fn analyze(file: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lr2-analyze"))
        .arg(file)
        .args(options)
        .output()
        .expect("it starts")
}

pub fn json(file: &Path, options: &[&str]) -> Value {
    let output = analyze(file, &[&["--json"], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The line of an error, and that there is no other and the code is 2.
pub fn error(file: &Path, options: &[&str]) -> String {
    let output = analyze(file, options);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// The lines that the program writes beside its report, which is there.
pub fn warnings(file: &Path, options: &[&str]) -> Vec<String> {
    let output = analyze(file, options);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// Checks that there are as many warnings as `parts`, each with its part.
pub fn warns(file: &Path, parts: &[&str]) {
    let warnings = warnings(file, &[]);
    assert_eq!(warnings.len(), parts.len(), "{warnings:?}");
    for (warning, part) in warnings.iter().zip(parts) {
        assert!(warning.contains(part), "{part:?} in {warning:?}");
    }
}
