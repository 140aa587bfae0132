//! Memory of queue pairs, counted by allocations and compared with
//! `Footprint`.

use crate::support::{BOOT, Bench, NODE, Sent, ack, inbound, open, outbound, report, request};
use common::allowance::Allowance;
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;
use switch::{Config, End, Footprint, QueuePair, Recovery, Role, Tuning};

/// Bytes that a queue pair takes at most that is idle at a box of both roles,
/// with everything that belongs to it, both directions used.
const IDLE_QP: u64 = 256;
/// Bytes of a PSN at the Sentry, waiting at the Depot, and in its backup pool.
const SLOTS: [usize; 3] = [32, 48, 16];
const QPS: u32 = 1_000;

/// The remote host's QP of queue pair `n`, and this side's.
fn qpns(n: u32) -> (u32, u32) {
    (0x1000 + n, 0x8000 + n)
}

/// Room for just these queue pairs, which the operator names.
fn config() -> Config {
    let host = |last| std::net::IpAddr::from([10, 0, 0, last]).into();
    let pairs = (0..QPS).map(|n| {
        let (there, here) = qpns(n);
        let end = |addr, n| End { addr, qpn: Qpn::new(n) };
        let ends = [end(host(2), there), end(host(1), here)];
        QueuePair { vlans: common::wire::Vlans::NONE, ends }
    });
    Config {
        max_flows: 2 * QPS as usize,
        queue_pairs: pairs.collect(),
        tuning: Tuning { early_per_second: Allowance::AMPLE, ..Tuning::default() },
        ..Config::lab(Recovery::Auto, NODE, BOOT)
    }
}

/// `packets` requests each way of a protected queue pair, without the first
/// `lost` of those that arrive, acknowledged if `acked`.
fn exchange(bench: &mut Bench, n: u32, lost: u32, packets: u32, acked: bool) {
    let (there, here) = qpns(n);
    let mut epoch = None;
    for psn in 0..packets {
        let sent = bench.lan(request(&outbound(), there, psn));
        epoch = epoch.or(sent.iter().find_map(Sent::sync).map(|(header, _)| header.epoch));
    }
    let arrived = if acked { packets } else { 0 };
    bench.status(there, epoch.expect("a new flow is announced"), report(arrived, arrived, &[]));
    bench.sync(here, n + 1, open(0));
    bench.arrive(here, lost..lost + packets);
    if acked {
        bench.wan(ack(&inbound(), here, packets - 1));
        bench.lan(ack(&outbound(), there, packets - 1));
    }
}

/// Long without a packet.
fn rest(bench: &mut Bench) {
    for _ in 0..120 {
        bench.wait(Span::from_millis(100));
        while bench.switch.next_deadline() <= bench.now {
            bench.timers();
        }
        bench.housekeeping();
    }
}

/// Bytes that `make` takes and its result keeps.
fn kept<T>(make: impl FnOnce() -> T) -> (u64, T) {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(make()));
    let bytes = u64::try_from(counted.bytes_current).expect("more was taken than given");
    (bytes, made.expect("it was made"))
}

#[test]
fn idle_queue_pairs() {
    let config = config();
    // The operator's list is no part of a queue pair's memory.
    let listed = Config { max_flows: 1, ..config.clone() };
    let (listed, _) = kept(|| Bench::with(listed));
    let (all, bench) = kept(|| {
        let mut bench = Bench::with(config);
        for n in 0..QPS {
            exchange(&mut bench, n, 0, 100, true);
            bench.wait(Span::from_micros(10));
        }
        rest(&mut bench);
        bench
    });
    let qps = u64::from(QPS);
    assert_eq!(bench.count(Metric::FlowsAll), 2 * qps);
    assert_eq!((bench.count(Metric::FlowProtected), bench.count(Metric::FlowSynced)), (qps, qps));
    assert_eq!(bench.switch.held(), 0);
    assert_eq!(bench.switch.next_deadline(), Time::NEVER, "nothing is outstanding");

    let each = (all - listed) / qps;
    let said = Footprint::of::<HeapFrame>().idle();
    assert!(each <= said && said - each <= said / 8, "{each} bytes counted, {said} said");
    assert!(said <= IDLE_QP, "{said} bytes, {each} counted");
    assert!(said > IDLE_QP - 64, "{said} bytes: lower the limit");
}

#[test]
fn packets_in_flight() {
    const PACKETS: u32 = 1_000;
    let mut bench = Bench::with(config());
    // Everything waits behind the first packet of each flow.
    for n in 0..8 {
        exchange(&mut bench, n, 1, PACKETS, false);
    }
    for _ in 0..2 {
        bench.housekeeping();
    }
    assert_eq!(bench.count(Metric::HeldReorder), 8 * u64::from(PACKETS));
    let footprint = Footprint::of::<HeapFrame>();
    let packets = 8 * u64::from(PACKETS);
    let least = packets * (footprint.sentry_slot + footprint.depot_slot) as u64;
    let most = packets * footprint.per_packet(Role::Both);
    let state = bench.count(Metric::FlowStateBytes);
    assert!((least..=most).contains(&state), "{state} bytes, not {least} to {most}");
    let slots = [footprint.sentry_slot, footprint.depot_slot, footprint.backup_slot];
    assert_eq!(slots, SLOTS);
}
