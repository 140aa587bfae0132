//! How many PSNs a READ takes: without that the next PSN is unknown.

use common::control::Reason;
use common::metrics::Metric;
use common::time::Span;
use common::wire::{Opcode, Qpn};
use sentry::Recovery::Cached;
use testkit::sentry::*;

const PMTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];

fn single(n: i32) -> Vec<u8> {
    packet(Opcode::WRITE_ONLY, n, true, 64)
}

/// The flow's next PSN, as it tells the Depot.
fn next(bench: &mut Bench) -> i32 {
    bench.clear();
    bench.wait(Span::from_millis(1));
    bench.timer();
    match bench.take()[..] {
        [Did::Sync { reason: Reason::Open, next: Some(next), .. }] => next,
        ref did => panic!("SYNC(open) was due: {did:?}"),
    }
}

#[test]
fn a_read_takes_as_many_psns_as_its_response_has_packets() {
    for pmtu in PMTUS {
        let p = pmtu as u32;
        for (len, count) in [
            (0, 1),
            (1, 1),
            (p - 1, 1),
            (p, 1),
            (p + 1, 2),
            (10 * p - 1, 10),
            (10 * p, 10),
            (10 * p + 1, 11),
            (500 * p, 500),
        ] {
            let mut bench = Bench::start(Cached);
            bench.frame(packet(Opcode::WRITE_MIDDLE, 0, false, pmtu));
            bench.frame(read(1, len));
            assert_eq!(next(&mut bench), 1 + count, "{len} bytes at {pmtu}");
            assert_eq!(bench.cache.frames(), 2, "one packet, however many PSNs");
        }
    }
}

#[test]
fn first_and_middle_packets_tell_the_path_mtu() {
    for opcode in
        [Opcode::SEND_FIRST, Opcode::SEND_MIDDLE, Opcode::WRITE_FIRST, Opcode::WRITE_MIDDLE]
    {
        for pmtu in PMTUS {
            let mut bench = Bench::start(Cached);
            let reth = if opcode == Opcode::WRITE_FIRST { 16 } else { 0 };
            bench.frame(packet(opcode, 0, false, pmtu + reth));
            bench.frame(read(1, 10_000));
            assert!(!bench.flow.is_bypassed());
            let count = 10_000_u32.div_ceil(pmtu as u32) as i32;
            assert_eq!(next(&mut bench), 1 + count, "{opcode:?} at {pmtu}");
        }
    }
}

#[test]
fn others_do_not() {
    for opcode in [Opcode::SEND_LAST, Opcode::SEND_ONLY] {
        let mut bench = Bench::start(Cached);
        bench.frame(packet(opcode, 0, false, 1024));
        bench.frame(packet(Opcode::SEND_MIDDLE, 1, false, 1000)); // no path MTU at all
        bench.frame(read(2, 10_000));
        assert!(bench.flow.is_bypassed(), "{opcode:?}");
    }
}

#[test]
fn a_read_within_the_smallest_path_mtu_takes_one_psn_whatever_it_is() {
    for len in [0, 1, 255, 256] {
        let mut bench = Bench::start(Cached);
        bench.frame(read(0, len));
        assert_eq!(next(&mut bench), 1);
    }
    let mut bench = Bench::start(Cached);
    bench.frame(read(0, 257));
    assert!(bench.flow.is_bypassed());
}

/// READs of 10 KiB, one after the other, at a path MTU of 1024.
fn reads(bench: &mut Bench, from: i32, n: i32) {
    (0..n).for_each(|i| bench.frame(read(from + i * 10, 10_240)));
}

#[test]
fn three_reads_that_agree_tell_the_path_mtu_and_end_the_bypass() {
    let mut bench = Bench::start(Cached);
    reads(&mut bench, 0, 3);
    assert!(bench.flow.is_bypassed(), "they are two steps");
    reads(&mut bench, 30, 1);
    assert!(!bench.flow.is_bypassed());
    assert_eq!(bench.epoch(), 2, "another one: the Depot may have heard of the first");
    assert_eq!(bench.out.src_qpn, Some(Qpn::new(0x77)), "but of the same queue pair");
    assert_eq!(next(&mut bench), 40);
}

#[test]
fn a_step_that_disagrees_begins_the_count_anew() {
    let mut bench = Bench::start(Cached);
    reads(&mut bench, 0, 3);
    bench.frame(read(33, 10_240)); // fits no path MTU
    reads(&mut bench, 43, 2);
    assert!(bench.flow.is_bypassed());
    reads(&mut bench, 63, 1);
    assert!(!bench.flow.is_bypassed());
}

/// One READ was lost before the Sentry: two take as many PSNs as one at half
/// the path MTU.
#[test]
fn a_lost_read_is_not_mistaken_for_a_smaller_path_mtu() {
    let mut bench = Bench::start(Cached);
    reads(&mut bench, 0, 3);
    reads(&mut bench, 40, 2);
    assert!(bench.flow.is_bypassed());
    reads(&mut bench, 60, 2);
    assert!(!bench.flow.is_bypassed());
    assert_eq!(next(&mut bench), 80);
}

#[test]
fn a_read_response_tells_the_path_mtu() {
    let mut bench = Bench::start(Cached);
    bench.frame(read(0, 1_000));
    assert!(bench.flow.is_bypassed());
    bench.respond(part(0..4, 0));
    assert_eq!(bench.answered(), [0]);
    bench.frame(single(4));
    assert!(!bench.flow.is_bypassed());
    bench.frame(read(5, 1_000));
    assert_eq!(next(&mut bench), 9);
}

#[test]
fn a_read_that_is_longer_than_any_that_is_followed_ends_protection() {
    let most = 256 << 16;
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.config.window_max = 1 << 19;
    bench.frame(read(1, most));
    assert!(!bench.flow.is_bypassed());
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.frame(read(1, most + 1));
    assert!(bench.flow.is_bypassed());
    assert_eq!(bench.syncs(), [Reason::Release]);
    assert_eq!(bench.cache.frames(), 0);
    // Any next PSN is as good a beginning.
    bench.data([1 + (1 << 16) + 1]);
    assert!(!bench.flow.is_bypassed());
    assert_eq!(bench.syncs(), [Reason::Open]);
}

/// With a damaged length the next PSN would be wrong.
#[test]
fn a_damaged_read_is_not_believed() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    let mut frame = read(1, 10 * 256);
    frame[68] ^= 1; // its length
    bench.frame(frame);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    bench.frame(read(1, 10 * 256));
    bench.data([11]);
    assert_eq!(bench.count(Metric::SentryNew), 3);
    assert_eq!(bench.count(Metric::SentryAhead), 0);
}

#[test]
fn an_atomic_takes_one_psn() {
    let mut bench = Bench::start(Cached);
    bench.frame(atomic(0));
    assert_eq!(next(&mut bench), 1);
}
