//! Captures of real hosts: `common/tests/captures`, where each packet stands in a text beside.

use std::fs::File;
use std::path::PathBuf;

use analysis::capture::{Choice, read};
use analysis::{Analysis, Report, Settings};

fn report(name: &str) -> Report {
    let path =
        [env!("CARGO_MANIFEST_DIR"), "../common/tests/captures", name].iter().collect::<PathBuf>();
    let mut analysis = Analysis::new(Settings::default());
    read(File::open(path).expect("a capture"), &Choice::default(), &mut analysis)
        .expect("it is read");
    let report = analysis.report();
    let totals = report.totals;
    let parts = totals.roce
        + totals.not_roce
        + totals.malformed
        + totals.cut
        + totals.unread
        + totals.copies;
    assert_eq!(totals.records, parts + totals.tunnel_messages + totals.not_followed, "{name}");
    report
}

#[test]
fn go_back_n_of_real_hosts() {
    // Captured at the source: 9790212 was lost behind it, then 9790218; see loss_write.txt.
    let report = report("loss_write.pcap");
    let [flow] = &report.flows[..] else { panic!("one flow") };
    assert_eq!((flow.src_qpn, flow.dest_qpn, flow.path_mtu), (Some(34), 34, 1024));
    assert_eq!((flow.responses.naks, flow.responses.acks), (2, 1));
    let requests = &flow.requests;
    assert_eq!((requests.packets, requests.gaps, requests.lost_behind), (122, 0, 2));
    // 9790212 to 9790265, then 9790218 to 9790221: the first of each was needed.
    let nak = requests.after_nak;
    assert_eq!((nak.times, nak.packets, nak.wasted_packets), (2, 58, 56));
    assert_eq!((nak.wasted_bytes, report.lr2_saves.bytes), (56 * 1024, 56 * 1024));
    assert_eq!((requests.after_timeout.times, requests.duplicates), (0, 0));
    assert_eq!(requests.new_bytes, 64 * 1024);
}

#[test]
fn damaged_packets_of_real_hosts() {
    let report = report("badicrc_write.pcap");
    let flow = &report.flows[0];
    assert_eq!((flow.responses.naks, flow.requests.after_nak.times), (2, 2));
}

#[test]
fn nothing_happens_where_nothing_is_lost() {
    for name in ["rc_send.pcap", "rc_write.pcap", "rc_read.pcap", "rc_atomic.pcap", "rping_cm.pcap"]
    {
        let report = report(name);
        for flow in &report.flows {
            let requests = &flow.requests;
            let events =
                requests.gaps + requests.duplicates + requests.restarts + requests.lost_behind;
            assert_eq!((events, flow.reads.gaps, flow.reads.repeated), (0, 0, 0), "{name}");
            assert!(flow.src_qpn.is_some(), "{name}");
        }
        assert_eq!(report.totals.unmatched_responses, 0, "{name}");
    }
}

#[test]
fn reads_take_as_many_psns_as_responses() {
    let flow = &report("rc_read.pcap").flows[0];
    assert_eq!((flow.reads.requests, flow.reads.packets, flow.reads.bytes), (5, 40, 40 * 1024));
}

/// Both hosts of it have the same queue pair number, and each sends requests.
#[test]
fn connection_management_says_who_belongs_together() {
    let report = report("rping_cm.pcap");
    assert_eq!((report.flows.len(), report.totals.other_transports), (2, 5));
    let answered = |i: usize| report.flows[i].responses.acks + report.flows[i].reads.packets;
    assert_eq!((answered(0), answered(1)), (6, 15));
}
