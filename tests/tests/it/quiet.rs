//! Many queue pairs that each send little: control messages have a budget, and the gateways cost no more than they are
//! worth (R-MSG-7).
//!
//! The traffic is that of `lr2-host --qps N --window 2N --message 4KiB --pmtu 1024 --timeout 18`: two packets of each
//! queue pair may be unacknowledged, messages are always waiting, and the rate of the port is the limit.

use common::allowance::Allowance;
use common::metrics::Metric;
use common::time::Span;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Link, Scenario, World};

/// A load: queue pairs, rate of the port in bit/s, one-way delay, length in seconds.
#[derive(Clone, Copy, Debug)]
struct Load {
    qps: u32,
    rate: u64,
    one_way: Span,
    loss: f64,
    seconds: u64,
    /// Share of READs.
    reads: f64,
    /// Whether both hosts send requests.
    both_ways: bool,
}

/// Frames and their bytes.
#[derive(Clone, Copy, Debug)]
struct Carried {
    frames: u64,
    bytes: u64,
}

/// The result of a run.
#[derive(Debug)]
struct Row {
    /// From both LANs.
    lan: Carried,
    /// On the long-haul link, both directions.
    wan: Carried,
    /// Lost there.
    lost: u64,
    /// Mean of packets that were sent once.
    round_trip: Span,
    /// Timeouts of the RNICs.
    timeouts: u64,
    /// Queue pairs that failed.
    failed: usize,
    /// Messages that completed.
    messages: u64,
    /// Flows that were protected, and that nothing paid for at times.
    protected: u64,
    deferred: u64,
}

impl Row {
    fn of(world: &World) -> Self {
        let sum = |link: fn(&World, usize) -> &Link| {
            let fates = [link(world, 0).fate, link(world, 1).fate];
            Carried {
                frames: fates.iter().map(|fate| fate.offered).sum(),
                bytes: fates.iter().map(|fate| fate.bytes).sum(),
            }
        };
        let count = |metric| world.counters(0).map(|counters| counters.get(metric)).sum();
        let requester = world.nic(0).totals().requester;
        Self {
            lan: sum(World::from_nic),
            wan: sum(World::wan),
            lost: world.wan(0).fate.lost + world.wan(1).fate.lost,
            round_trip: requester.rtt.mean().expect("some are measured"),
            timeouts: requester.timeouts,
            failed: world.dead(),
            messages: requester.messages,
            protected: count(Metric::FlowProtected),
            deferred: count(Metric::FlowDeferred),
        }
    }
}

fn run(load: Load, recovery: Recovery) -> Row {
    let Load { qps, rate, one_way, loss, seconds, reads, both_ways } = load;
    // A packet of 1,082 bytes and the line's overhead.
    let packets = rate * seconds / 8 / 1_106;
    let messages = (packets / 4 / u64::from(qps)) as u32 + 4;
    let mut world = World::new(Scenario {
        qps,
        reads,
        rate,
        wan_delay: one_way,
        wan: [Impairment::lossy(loss); 2],
        messages: [messages, if both_ways { messages } else { 0 }],
        message_max: 4_096,
        fixed_length: true,
        pmtu: 1_024,
        window: 2,
        timeout: Span::from_nanos(4_096 << 18),
        retry: RetryLimit::Count(7),
        ..Scenario::calm(1, Some(recovery))
    });
    world.run_for(Span::from_millis(seconds * 1_000));
    let row = Row::of(&world);
    let per_frame = row.wan.frames as f64 / row.lan.frames as f64;
    let per_byte = row.wan.bytes as f64 / row.lan.bytes as f64;
    println!("{load:?} {recovery:?}: {per_frame:.3} frames, {per_byte:.4} bytes; {row:?}");
    row
}

/// Without loss, `auto` is a wire but for its budget of messages.
#[track_caller]
fn assert_is_no_worse(load: Load) -> Row {
    let [off, auto] = [Recovery::Off, Recovery::Auto].map(|recovery| run(load, recovery));
    let Carried { frames, bytes } = auto.lan;
    assert!((auto.wan.frames - frames) * 20 <= frames, "more than 5 % of the frames");
    assert!((auto.wan.bytes - bytes) * 100 <= bytes, "more than 1 % of the bytes");
    assert!(auto.round_trip <= off.round_trip + Span::from_micros(1), "slower");
    assert!(auto.timeouts <= off.timeouts, "timeouts");
    assert_eq!((auto.failed, off.failed), (0, 0));
    assert!(auto.messages >= off.messages);
    auto
}

const FIFTY: Load = Load {
    qps: 50,
    rate: 5_000_000,
    one_way: Span::from_millis(5),
    loss: 0.0,
    seconds: 12,
    reads: 0.0,
    both_ways: false,
};

// R-MSG-7
#[test]
fn fifty_cost_no_more_than_the_budget_and_are_protected() {
    let row = assert_is_no_worse(FIFTY);
    assert!(row.protected >= 50, "{row:?}");
}

// R-MSG-7
#[test]
fn a_thousand_cost_no_more_than_the_budget() {
    let load = Load { qps: 1_000, rate: 20_000_000, seconds: 6, ..FIFTY };
    let row = assert_is_no_worse(load);
    assert!(row.deferred > 0 && row.protected > 0, "{row:?}");
}

// R-MSG-7
#[test]
fn five_thousand_cost_no_more_than_the_budget() {
    let one_way = Span::from_micros(50);
    let load = Load { qps: 5_000, rate: 40_000_000, one_way, seconds: 8, ..FIFTY };
    assert_is_no_worse(load);
}

/// A frame pays at both boxes, and both send messages for it.
// R-MSG-7
#[test]
fn both_ways_cost_no_more_than_the_budget() {
    let row = assert_is_no_worse(Load { both_ways: true, seconds: 40, ..FIFTY });
    assert!(row.protected >= 50, "{row:?}");
}

/// The responder's port is the limit: responses wait for 17 round trips, and seem to be late. They pay for more messages
/// than the worker's bucket does, and the short requests.
// R-MSG-7, R-MSG-12
#[test]
fn fifty_that_read_cost_no_more_than_the_budget() {
    let row = assert_is_no_worse(Load { reads: 1.0, ..FIFTY });
    let time = 2 * (Allowance::SAVED + 12 * Allowance::PER_SECOND);
    let requests = 2;
    assert!(row.wan.frames - row.lan.frames > u64::from(time) + requests, "{row:?}");
}

/// The budget suffices to repair losses.
// R-MSG-7
#[test]
fn fifty_on_a_lossy_link_time_out_less_often_than_without() {
    let load = Load { loss: 0.01, ..FIFTY };
    let [off, auto] = [Recovery::Off, Recovery::Auto].map(|recovery| run(load, recovery));
    assert!(auto.timeouts * 2 <= off.timeouts, "{} of {}", auto.timeouts, off.timeouts);
    // For each loss a STATUS, the resent packet, a SYNC, and a STATUS that answers it.
    let control = auto.wan.frames - auto.lan.frames;
    assert!(control <= auto.lan.frames / 20 + 4 * auto.lost, "{control}");
}
