//! Why results of a capture may be wrong: one sentence for each reason.

use crate::analysis::Totals;
use crate::capture::Contents;

/// The reasons, by the counts of the records and the rest of a file's contents.
pub fn warnings(totals: &Totals, contents: &Contents) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(why) = &contents.ends_early {
        all.push(why.clone());
    }
    if contents.interfaces.len() > 1 {
        all.push(format!(
            "has {} interfaces ({}): a packet that passed two of them may count twice; choose with --interface",
            contents.interfaces.len(),
            contents.interfaces.join(", ")
        ));
    }
    for (link, count) in &contents.other_links {
        all.push(format!("has {count} records of link type {link}, which were left out"));
    }
    let counts = [
        (
            totals.copies,
            "copies of packets, which were left out: the same bytes within 20 us, as of a bond and its members or of a mirror of both directions",
        ),
        (
            totals.suspects,
            "packets within 1 ms of the same bytes: if they are copies, resends and duplicates are not to be believed; choose one interface or direction",
        ),
        (
            totals.cut,
            "records of which too little was captured: gaps and losses are not to be believed; capture at least 128 bytes of each (tcpdump -s 128)",
        ),
        (
            totals.blind_acks,
            "ACKs or NAKs that were captured without their syndrome: causes of resends are not to be believed; capture at least 128 bytes of each (tcpdump -s 128)",
        ),
        (
            totals.blind_reads,
            "READ requests that were captured without their length: packets missing right behind these are not seen; capture at least 128 bytes of each (tcpdump -s 128)",
        ),
        (
            totals.unread,
            "IP fragments, or frames within more than eight encapsulations or two VLAN tags, which were not looked at: their packets count as missing",
        ),
        (
            totals.malformed,
            "malformed packets to UDP port 4791: if they are of a flow, they count as missing",
        ),
        (
            totals.out_of_order,
            "records that are older than the record before: their packets count as late; sort the file (reordercap)",
        ),
        (
            contents.untimed,
            "records without a time (Simple Packet Blocks), which count at the time of the record before: times and timeouts are not to be believed",
        ),
        (contents.before_times, "records before the first time, which were left out"),
        (contents.odd, "records that contradict the file, which were left out"),
        (
            contents.odd_options,
            "options of interfaces that can't be read: if they are about times, times are not to be believed",
        ),
    ];
    all.extend(counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("has {n} {what}")));
    all
}
