//! Boxes hold packets for each other only while they hear each other.

use crate::support::*;
use common::control::{BootId, Epoch, Header, Message, Reason, Status, SyncMessage};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::time::{Span, Time};
use switch::Recovery;

const EPOCH: Epoch = Epoch(7);

/// The remote host's flow towards 0x33 is announced by a box that has seen `boot` of this
/// one. Then PSNs 0 and 2 come.
fn announced(bench: &mut Bench, seen_boot: BootId) -> Vec<u32> {
    let header = Header { seen_boot, ..bench.header(0x33, EPOCH) };
    bench.wan(message(&inbound(), 0x33, &header, &Message::Sync(open(0))));
    let sent = [0, 2].map(|psn| bench.wan(request(&inbound(), 0x33, psn)));
    psns(&sent.concat(), Lan)
}

// R-PEER-9
#[test]
fn nothing_is_held_until_a_sync_carries_this_boot() {
    for not_ours in [0, BOOT.0 - 1, BOOT.0 + 1].map(BootId) {
        let mut bench = Bench::new(Recovery::Auto);
        assert_eq!(announced(&mut bench, not_ours), [0, 2], "{not_ours}");
        let header = Header { seen_boot: not_ours, ..bench.header(0x33, EPOCH) };
        let sent = bench.wan(message(&inbound(), 0x33, &header, &Message::Sync(open(3))));
        let (reply, status) = sent[0].status().expect("a STATUS");
        assert!(status.passive && (reply.seen_boot, reply.boot) == (PEER_BOOT, BOOT));
        let sent = bench.sync(0x33, EPOCH, open(3));
        assert!(!sent[0].status().expect("a STATUS").1.passive);
        assert!(psns(&bench.wan(request(&inbound(), 0x33, 4)), Lan).is_empty(), "held");
    }
    let mut bench = Bench::new(Recovery::Auto);
    assert_eq!(announced(&mut bench, BOOT), [0]);
}

// R-PEER-10
#[test]
fn a_sync_that_carries_it_no_more_releases_what_is_held() {
    let mut bench = Bench::new(Recovery::Auto);
    announced(&mut bench, BOOT);
    let header = Header { seen_boot: BootId::NONE, ..bench.header(0x33, EPOCH) };
    let newer = SyncMessage { sent_at: Time::from_nanos(2), ..open(3) };
    let sent = bench.wan(message(&inbound(), 0x33, &header, &Message::Sync(newer)));
    assert_eq!(psns(&sent, Lan), [2]);
    assert_eq!(psns(&bench.wan(request(&inbound(), 0x33, 7)), Lan), [7]);
}

/// The boot of the peer that the SYNC among `sent` says was seen.
fn seen_boot(sent: &[Sent]) -> Option<BootId> {
    sent.iter().find_map(Sent::sync).map(|(header, _)| header.seen_boot)
}

// R-PEER-11
#[test]
fn a_new_flow_carries_the_boot_of_the_box_that_answered_for_its_destination() {
    let mut bench = Bench::new(Recovery::Auto);
    assert_eq!(seen_boot(&bench.lan(request(&outbound(), 0x22, 0))), Some(BootId::NONE));
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(0x22, 0..2);
    assert_eq!(seen_boot(&bench.lan(request(&outbound(), 0x23, 0))), Some(PEER_BOOT));
    // Two round trips without a response, and nothing of it is believed.
    let mut syncs = Vec::new();
    for _ in 0..60 {
        bench.wait(RTT / 8);
        bench.status(0x22, epoch, report(2, 2, &[]));
        syncs.extend(seen_boot(&bench.timers()));
    }
    assert!(syncs.contains(&PEER_BOOT) && syncs.last() == Some(&BootId::NONE), "{syncs:?}");
    // That is about the destination: another flow to it starts without.
    let sent = bench.lan(request(&outbound(), 0x24, 0));
    let heard_since = bench.count(Metric::DropStatusConsumed);
    assert!(heard_since > 0 && seen_boot(&sent).is_some());
}

#[test]
fn a_passive_answer_names_the_boot_that_the_next_sync_carries() {
    let mut bench = Bench::new(Recovery::Auto);
    let sent = bench.lan(request(&outbound(), 0x22, 0));
    let epoch = sent.iter().find_map(Sent::sync).expect("SYNC(open)").0.epoch;
    bench.wait(Span::from_millis(1));
    let sent = bench.status(0x22, epoch, Status::passive(Time::from_nanos(1), None));
    let (header, sync) = sent[0].sync().expect("at once");
    assert_eq!((header.seen_boot, sync.reason), (PEER_BOOT, Reason::Open));
}

/// The reasons of the SYNCs among `sent`.
fn reasons(sent: &[Sent]) -> Vec<Reason> {
    sent.iter().filter_map(Sent::sync).map(|(_, sync)| sync.reason).collect()
}

// R-PEER-15
#[test]
fn a_box_that_drains_releases_until_it_is_answered_four_times_at_most() {
    for answered in [false, true] {
        let mut bench = Bench::new(Recovery::Cached);
        let epoch = bench.protect(0x22, 0..4);
        assert_eq!(reasons(&bench.drain()), [Reason::Release]);
        assert!(bench.switch.is_leaving());
        if answered {
            bench.status(0x22, epoch.next(), Status::passive(Time::ZERO, None));
            assert!(bench.switch.is_leaving(), "of another incarnation");
            bench.status(0x22, epoch, Status::passive(Time::ZERO, None));
        }
        let mut again = 0;
        while bench.switch.next_deadline() != Time::NEVER {
            bench.now = bench.now.max(bench.switch.next_deadline());
            let sent = bench.timers();
            let released = reasons(&sent);
            assert!(released.iter().all(|reason| *reason == Reason::Release));
            again += released.len();
        }
        assert_eq!(again, if answered { 0 } else { 3 });
        assert!(!bench.switch.is_leaving());
        bench.assert_passes(Lan, &request(&outbound(), 0x22, 4));
        bench.assert_passes(Wan, &request(&inbound(), 0x33, 4));
    }
}
