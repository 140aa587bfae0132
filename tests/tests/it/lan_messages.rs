//! Messages of Sentry and Depot beside a tunnel, where the LANs lose nothing.

use common::metrics::Metric;
use common::time::Span;
use tests::{Impairment, Scenario, Tunnelling, Which, World};

/// With `recovery.lan = "on"`, losses on the long haul cause no SYNC and no STATUS: a protected flow has no more of them than its timers
/// send (docs/protocol.md, Timers and R-STATUS-1). In a round trip that is two SYNC(keepalive), which are RTT/2
/// apart; eight SYNC(tail), each of which comes RTT/8 behind a packet at least; and two STATUSes while data flows. Each SYNC has one
/// STATUS as its answer. A flow is announced by 24 SYNC(open) at most (R-PEER-4).
///
/// R-TUN-27, R-SYNC-8, R-STATUS-1
#[test]
fn losses_of_the_long_haul_cost_no_message_of_the_lans() {
    for (qps, loss, messages) in [(1, 0.0, 400), (1, 0.01, 400), (1, 0.05, 400), (16, 0.02, 60)] {
        let scenario = Scenario {
            tunnel: Tunnelling::WithLanRepair(Which::All),
            wan: [Impairment::lossy(loss); 2],
            qps,
            messages: [messages, 0],
            message_max: 65_536,
            fixed_length: true,
            pmtu: 1024,
            ..Scenario::calm(7, Some(switch::Recovery::Lr2))
        };
        let rtt = scenario.wan_delay * 2;
        let packets = u64::from(qps * messages) * 64;
        let mut world = World::new(scenario);
        let outcome = world.run(Span::from_millis(60_000));
        let took = outcome.finished.expect("it ends");
        assert_eq!(outcome.failed, 0);
        let sum = |metric: Metric| -> u64 {
            (0..2).flat_map(|me| world.counters(me)).map(|counters| counters.get(metric)).sum()
        };
        let opens = sum(Metric::SyncOpen);
        let timed = sum(Metric::SyncTail) + sum(Metric::SyncKeepalive);
        let statuses = sum(Metric::CreatedStatus);
        let lost = world.wan(0).fate.lost + world.wan(1).fate.lost;
        let round_trips = took.as_nanos().div_ceil(rtt.as_nanos());
        println!(
            "{qps} queue pairs, {packets} packets, {lost} frames lost, {round_trips} round trips: \
             {opens} + {timed} SYNCs, {statuses} STATUSes"
        );
        let flows = u64::from(qps);
        assert!(opens <= 24 * flows && timed <= 10 * round_trips * flows);
        assert!(statuses <= opens + timed + 2 * round_trips * flows);
        assert!(opens + timed + statuses < packets / 20, "messages are as many as packets");
        // Of a gap or a packet that was resent there is nothing to say.
        let of_losses = [
            Metric::SyncResent,
            Metric::SyncLost,
            Metric::NackNewGap,
            Metric::NackRepeat,
            Metric::NackSync,
            Metric::GapsSeen,
        ];
        assert_eq!(of_losses.map(sum), [0; 6], "{of_losses:?}");
        assert!((lost > 100) == (loss > 0.0), "{lost} frames were lost");
    }
}
