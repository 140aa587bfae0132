//! Packets that a third party injects.

use common::control::{Reason, SyncMessage};
use common::metrics::Metric;
use common::psn::reach;
use common::time::Span;
use common::wire::{icrc, parse};
use depot::Flow;
use testkit::depot::*;

/// A synced flow whose Sentry has measured the round trip, with a large window.
fn bench() -> Bench {
    let mut bench = Bench::synced();
    bench.config.window_max = 1 << 19;
    announce(&mut bench, 1);
    bench.clear();
    bench
}

/// A SYNC(keepalive) with `next` as its next PSN.
fn announce(bench: &mut Bench, next: i32) {
    let keepalive = sync(Reason::Keepalive, psn(next), bench.now);
    let sync = SyncMessage { rtt: RTT, ..keepalive };
    bench.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
}

/// Another packet than the source's.
fn forged(n: i32) -> Vec<u8> {
    let mut frame = damaged(write(n));
    let roce = parse(&frame).expect("a RoCEv2 frame");
    let crc = icrc(&frame, &roce).to_le_bytes();
    frame[roce.icrc_at()..][..4].copy_from_slice(&crc);
    frame
}

// R-ORDER-8
#[test]
fn who_leaps_ahead_of_the_source_is_dropped_once_the_source_comes() {
    let mut bench = bench();
    bench.data(1..50);
    bench.frame(forged(1550));
    bench.frame(forged(1551));
    assert_eq!(bench.pool.frames(), 2);
    bench.clear();
    bench.data(50..2000);
    assert_eq!(bench.delivered(), (50..2000).collect::<Vec<_>>());
    let dropped = |n| (n, Metric::DropAheadOfSource);
    assert_eq!(bench.out.discarded, [dropped(1551), dropped(1550)]);
    assert_eq!(bench.pool.frames(), 0);
}

// R-ORDER-8
#[test]
fn what_is_announced_or_old_enough_to_be_repaired_stays() {
    // Lost in a row, and announced before a repair comes sooner than it could.
    let mut lost = bench();
    lost.data(100..110);
    announce(&mut lost, 110);
    lost.data(1..100);
    lost.run_timers(lost.now + RTT);
    assert_eq!(lost.delivered(), (1..110).collect::<Vec<_>>());
    // Repaired after a round trip, unannounced.
    let mut repaired = bench();
    repaired.data(100..110);
    repaired.wait(RTT);
    repaired.data(1..100);
    repaired.run_timers(repaired.now + RTT * 2);
    assert_eq!(repaired.delivered(), (1..110).collect::<Vec<_>>());
    // Overtaken on the way.
    let mut overtaken = bench();
    overtaken.data(17..20);
    overtaken.data(1..17);
    overtaken.run_timers(overtaken.now + RTT);
    assert_eq!(overtaken.delivered(), (1..20).collect::<Vec<_>>());
    for bench in [lost, repaired, overtaken] {
        assert_eq!(bench.count(Metric::DropAheadOfSource), 0);
    }
}

/// Two packets claim a PSN: both are dropped, and it is missing.
// R-ORDER-7
#[test]
fn of_two_packets_for_one_psn_neither_is_preferred() {
    for first_is_forged in [true, false] {
        let mut bench = bench();
        bench.data([1, 3]);
        let mut two = [forged(5), write(5)];
        if !first_is_forged {
            two.reverse();
        }
        for frame in two {
            bench.frame(frame);
        }
        let dropped = (5, Metric::DropConflict);
        assert_eq!(bench.out.discarded, [dropped; 2]);
        assert_eq!(bench.nacks().last().unwrap(), &[(2, 3), (4, 6)]);
        bench.data([6]);
        bench.wait(RTT);
        bench.data([4, 5, 2]);
        bench.run_timers(bench.now + RTT * 2);
        assert_eq!(bench.delivered(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(bench.pool.frames(), 0);
    }
}

// R-ORDER-7
#[test]
fn what_asks_for_an_ack_or_not_is_the_same_packet() {
    let mut bench = bench();
    bench.data([1]);
    let mut asks = write(3);
    let roce = parse(&asks).expect("a RoCEv2 frame");
    assert!(common::wire::request_ack(&mut asks, &roce));
    bench.frame(write(3));
    bench.frame(asks);
    assert_eq!(bench.out.discarded, [(3, Metric::DropReorderDuplicate)]);
}

// R-ORDER-10
#[test]
fn what_the_sentry_has_not_sent_is_dropped() {
    let mut bench = bench();
    bench.data(1..10);
    bench.frame(forged(500));
    bench.wait(RTT);
    announce(&mut bench, 12);
    assert_eq!(bench.out.discarded, [(500, Metric::DropAheadOfSource)]);
    let status = bench.statuses().pop().expect("a SYNC is answered");
    assert_eq!((status.to, missing(&status)), (psn(12), vec![(10, 12)]));
    bench.data(10..20);
    assert_eq!(bench.delivered(), (1..20).collect::<Vec<_>>());
    // A packet sent after a SYNC may overtake it.
    bench.frame(write(25));
    announce(&mut bench, 22);
    assert_eq!(bench.pool.frames(), 1);
}

// R-ORDER-9
#[test]
fn a_leap_that_no_silence_explains_passes() {
    let mut bench = bench();
    bench.data(1..10);
    bench.clear();
    let far = 10 + reach(Span::ZERO) as i32;
    bench.data([far + 1]);
    assert_eq!((bench.delivered(), bench.pool.frames()), (vec![far + 1], 0));
    assert_eq!((bench.count(Metric::DepotLeap), bench.statuses().len()), (1, 0));
    bench.data([far]);
    assert_eq!(bench.pool.frames(), 1);
    // An outage of 40 ms.
    let mut outage = self::bench();
    outage.data(1..10);
    outage.clear();
    outage.wait(Span::from_millis(40));
    outage.data([1 << 19]);
    assert_eq!(outage.pool.frames(), 1);
    assert_eq!(outage.nacks(), [[(10, 1 << 19)]]);
}

/// Two packets, and a SYNC that announces a tail.
#[test]
fn a_gap_takes_no_memory_however_long_it_is() {
    let mut bench = bench();
    bench.wait(Span::from_millis(100));
    bench.data([1 << 18]);
    announce(&mut bench, 1 << 19);
    assert_eq!(bench.nacks().last().unwrap(), &[(1, 1 << 18), ((1 << 18) + 1, 1 << 19)]);
    let bytes = bench.flow.heap_bytes();
    assert!(bytes <= 1024 + 8 * Flow::<common::heap::HeapFrame>::SLOT, "{bytes} bytes");
    // A READ that takes many PSNs.
    bench.wait(RTT * 2);
    bench.frame(read(1, 60_000));
    bench.frame(read(70_000, 60_000));
    let bytes = bench.flow.heap_bytes();
    assert!(bytes <= 2048 + 16 * Flow::<common::heap::HeapFrame>::SLOT, "{bytes} bytes");
    bench.run_timers(bench.now + GIVE_UP * 6);
    assert_eq!(bench.pool.frames(), 0);
}

/// The longest READ leaps over more PSNs than a silence explains.
#[test]
fn what_follows_a_read_that_was_lost_is_held() {
    let mut bench = bench();
    bench.data([1]);
    bench.data([2 + (1 << 16)]);
    assert_eq!((bench.pool.frames(), bench.count(Metric::DepotLeap)), (1, 0));
    bench.wait(RTT);
    bench.frame(read(2, 1 << 16));
    bench.run_timers(bench.now + RTT * 2);
    assert_eq!(bench.delivered(), [1, 2, 2 + (1 << 16)]);
}
