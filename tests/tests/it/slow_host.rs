//! Hosts that take packets slowly, as emulated guests do, are no lossy LAN: 32 queue pairs with messages both ways.

use common::metrics::Metric;
use common::time::Span;
use switch::Recovery;
use tests::{Impairment, Scenario, SlowHost, Tunnelling, Which, World};

/// 10,000 packets a second.
const SLOW: SlowHost = SlowHost {
    per_packet: Span::from_micros(100),
    ring: 100_000,
    pause_every: Span::from_millis(300),
    pause: Span::ZERO,
};

/// A run's end; packets of both Depots.
struct Run {
    /// Seconds until all messages were delivered and acknowledged.
    took: f64,
    delivered: u64,
    resent_after_timeouts: u64,
    overflowed: u64,
}

fn run(host: SlowHost, loss: f64, recovery: Option<Recovery>, tunnel: Tunnelling) -> Run {
    let mut world = World::new(Scenario {
        host: Some(host),
        tunnel,
        qps: 32,
        messages: [12, 12],
        fixed_length: true,
        window: 128,
        wan: [Impairment::lossy(loss); 2],
        timeout: Span::from_millis(1_074),
        ..Scenario::calm(7, recovery)
    });
    let outcome = world.run(Span::from_millis(60_000));
    assert_eq!(outcome.failed, 0);
    let sum = |metric: Metric| -> u64 {
        (0..2).flat_map(|me| world.counters(me)).map(|counters| counters.get(metric)).sum()
    };
    Run {
        took: outcome.finished.expect("it ends").as_secs_f64(),
        delivered: sum(Metric::DepotInOrder) + sum(Metric::DepotDrained),
        resent_after_timeouts: sum(Metric::LocalTimeout),
        overflowed: world.overflowed(0) + world.overflowed(1),
    }
}

/// With recovery, the messages take at most a tenth longer than without gateways, and the Depots ask
/// a host that takes nothing a few times only.
fn is_no_lossy_lan(host: SlowHost, overflows: bool) {
    for loss in [0.0, 0.01] {
        let off = run(host, loss, None, Tunnelling::No);
        for (mode, recovery, tunnel) in [
            ("auto", Recovery::Auto, Tunnelling::No),
            ("tunnel", Recovery::Lr2, Tunnelling::WithLanRepair(Which::All)),
        ] {
            let with = run(host, loss, Some(recovery), tunnel);
            let Run { took, delivered, resent_after_timeouts: resent, overflowed } = with;
            println!(
                "{host:?}, {loss} lost, {mode}: {took:.3} s against {:.3} s, {delivered} delivered, \
                 {resent} resent after timeouts, {overflowed} against {} lost by the rings",
                off.took, off.overflowed
            );
            assert!(took < off.took * 1.1, "{took} s, {} s without gateways", off.took);
            assert!(delivered > 10_000, "{delivered} delivered");
            let most = if overflows { delivered / 50 } else { 60 };
            assert!(resent <= most, "{resent} of {delivered} were resent after timeouts");
            assert_eq!(overflowed > 0, overflows, "{overflowed}");
        }
    }
}

/// R-LAN-7
#[test]
fn a_slow_host_is_no_lossy_lan() {
    is_no_lossy_lan(SLOW, false);
}

/// R-LAN-7
#[test]
fn a_host_that_stands_still_at_times_is_no_lossy_lan() {
    for millis in [20, 100] {
        is_no_lossy_lan(SlowHost { pause: Span::from_millis(millis), ..SLOW }, false);
    }
    let quick = SlowHost { per_packet: Span::from_micros(10), ..SLOW };
    is_no_lossy_lan(SlowHost { pause: Span::from_millis(100), ..quick }, false);
}

/// R-LAN-2, R-LAN-7
#[test]
fn a_ring_that_overflows_is_filled_no_faster_than_without_gateways() {
    is_no_lossy_lan(SlowHost { ring: 1024, pause: Span::from_millis(50), ..SLOW }, true);
}
