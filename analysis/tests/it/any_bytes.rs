//! Whatever a capture holds, nothing panics and every record is accounted for.

use std::fs::File;

use analysis::capture::{Choice, read};
use analysis::{Analysis, Link, Record, Settings, html, text};
use common::time::Time;
use pcap_file::pcap::PcapReader;
use proptest::prelude::*;

fn frames(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../common/tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let mut reader = PcapReader::new(File::open(path).expect("a capture")).expect("pcap");
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        all.push(packet.expect("whole").data.into_owned());
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Packets of real hosts in any order, with bytes of their transport headers changed, cut, at any times.
    #[test]
    fn any_packets(
        which in prop::sample::select(vec!["loss_write", "rc_read", "rc_atomic", "rping_cm"]),
        steps in prop::collection::vec(
            (any::<prop::sample::Index>(), 42_usize..80, any::<u8>(), 0_u8..4, 0_usize..200, 0_u64..3_000_000), 0..200,
        ),
        most_streams in 0_usize..5,
    ) {
        let frames = frames(which);
        let mut analysis = Analysis::new(Settings { most_streams, with_timeline: true, ..Settings::default() });
        let mut now = 0;
        for (index, at, byte, how, cut, wait) in &steps {
            let mut frame = index.get(&frames).clone();
            now += wait;
            if *how > 0 && *at < frame.len() {
                frame[*at] = *byte;
            }
            let len = frame.len();
            if *how == 3 {
                frame.truncate(*cut);
            }
            let record = Record { at: Time::from_nanos(now), link: Link::Ethernet, bytes: &frame, len };
            analysis.take(&record);
        }
        let report = analysis.report();
        let totals = report.totals;
        let parts = totals.roce + totals.not_roce + totals.malformed + totals.cut + totals.unread + totals.copies;
        prop_assert_eq!(totals.records, steps.len() as u64);
        prop_assert_eq!(totals.records, parts + totals.tunnel_messages + totals.not_followed);
        for flow in &report.flows {
            let requests = &flow.requests;
            prop_assert!(requests.new_bytes <= requests.bytes);
            prop_assert!(requests.lost_before + requests.late + requests.never <= requests.missing);
        }
        let mut out = String::new();
        text::write(&report, 3, &mut out).expect("written");
        prop_assert!(html::page(&report, "x", 3).ends_with("</html>"));
    }

    /// Files with bytes changed, or cut.
    #[test]
    fn any_file(changes in prop::collection::vec((0_usize..2000, any::<u8>()), 0..20), len in 0_usize..4000, is_partial: bool) {
        let path = format!("{}/../common/tests/captures/rc_send.pcap", env!("CARGO_MANIFEST_DIR"));
        let mut file = std::fs::read(path).expect("a capture");
        for (at, byte) in changes {
            file[at] = byte;
        }
        file.truncate(len);
        let mut analysis = Analysis::new(Settings::default());
        let choice = Choice { is_partial, ..Choice::default() };
        if let Err(fault) = read(&file[..], &choice, &mut analysis) {
            prop_assert!(!fault.to_string().contains('\n'));
        }
    }
}
