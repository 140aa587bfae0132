//! Captures of which each packet was cut.

use std::time::Duration;

use pcap_file::DataLink;

use crate::support::{error, json, path, records, warns, write};

/// The first bytes are enough up to the BTH: ICRCs and lengths of WRITEs are of no use here.
#[test]
fn the_bth_is_enough_for_gaps_and_resends() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    for snaplen in [58, 60, 64, 68, 96] {
        write(&file, DataLink::ETHERNET, snaplen, &records("loss_write.pcap"));
        let report = json(&file, &[]);
        assert_eq!(report["flows"], plain["flows"], "{snaplen}");
        assert_eq!(report["totals"]["cut"], 0, "{snaplen}");
        warns(&file, &[]);
    }
}

#[test]
fn an_ack_without_its_syndrome_is_neither_ack_nor_nak() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    write(&file, DataLink::ETHERNET, 54, &records("loss_write.pcap"));
    let report = json(&file, &[]);
    let requests = &report["flows"][0]["requests"];
    assert_eq!((&requests["packets"], &requests["gaps"]), (&122.into(), &0.into()));
    // The cause is not known: it was a NAK.
    assert_eq!(requests["after_timeout"]["times"], 0);
    assert_eq!(
        (&requests["unexplained"]["times"], &requests["lost_again"]),
        (&2.into(), &0.into())
    );
    assert_eq!(report["totals"]["blind_acks"], 3);
    warns(&file, &["has 3 ACKs or NAKs that were captured without their syndrome"]);
}

#[test]
fn reads_without_their_length_are_followed_by_their_responses() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut all = records("rc_read.pcap");
    write(&file, DataLink::ETHERNET, 64, &all);
    let report = json(&file, &[]);
    let plain = json(&path("rc_read.pcap"), &[]);
    assert_eq!(report["flows"][0]["requests"], plain["flows"][0]["requests"]);
    assert_eq!(report["flows"][0]["reads"], plain["flows"][0]["reads"]);
    warns(&file, &["has 5 READ requests that were captured without their length"]);
    // The third response to the first READ is lost.
    all.remove(4);
    write(&file, DataLink::ETHERNET, 64, &all);
    let reads = json(&file, &[])["flows"][0]["reads"].clone();
    assert_eq!((&reads["gaps"], &reads["missing"]), (&1.into(), &1.into()));
    assert_eq!((&reads["packets"], &reads["repeated"]), (&39.into(), &0.into()));
}

/// Between two READs that are asked for again nothing is missing, however long the first one is.
#[test]
fn a_run_of_reads_without_their_length_has_no_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut all = records("rc_read.pcap");
    let (end, [first, second]) = (all[all.len() - 1].0, [0, 3].map(|n| all[n].1.clone()));
    all.push((end + Duration::from_millis(2), first));
    all.push((end + Duration::from_millis(3), second));
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    let whole = json(&file, &[])["flows"][0]["requests"].clone();
    assert_eq!((&whole["after_timeout"]["times"], &whole["lost_again"]), (&1.into(), &0.into()));
    write(&file, DataLink::ETHERNET, 64, &all);
    assert_eq!(json(&file, &[])["flows"][0]["requests"], whole);
}

#[test]
fn packets_that_can_not_be_seen_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut all = records("loss_write.pcap");
    write(&file, DataLink::ETHERNET, 53, &all);
    assert!(error(&file, &[]).contains("capture at least 128 bytes"));
    // Some records only: by a writer that says nothing of the rest, where it is their IP length that does.
    all[20].1.truncate(44);
    all[40].1.truncate(70);
    write(&file, DataLink::ETHERNET, usize::MAX, &all);
    let report = json(&file, &[]);
    assert_eq!(report["flows"][0]["requests"]["missing"], 1);
    warns(&file, &["has 1 malformed packets to UDP port 4791"]);
}
