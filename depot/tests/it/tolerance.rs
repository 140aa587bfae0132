//! Gaps that are lost, and packets that are only late.

use common::control::{Reason, SyncMessage};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::verdict::{Mode, Tolerance};
use proptest::prelude::*;
use testkit::depot::*;

fn us(us: u64) -> Span {
    Span::from_micros(us)
}

/// A flow whose Sentry has measured the round trip.
fn bench(mode: Mode) -> Bench {
    let mut bench = Bench::synced();
    bench.config.tolerance = Tolerance { mode, ..Tolerance::default() };
    let sync = SyncMessage { rtt: RTT, ..sync(Reason::Keepalive, psn(1), bench.now) };
    bench.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
    bench.clear();
    bench
}

/// A flow whose path was seen to reorder by two packets and 100 us, with a resend that was in vain.
fn reordering() -> Bench {
    let mut bench = bench(Mode::Auto);
    bench.data([1, 3, 4]);
    assert_eq!(bench.nacks(), [[(2, 3)]], "nothing is known of the path");
    bench.wait(us(100));
    bench.data([2]);
    bench.run_timers(bench.now + RTT);
    assert_eq!(bench.count(Metric::DepotMisjudged), 0, "the source's LAN may have lost it");
    bench.data([2]);
    assert_eq!(bench.count(Metric::DepotMisjudged), 1, "it was resent in vain");
    let _ = bench.ack(4);
    // Packets are held for a while after a repeat.
    bench.wait(RTT);
    bench.clear();
    bench
}

/// 1000 to 1015 are sent; 1003 is lost, reported alone, and completes the window.
#[test]
fn the_worked_example_1000_to_1015_with_1003_lost() {
    let mut bench = Bench::default();
    bench.sync(LIFE, Reason::Open, 1000);
    bench.data([1000]);
    let _ = bench.ack(1000);
    bench.clear();
    bench.data([1001, 1002, 1004]);
    let status = &bench.statuses()[0];
    assert_eq!(missing(status), [(1003, 1004)], "at once");
    assert_eq!((status.expected, status.to), (psn(1003), psn(1005)));
    bench.data(1005..=1015);
    assert!(bench.nacks().is_empty(), "once");
    assert_eq!(bench.delivered(), [1001, 1002]);
    bench.wait(RTT);
    bench.data([1003]);
    bench.run_timers(bench.now + RTT * 20);
    assert_eq!(bench.delivered(), (1003..=1015).collect::<Vec<_>>());
    bench.sync(LIFE, Reason::Tail, 1016);
    let status = &bench.statuses().pop().expect("an answer");
    assert_eq!((status.expected, missing(status).len()), (psn(1016), 0));
    assert_eq!(bench.count(Metric::GapsFilled), 1);
    // The same with limits: 3 later packets in 20 us wait, 9 do not, nor does 50 us.
    let mut bench = self::bench(Mode::Fixed);
    bench.data([1, 2, 4, 5, 6]);
    bench.wait(us(20));
    assert!(bench.nacks().is_empty());
    bench.data(7..=11);
    assert!(bench.nacks().is_empty(), "eight");
    bench.data([12]);
    assert_eq!(bench.nacks(), [[(3, 4)]], "nine");
    bench.data([3, 13, 15]);
    bench.run_timers(bench.now + us(49));
    assert!(bench.nacks().is_empty());
    bench.run_timers(bench.now + us(1));
    assert_eq!(bench.nacks(), [[(14, 15)]]);
}

/// R-TOL-2: it is waited for as long as packets were late, and a quarter; nothing of it is in a STATUS before.
#[test]
fn a_path_that_reorders_is_waited_for_as_long_as_it_was_late() {
    let mut bench = reordering();
    bench.data([5, 7]);
    assert!(bench.statuses().is_empty());
    bench.sync(LIFE, Reason::Keepalive, 8);
    let status = &bench.statuses()[0];
    assert_eq!((status.expected, status.to, missing(status).len()), (psn(6), psn(6), 0));
    bench.run_timers(bench.now + us(124));
    assert!(bench.statuses().is_empty());
    bench.run_timers(bench.now + us(1));
    assert_eq!(bench.nacks(), [[(6, 7)]]);
    // It is repeated as ever.
    bench.run_timers(bench.now + RTT * 2);
    assert_eq!(bench.nacks(), [[(6, 7)]]);
}

/// R-TOL-2: what comes in time is no loss, and starts no lag.
#[test]
fn what_is_late_is_delivered_at_once() {
    let mut bench = reordering();
    bench.data([5, 7, 8]);
    bench.wait(us(90));
    bench.clear();
    bench.data([6]);
    assert_eq!(bench.delivered(), [6, 7, 8], "nothing is held for its pace");
    assert_eq!((bench.count(Metric::DepotAwaited), bench.count(Metric::DepotMisjudged)), (1, 1));
    bench.run_timers(bench.now + RTT);
    assert!(bench.nacks().is_empty());
}

/// R-TOL-1: by depth, if that is reached first; and the gap that is not decided ends what a STATUS lists.
#[test]
fn a_gap_that_many_packets_have_overtaken_is_lost() {
    let mut bench = reordering();
    bench.data([5]);
    bench.data((7..=17).filter(|n| *n != 16));
    let status = &bench.statuses()[0];
    assert_eq!((missing(status), status.to), (vec![(6, 7)], psn(16)));
}

/// R-TOL-3, R-TOL-4: a gap that the source's LAN made, and the source fills, shows nothing of the long haul; nor
/// does a repair.
#[test]
fn repairs_teach_nothing() {
    let mut bench = bench(Mode::Auto);
    for n in 0..40 {
        let next = 1 + 4 * n;
        bench.data([next, next + 2]);
        assert_eq!(bench.nacks(), [[(next + 1, next + 2)]], "at once");
        // By the source, and again: a copy that the network made.
        bench.wait(us(30));
        bench.data([next + 1, next + 1]);
        bench.data([next + 3]);
        bench.run_timers(bench.now + us(3_000));
        bench.clear();
    }
    for n in 40..60 {
        let next = 1 + 4 * n;
        bench.data([next, next + 2]);
        assert_eq!(bench.nacks(), [[(next + 1, next + 2)]], "at once");
        bench.run_timers(bench.now + RTT);
        bench.data([next + 1, next + 3]);
        bench.run_timers(bench.now + RTT * 3);
        bench.data([next + 1]);
        bench.clear();
    }
    assert_eq!((bench.count(Metric::DepotMisjudged), bench.count(Metric::DepotAwaited)), (0, 0));
}

/// R-TOL-5: after seconds it is forgotten, and takes no memory in an idle flow.
#[test]
fn a_path_that_keeps_order_again_is_not_waited_for() {
    let memory = [Mode::Auto, Mode::Off].map(|mode| {
        let mut bench = reordering();
        bench.config.tolerance.mode = mode;
        for n in 0..40 {
            bench.wait(Span::from_millis(90));
            bench.data([5 + n]);
            bench.sync(LIFE, Reason::Keepalive, 6 + n);
        }
        bench.clear();
        bench.data([46]);
        assert_eq!(bench.nacks(), [[(45, 46)]], "at once");
        bench.wait(RTT);
        bench.data([45]);
        let _ = bench.ack(46);
        bench.run_timers(bench.now + RTT);
        let before = bench.flow.heap_bytes();
        bench.flow.shrink();
        before - bench.flow.heap_bytes()
    });
    assert_eq!(memory[0], memory[1]);
    assert!(memory[0] > 500, "{memory:?}");
}

/// A path that reorders by up to 200 us, of which one packet in a hundred is lost: needless reports, the losses, and the mean time
/// that packets take.
fn run(mode: Mode, loss: u64, seed: u64) -> (u64, u64, Span) {
    const PACKETS: i32 = 20_000;
    let mut dice = seed | 1;
    let mut roll = move |n: u64| {
        dice ^= dice >> 12;
        dice ^= dice << 25;
        dice ^= dice >> 27;
        (dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    };
    let mut bench = bench(mode);
    bench.config.pacing = false;
    bench.config.window_max = 1 << 19;
    let start = bench.now;
    let sent_at = |n: i32| start + us(20) * (n as u64);
    let mut way: std::collections::BTreeSet<(Time, i32, bool)> = std::collections::BTreeSet::new();
    let mut losses = 0;
    for n in 1..=PACKETS {
        if loss > 0 && n < PACKETS - 1_000 && roll(loss) == 0 {
            losses += 1;
        } else {
            way.insert((sent_at(n) + RTT / 2 + us(roll(201)), n, false));
        }
    }
    let (mut resent, mut resends, mut delays, mut seen) =
        (std::collections::BTreeSet::new(), 0, 0, 0);
    let mut echo = start;
    while let Some(event) = way.pop_first() {
        let (at, n, _) = event;
        bench.run_timers(at);
        bench.data([n]);
        // The Sentry speaks, now and then.
        if bench.now.since(echo) > RTT / 2 {
            echo = bench.now;
            let next = n.min(PACKETS);
            bench.sync(LIFE, Reason::Resent, next);
        }
        for (_, status) in bench.out.statuses.split_off(0) {
            for n in missing(&status).into_iter().flat_map(|(from, to)| from..to) {
                if resent.insert(n) {
                    resends += 1;
                    way.insert((bench.now + RTT + us(roll(201)), n, true));
                }
            }
        }
        for n in bench.delivered() {
            if seen < n {
                seen = n;
                delays += bench.now.since(sent_at(n)).as_nanos();
                if n % 64 == 0 {
                    let _ = bench.ack(n);
                }
            }
        }
    }
    bench.run_timers(bench.now + RTT * 4);
    let last = bench.delivered().into_iter().max().unwrap_or(seen).max(seen);
    assert_eq!(last, PACKETS, "all is delivered");
    (resends, losses, Span::from_nanos(delays / PACKETS as u64))
}

/// R-TOL-2: needless resends fall to a few, and packets take no longer, but for the wait.
#[test]
fn needless_resends_fall_where_a_path_reorders() {
    for (loss, wait) in [(0, 0), (200, 250)] {
        let (off, losses, slow) = run(Mode::Off, loss, 7);
        let (auto, _, took) = run(Mode::Auto, loss, 7);
        println!(
            "{losses} of 20000 lost: {off} resends and {slow:?} without tolerance, {auto} and {took:?} with it"
        );
        assert!(off > 10_000, "{off}");
        assert!(auto < off / 8 + losses, "{auto} {off}");
        assert!(took <= slow + us(wait + 20), "{took:?} {slow:?}");
    }
}

proptest! {
    /// R-TOL-1: on a path that keeps order every gap is reported when the next packet comes, whatever the limits.
    #[test]
    fn a_gap_on_a_path_that_keeps_order_is_reported_at_once_always(
        runs in prop::collection::vec((1..20, 1..40, 0..3_000_u64), 1..20),
    ) {
        let mut bench = bench(Mode::Auto);
        let (mut next, mut gaps) = (1, Vec::new());
        for (arrive, lose, pause) in runs {
            bench.data(next..next + arrive);
            next += arrive;
            gaps.push((next, next + lose));
            next += lose;
            bench.run_timers(bench.now + us(pause));
            bench.clear();
            bench.data([next]);
            prop_assert_eq!(bench.nacks(), vec![gaps.clone()]);
            next += 1;
        }
    }
}

/// R-STATUS-2: more gaps than fit into one message are undecided, and lost at the same time.
#[test]
fn gaps_that_expire_at_once_are_all_reported() {
    const GAPS: i32 = 40;
    let mut bench = bench(Mode::Fixed);
    bench.config.tolerance.limits.depth = 1_000;
    bench.data((1..=GAPS).map(|n| 2 * n));
    assert!(bench.statuses().is_empty(), "none is decided");
    bench.run_timers(bench.now + us(50));
    let listed = bench.nacks().concat();
    assert_eq!(listed, (1..=GAPS).map(|n| (2 * n - 1, 2 * n)).collect::<Vec<_>>());
}
