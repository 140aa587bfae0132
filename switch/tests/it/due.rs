//! Deadlines that appear between a timer's being set and its firing.

use std::collections::{BTreeSet, VecDeque};

use crate::support::*;
use common::control::{Reason, Status, SyncMessage};
use common::frame::Side;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Bth, Opcode, Qpn};
use proptest::prelude::*;
use switch::Recovery;

/// All was acknowledged, so nothing is due, but the old timer is still set: the tail of
/// the next packets is announced all the same.
#[test]
fn a_tail_after_all_was_acknowledged_is_announced() {
    for recovery in [Recovery::Lr2, Recovery::Cached] {
        let mut bench = Bench::new(recovery);
        let epoch = bench.protect(0x22, 0..4);
        let src_qpn = Some(Qpn::new(0x11));
        bench.status(0x22, epoch, Status { src_qpn, ..report(4, 4, &[]) });
        bench.wait(Span::from_micros(50));
        bench.sends(0x22, 4..8);
        bench.wait(Span::from_micros(50));
        bench.wan(ack(&inbound(), 0x11, 7));
        let pending = bench.switch.next_deadline();
        assert!(pending > bench.now && pending != Time::NEVER, "a timer is still set");
        bench.wait(Span::from_micros(50));
        assert!(bench.now < pending);
        // It is lost on the long-haul link, and nothing follows it.
        bench.lan(request(&outbound(), 0x22, 8));
        assert_eq!(bench.count(Metric::SentryNew), 9);
        let mut tails = 0;
        for _ in 0..100 {
            let next = bench.switch.next_deadline();
            if next == Time::NEVER || tails > 0 {
                break;
            }
            bench.now = bench.now.max(next);
            let sent = bench.timers();
            tails +=
                sent.iter().filter_map(Sent::sync).filter(|s| s.1.reason == Reason::Tail).count();
        }
        assert!(
            tails > 0,
            "{recovery:?}: nobody will announce the tail; next {:?}",
            bench.switch.next_deadline()
        );
    }
}

/// A box that stood still for long, as a virtual machine may, goes on where it was.
#[test]
fn what_was_due_hours_ago_is_done() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.lan(request(&outbound(), 0x22, 0));
    assert!(bench.switch.next_deadline() < bench.now + RTT * 2);
    bench.wait(Span::from_millis(10 * 3_600_000));
    assert_eq!(bench.timers().len(), 1, "next {:?}", bench.switch.next_deadline().since(bench.now));
}

/// What happens to a flow that holds packets.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next packet arrives.
    Data,
    /// The next packet is lost.
    Loss,
    /// The oldest packet that was lost arrives.
    Repair,
    /// The packet that was repaired last arrives once more.
    Repeat,
    /// The host acknowledges all that has left.
    Ack,
    /// The host asks for the packet behind the newest that has left.
    Nak,
    /// The host asks for the newest packet that has left.
    NakOfNewest,
}

/// All that leaves, and when. Packet 1 is lost, 2 to 101 arrive 100 µs apart, then 1 arrives. Each step comes so many
/// microseconds after the one before. The host acknowledges packet 0 at once, if `is_acked`.
fn leave(steps: &[(u64, Step)], is_acked: bool, has_fast_paths: bool) -> Vec<(Time, Sent)> {
    let mut bench = Bench::new(Recovery::Cached);
    if !has_fast_paths {
        bench.switch.avoid_fast_paths();
    }
    let sync = SyncMessage { src_qpn: Some(Qpn::new(0x22)), rtt: RTT, ..open(0) };
    bench.sync(0x11, 1, sync);
    bench.arrive(0x11, [0]);
    if is_acked {
        bench.lan(ack(&outbound(), 0x22, 0));
    }
    let mut left: Vec<(Time, Sent)> = Vec::new();
    let until = |bench: &mut Bench, left: &mut Vec<_>, to: Time| {
        while bench.switch.next_deadline() <= to {
            bench.now = bench.now.max(bench.switch.next_deadline());
            let now = bench.now;
            left.extend(bench.timers().into_iter().map(|sent| (now, sent)));
        }
        bench.now = to;
    };
    let (mut next, mut lost, mut repaired, mut newest) = (1, VecDeque::new(), 1, 0);
    let before = [Step::Loss].into_iter().chain([Step::Data; 100]).chain([Step::Repair]);
    for (after, step) in before.map(|step| (100, step)).chain(steps.iter().copied()) {
        let to = bench.now + Span::from_micros(after);
        until(&mut bench, &mut left, to);
        // Some ask for an ACK, and are sent again if none comes.
        let data = |psn: u32| {
            let bth = Bth::new(Opcode::SEND_MIDDLE, Qpn::new(0x11), Psn::new(psn));
            let bth = Bth { ack_req: psn.is_multiple_of(16), ..bth };
            with_bth(&inbound(), &bth, &[psn as u8; 256])
        };
        newest = psns_of(&left).max().unwrap_or(newest);
        let sent = match step {
            Step::Data => {
                next += 1;
                bench.wan(data(next - 1))
            }
            Step::Loss => {
                lost.push_back(next);
                next += 1;
                Vec::new()
            }
            Step::Repair => match lost.pop_front() {
                Some(psn) => {
                    repaired = psn;
                    bench.wan(data(psn))
                }
                None => Vec::new(),
            },
            Step::Repeat => bench.wan(data(repaired)),
            Step::Ack => bench.lan(ack(&outbound(), 0x22, newest)),
            Step::Nak => bench.lan(nak(&outbound(), 0x22, newest + 1)),
            Step::NakOfNewest => bench.lan(nak(&outbound(), 0x22, newest)),
        };
        left.extend(sent.into_iter().map(|sent| (to, sent)));
    }
    let to = bench.now + RTT * 8;
    until(&mut bench, &mut left, to);
    left
}

/// The PSNs of packets that have left towards the host.
fn psns_of(left: &[(Time, Sent)]) -> impl Iterator<Item = u32> {
    let data = left.iter().filter(|(_, sent)| sent.side == Side::Lan && sent.control().is_none());
    data.map(|(_, sent)| sent.roce().psn.get())
}

fn trains() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let apart = || prop::sample::select(vec![1_u64, 20, 100, 700]);
    let packets = (apart(), 1..25_usize).prop_map(|(apart, n)| vec![(apart, Step::Data); n]);
    let event = (
        apart(),
        prop_oneof![
            4 => Just(Step::Loss),
            4 => Just(Step::Repair),
            2 => Just(Step::Repeat),
            4 => Just(Step::Ack),
            1 => Just(Step::Nak),
            1 => Just(Step::NakOfNewest),
        ],
    );
    let event = event.prop_map(|event| vec![event]);
    prop::collection::vec(prop_oneof![packets, event], 1..60).prop_map(|trains| trains.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn held_packets_leave_at_the_same_time_with_fast_paths_and_without(steps in trains(), is_acked: bool) {
        let fast = leave(&steps, is_acked, true);
        let all: BTreeSet<u32> = psns_of(&fast).collect();
        // A NAK for what was acknowledged begins another incarnation, which gets none of the held packets.
        let is_reborn = steps.iter().any(|(_, step)| matches!(step, Step::Nak | Step::NakOfNewest));
        prop_assert!(is_reborn || (1..102).all(|psn| all.contains(&psn)));
        prop_assert_eq!(fast, leave(&steps, is_acked, false));
    }
}
