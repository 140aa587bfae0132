//! Which control messages are believed.

use crate::support::*;
use common::control::{BootId, Header, Keys, Message, Reason, Reject, Status, SyncMessage};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Opcode, Qpn, parse, request_ack};
use switch::{Config, Recovery};

// R-CTL-1
#[test]
fn a_message_from_the_lan_is_dropped() {
    let mut bench = Bench::new(Recovery::Auto);
    let header = bench.header(9, 1);
    let sync = message(&outbound(), 9, &header, &Message::Sync(open(5)));
    assert!(bench.receive(Lan, sync.clone()).is_empty());
    assert_eq!(bench.count(Metric::DropControlFromLan), 1);
    assert_eq!(bench.receive(Wan, sync).len(), 1, "from the WAN it is answered");
}

// R-CTL-1
#[test]
fn every_reason_to_reject_a_message_is_counted_by_itself() {
    let mut bench = Bench::new(Recovery::Auto);
    let header = bench.header(9, 1);
    let good = message(&inbound(), 9, &header, &Message::Sync(open(5)));
    // Re-emitting gives the changed body a right ICRC.
    let again = |body: &[u8]| frame(&inbound(), Opcode(0xe1), 9, 1, body);
    let body = &good[54..good.len() - 4];
    let mut version = body.to_vec();
    version[4] = 77;
    let mut tag = body.to_vec();
    *tag.last_mut().expect("a tag") ^= 1;
    let cases = [
        (damaged(good.clone()), Metric::DropControlBadIcrc),
        (again(&body[..5]), Metric::DropControlTruncated),
        (again(&version), Metric::DropControlVersion),
        (again(&tag), Metric::DropControlBadTag),
    ];
    for (frame, metric) in cases {
        // Another key is answered, as below.
        assert_eq!(bench.wan(frame).len(), usize::from(metric == Metric::DropControlBadTag));
        assert_eq!(bench.count(metric), 1, "{metric:?}");
    }
    assert_eq!(bench.wan(good).len(), 1);
}

#[test]
fn another_key_is_not_ours() {
    let mut bench = Bench::with(Config {
        keys: Keys::from_secret(b"a secret of this box"),
        ..Config::lab(Recovery::Auto, NODE, BOOT)
    });
    assert!(bench.sync(9, 1, open(5)).iter().all(|sent| sent.side == Wan));
    assert_eq!(bench.count(Metric::DropControlBadTag), 1);
}

// R-CTL-6
#[test]
fn a_sync_with_another_key_is_answered_so_that_its_box_learns_of_it() {
    let ours = Keys::from_secret(b"a secret of this box");
    let mut bench =
        Bench::with(Config { keys: ours.clone(), ..Config::lab(Recovery::Auto, NODE, BOOT) });
    let sent = bench.sync(9, 1, open(5));
    assert_eq!(sent.len(), 1);
    assert!(bench.sync(9, 1, open(5)).is_empty(), "not each");
    assert_eq!(bench.switch.peers().count(), 0);
    assert_eq!(bench.switch.last_refusal().map(|refusal| refusal.reason), Some(Reject::BadTag));

    // The box that sent it, with its own key, refuses the answer, and answers nothing.
    let mut other = Bench::new(Recovery::Auto);
    assert!(other.wan(sent[0].bytes.clone()).is_empty());
    assert_eq!(other.count(Metric::DropControlBadTag), 1);
}

#[test]
fn a_box_that_is_heard_is_known_with_its_state() {
    let mut bench = Bench::new(Recovery::Auto);
    let header = Header { seen_boot: BootId::NONE, ..bench.header(9, 1) };
    bench.wan(message(&inbound(), 9, &header, &Message::Sync(open(5))));
    let peers: Vec<_> = bench.switch.peers().collect();
    assert_eq!((peers.len(), peers[0].node, peers[0].boot), (1, header.node, header.boot));
    assert_eq!((peers[0].named_us, peers[0].reported), (None, None));
    assert_eq!(peers[0].heard, bench.now);
    bench.sync(9, 1, open(5));
    assert_eq!(bench.switch.peers().next().expect("it").named_us, Some(bench.now));
}

// R-CTL-3
#[test]
fn a_replayed_message_is_dropped() {
    let mut bench = Bench::new(Recovery::Auto);
    let header = bench.header(9, 1);
    let sync = message(&inbound(), 9, &header, &Message::Sync(open(5)));
    assert_eq!(bench.wan(sync.clone()).len(), 1);
    assert!(bench.wan(sync).is_empty());
    let older = Header { boot: BootId(header.boot.0 - 1), seq: 99, ..header };
    assert!(bench.wan(message(&inbound(), 9, &older, &Message::Sync(open(5)))).is_empty());
    assert_eq!(bench.count(Metric::DropControlReplayed), 2);
}

// R-CTL-2
#[test]
fn our_own_message_that_came_back_is_dropped() {
    let mut bench = Bench::new(Recovery::Auto);
    let sent = bench.lan(request(&outbound(), 1, 5));
    let own = sent.into_iter().find(|s| s.sync().is_some()).expect("SYNC(open)");
    assert!(bench.wan(own.bytes).is_empty());
    assert_eq!(bench.count(Metric::DropControlInvalid), 1);
}

// R-CTL-4
#[test]
fn a_status_must_speak_of_a_known_flow_of_this_incarnation_of_the_box() {
    let mut bench = Bench::new(Recovery::Cached);
    let sent = bench.lan(request(&outbound(), 0x22, 0));
    let epoch = sent.iter().find_map(Sent::sync).expect("SYNC(open)").0.epoch;
    let lost = report(0, 1, &[(0, 1)]);
    let mut rejected = 0;
    let mut refuse = |bench: &mut Bench, header: Header| {
        let frame = message(&inbound(), 0x22, &header, &Message::Status(lost.clone()));
        assert!(bench.wan(frame).is_empty(), "{header:?}");
        rejected += 1;
        assert_eq!(bench.count(Metric::DropControlUnknownFlow), rejected, "{header:?}");
    };
    let header = bench.header(0x23, epoch);
    refuse(&mut bench, header);
    let header = bench.header(0x22, epoch.next());
    refuse(&mut bench, header);
    let header = Header { seen_boot: BootId(BOOT.0 - 1), ..bench.header(0x22, epoch) };
    refuse(&mut bench, header);
    let header = Header { seen_boot: BootId::NONE, ..bench.header(0x22, epoch) };
    refuse(&mut bench, header);
    assert_eq!(psns(&bench.status(0x22, epoch, lost), Wan), [0], "this one is believed");
}

#[test]
fn a_status_with_an_impossible_claim_is_dropped_as_invalid() {
    let mut bench = Bench::new(Recovery::Cached);
    let epoch = bench.protect(0x22, 0..10);
    assert!(bench.status(0x22, epoch, report(11, 11, &[])).is_empty());
    assert_eq!(bench.count(Metric::DropControlInvalid), 1);
}

#[test]
fn a_sync_resent_begins_no_flow() {
    let mut bench = Bench::new(Recovery::Auto);
    let resent = SyncMessage { reason: Reason::Resent, next_psn: None, ..open(0) };
    assert!(bench.sync(9, 1, resent).is_empty());
    assert_eq!(bench.count(Metric::DropControlUnknownFlow), 1);
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 0);
}

#[test]
fn messages_travel_with_the_headers_of_their_flow() {
    let mut bench = Bench::new(Recovery::Auto);
    let sent = bench.lan(request(&outbound(), 0x22, 0));
    let sync = sent.iter().find(|s| s.sync().is_some()).expect("SYNC(open)");
    assert_eq!((sync.side, sync.class), (Wan, common::frame::Class::Data));
    let (roce, data) = (sync.roce(), sent[1].roce());
    assert_eq!(
        (roce.src, roce.dst, roce.src_port, roce.dest_qpn),
        (data.src, data.dst, data.src_port, data.dest_qpn)
    );
    let sent = bench.sync(0x33, 1, open(0));
    let status = &sent[0];
    assert_eq!((status.side, status.class), (Wan, common::frame::Class::High));
    let roce = status.roce();
    assert_eq!((roce.src, roce.dst, roce.src_port), (data.src, data.dst, data.src_port));
    let (header, _) = status.status().expect("a STATUS");
    assert_eq!((header.dest_qpn.get(), header.seen_boot), (0x33, PEER_BOOT));
}

#[test]
fn a_box_that_drains_lets_go_and_takes_nothing_up() {
    let mut bench = Bench::new(Recovery::Cached);
    bench.protect(0x22, 0..4);
    bench.sync(0x33, 1, open(0));
    bench.wan(request(&inbound(), 0x33, 0));
    bench.wan(ack(&outbound(), 0x44, 0));
    bench.wan(request(&inbound(), 0x33, 3));
    bench.wan(request(&inbound(), 0x33, 2));
    assert!(bench.switch.held() > 0);
    let sent = bench.drain();
    assert_eq!(psns(&sent, Lan), [2, 3], "in order, past the gap");
    let released = sent.iter().filter_map(Sent::sync).map(|(_, sync)| sync.reason);
    assert_eq!(released.collect::<Vec<_>>(), [Reason::Release]);
    assert_eq!(bench.switch.held(), 0);
    bench.assert_passes(Lan, &request(&outbound(), 0x22, 4));
    bench.assert_passes(Wan, &request(&inbound(), 0x33, 7));
    // A STATUS now would claim that packets are missing which pass, and
    // the peer would resend all of them, again and again.
    assert!(bench.sync(0x33, 1, open(8)).is_empty());
    // Nobody answers that the flow was released.
    for _ in 0..3 {
        bench.wait(Span::from_millis(1_000));
        let sent = bench.timers();
        assert_eq!(sent.iter().filter_map(Sent::sync).count(), sent.len());
    }
    bench.wait(Span::from_millis(1_000));
    assert!(bench.timers().is_empty());
    assert_eq!(bench.switch.next_deadline(), Time::NEVER);
}

#[test]
fn an_aged_flow_gives_back_what_it_holds() {
    let mut bench = Bench::new(Recovery::Cached);
    bench.protect(0x22, 0..4);
    bench.wait(Span::from_millis(59_999));
    bench.housekeeping();
    assert_eq!(bench.switch.held(), 4);
    bench.wait(Span::from_millis(1));
    bench.housekeeping(); // ends the round over the table
    bench.housekeeping(); // begins the next one
    assert_eq!((bench.switch.held(), bench.count(Metric::FlowAged)), (0, 1));
    assert_eq!(bench.count(Metric::FlowsAll), 0);
    // Its timers find nobody, and a successor at the same index is not them.
    bench.lan(request(&outbound(), 0x99, 0));
    bench.timers();
    assert_eq!(bench.count(Metric::FlowCreated), 2);
}

#[test]
fn the_gauges_tell_what_there_is() {
    let mut bench = Bench::new(Recovery::Cached);
    bench.protect(0x22, 0..4);
    bench.sync(0x33, 1, open(0));
    for _ in 0..2 {
        bench.housekeeping();
    }
    let gauges = [Metric::FlowsAll, Metric::FlowsProtected, Metric::FlowsSynced, Metric::HeldCache];
    assert_eq!(gauges.map(|m| bench.count(m)), [2, 1, 1, 4]);
    assert_eq!(bench.count(Metric::HeldCacheBytes), 4 * 314);
}

/// Memory that grows with the packets in flight is freed when none come any more,
/// not before: a burst may follow.
#[test]
fn an_idle_flow_gives_back_the_memory_of_a_burst() {
    let mut bench = Bench::new(Recovery::Lr2);
    let epoch = bench.protect(0x22, 0..50);
    bench.status(0x22, epoch, report(50, 50, &[]));
    let sweep = |bench: &mut Bench| {
        (0..2).for_each(|_| bench.housekeeping());
        bench.count(Metric::FlowStateBytes)
    };
    let busy = sweep(&mut bench);
    bench.wait(Span::from_millis(999));
    bench.timers();
    assert!(busy > 0 && sweep(&mut bench) > 0);
    bench.wait(Span::from_millis(1));
    sweep(&mut bench);
    // But for a few.
    assert!(sweep(&mut bench) <= busy / 8);
}

#[test]
fn nothing_is_due_for_idle_flows() {
    let mut bench = Bench::new(Recovery::Lr2);
    let mut epochs = Vec::new();
    for qpn in 0..50 {
        let sent = bench.lan(request(&outbound(), qpn, 0));
        epochs.push(sent.iter().find_map(Sent::sync).expect("SYNC(open)").0.epoch);
    }
    for (qpn, epoch) in epochs.into_iter().enumerate() {
        bench.status(qpn as u32, epoch, report(1, 1, &[]));
    }
    // Timers that were set before may still fire, once.
    let mut fired = 0;
    while bench.switch.next_deadline() != Time::NEVER {
        bench.now = bench.now.max(bench.switch.next_deadline());
        for sent in bench.timers() {
            let (header, sync) = sent.sync().expect("a SYNC");
            assert_eq!(sync.reason, Reason::Tail, "an ACK may have been lost");
            bench.status(header.dest_qpn.get(), header.epoch, report(1, 1, &[]));
        }
        fired += 1;
        assert!(fired <= 50 * 20);
    }
}

#[test]
fn timers_run_within_their_budget() {
    let mut bench = Bench::new(Recovery::Lr2);
    for qpn in 0..100 {
        bench.lan(request(&outbound(), qpn, 0));
    }
    bench.wait(RTT);
    assert_eq!(bench.timers().len(), 64);
    assert!(bench.switch.next_deadline() <= bench.now, "the rest is still due");
    assert_eq!(bench.timers().len(), 36);
    assert!(bench.switch.next_deadline() > bench.now);
}

#[test]
fn a_restarted_peer_is_heard() {
    let mut bench = Bench::new(Recovery::Cached);
    let epoch = bench.protect(0x22, 0..4);
    let header = Header { boot: PEER_BOOT.next(), seq: 1, ..bench.header(0x22, epoch) };
    let status: Status = report(0, 4, &[(1, 2)]);
    let sent = bench.wan(message(&inbound(), 0x22, &header, &Message::Status(status)));
    assert_eq!(psns(&sent, Wan), [1]);
}

/// New data brings a far deadline near.
#[test]
fn a_deadline_that_moves_forward_is_kept() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.protect(0x22, 0..4);
    while bench.switch.next_deadline() <= bench.now + RTT {
        bench.now = bench.now.max(bench.switch.next_deadline());
        bench.timers();
    }
    bench.lan(request(&outbound(), 0x22, 4));
    assert!(bench.switch.next_deadline() < bench.now + RTT / 4, "the tail of what came");
}

/// The same at the Depot: the first packet that asks for a response is resent in time.
#[test]
fn an_answer_that_is_awaited_is_due_before_the_flow_is_forgotten() {
    const T_OUT: Span = Span::from_millis(1);
    let mut config = Config::lab(Recovery::Auto, NODE, BOOT);
    config.tuning.t_out = Some(T_OUT);
    let mut bench = Bench::with(config);
    bench.sync(0x22, 1, SyncMessage { src_qpn: Some(Qpn::new(0x33)), ..open(0) });
    bench.wan(request(&inbound(), 0x22, 0));
    assert!(bench.switch.next_deadline() > bench.now + T_OUT, "nothing is awaited yet");
    let mut asking = request(&inbound(), 0x22, 1);
    let roce = parse(&asking).expect("RoCEv2");
    assert!(request_ack(&mut asking, &roce));
    bench.wan(asking);
    assert_eq!(bench.switch.next_deadline(), bench.now + T_OUT);
    bench.wait(T_OUT);
    assert_eq!(psns(&bench.timers(), Lan), [0, 1]);
}

#[test]
fn nothing_is_done_before_it_is_due() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.lan(request(&outbound(), 0x22, 0));
    let due = bench.switch.next_deadline();
    bench.now = due - Span::from_nanos(1);
    assert!(bench.timers().is_empty());
    assert_eq!(bench.switch.next_deadline(), due);
    bench.now = due;
    assert_eq!(bench.timers().len(), 1);
}

/// A path changes: another router, another entropy.
#[test]
fn the_headers_of_messages_are_renewed() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.protect(0x22, 0..4);
    let port = |bench: &mut Bench, psn| {
        bench.lan(request(&with_port(&outbound(), PORT + 1), 0x22, psn));
        bench.wait(RTT / 4);
        let sent = bench.timers();
        sent.iter().find(|s| s.sync().is_some()).expect("SYNC(tail)").roce().src_port
    };
    assert_eq!(port(&mut bench, 4), PORT);
    bench.wait(Span::from_millis(100));
    assert_eq!(port(&mut bench, 5), PORT + 1);
}
