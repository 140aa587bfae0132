//! Frames of a run in files, and messages in a table for data frames.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use clap::Parser;
use link::FrameKind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use pcap_file::pcapng::{Block, PcapNgReader};
use simulator::cli::{Cli, Failure};
use simulator::run::run;

const SCENARIO: &str = "schemes = [\"gbn\", \"cached\"]\n\
     [topology]\nkind = \"dumbbell\"\nhosts = 2\n\
     [long_haul]\nrate = \"10Gbps\"\nrtt = \"1ms\"\nloss = 1e-2\n\
     [[traffic]]\nkind = \"long\"\nflows = 2\nbytes = \"500kB\"\n";

/// `lr2-sim run` with a scenario file in `folder`; `{}` stands for the folder.
fn execute(folder: &Path, options: &[&str]) -> Result<String, Failure> {
    let text = folder.to_str().expect("UTF-8");
    let file = format!("{text}/small.toml");
    std::fs::write(&file, SCENARIO).expect("written");
    let options = options.iter().map(|option| option.replace("{}", text));
    let line = ["lr2-sim", "run", &file].map(str::to_owned).into_iter().chain(options);
    Cli::try_parse_from(line).expect("a command line").execute(&run)
}

#[test]
fn every_frame_is_in_the_capture_and_in_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--scheme", "cached", "--pcap", "{}/run.pcapng", "--trace", "{}/run.csv"];
    execute(folder.path(), &options).expect("it runs");

    let file = std::fs::File::open(folder.path().join("run.pcapng")).expect("written");
    let mut reader = PcapNgReader::new(file).expect("pcapng");
    let (mut interfaces, mut frames) = (0, Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("well-formed").into_owned() {
            Block::InterfaceDescription(_) => interfaces += 1,
            Block::EnhancedPacket(packet) => frames.push(packet),
            _ => {}
        }
    }
    // Four hosts, two gateways, the long haul: both directions.
    assert_eq!(interfaces, 14);
    let kinds: HashSet<&str> = frames.iter().map(|p| FrameKind::of(&p.data).name()).collect();
    assert!(
        ["request", "response", "control"].iter().all(|kind| kinds.contains(kind)),
        "{kinds:?}"
    );

    let mut trace = csv::Reader::from_path(folder.path().join("run.csv")).expect("written");
    let rows: Vec<csv::StringRecord> = trace.records().collect::<Result<_, _>>().expect("CSV");
    assert_eq!(rows.len(), frames.len());
    for (row, frame) in rows.iter().zip(&frames) {
        assert_eq!(row[0].parse(), Ok(frame.timestamp.as_nanos()));
        assert_eq!(row[4].parse(), Ok(frame.data.len()));
        assert_eq!(&row[3] == "true", !frame.options.is_empty(), "a lost frame has a comment");
    }
    let lost: HashSet<&str> =
        rows.iter().filter(|row| &row[3] == "true").map(|row| &row[1]).collect();
    assert!(lost.iter().all(|from| from.starts_with("gateway")) && !lost.is_empty(), "{lost:?}");
    // A frame that crosses a site is seen on each of its cables.
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for row in rows.iter().filter(|row| &row[5] == "request") {
        *seen.entry(&row[1]).or_default() += 1;
    }
    assert!(seen["host 0"] >= 123 && seen["switch 0"] == seen["host 0"] + seen["host 1"]);
}

#[test]
fn a_capture_is_of_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = execute(folder.path(), &["--pcap", "{}/x"]).expect_err("two schemes");
    assert_eq!(failure.code, 2);
    assert!(failure.message.contains("2 runs"), "{}", failure.message);
}

#[test]
fn messages_are_the_same_in_parquet_as_in_csv() {
    let folder = tempfile::tempdir().expect("a folder");
    // Some messages are not complete.
    let limit = ["--set", "limit=\"3ms\""];
    for name in ["{}/flows.csv", "{}/flows.parquet"] {
        execute(folder.path(), &[&["--flows", name][..], &limit].concat()).expect("it runs");
    }
    let mut text = csv::Reader::from_path(folder.path().join("flows.csv")).expect("written");
    let file = std::fs::File::open(folder.path().join("flows.parquet")).expect("written");
    let table = SerializedFileReader::new(file).expect("Parquet");
    let rows: Vec<_> =
        table.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    let head = text.headers().expect("a heading").clone();
    let mut missing = 0;
    let mut count = 0;
    for (record, row) in text.records().map(|record| record.expect("CSV")).zip(&rows) {
        count += 1;
        let columns: Vec<(&String, &Field)> = row.get_column_iter().collect();
        assert!(head.iter().eq(columns.iter().map(|(name, _)| name.as_str())));
        for (field, (name, value)) in record.iter().zip(columns) {
            match value {
                Field::Null => missing += usize::from(field.is_empty()),
                Field::Str(text) => assert_eq!(text, field),
                Field::Double(number) => {
                    let expected: f64 = field.parse().expect("a number");
                    assert!((number - expected).abs() < 1e-9 * expected.max(1.0), "{name}");
                }
                other => assert_eq!(other.to_string(), field, "{name}"),
            }
        }
    }
    assert_eq!((count, rows.len()), (4, 4));
    assert!(missing > 0 && missing % 2 == 0, "{missing} fields of incomplete messages");
}
