//! A long haul that delays some packets, so that others overtake them.

use common::metrics::Metric;
use common::time::Span;
use common::verdict::{Mode, Tolerance};
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Scenario, World};

struct Measured {
    /// Milliseconds until all is done.
    took: f64,
    /// Packets that the Sentry resent from its cache.
    resent: u64,
    /// Packets that were late and waited for, and that were reported.
    late: [u64; 2],
}

/// One flow at 1 Gbit/s, 10 ms, of whose packets so many are delayed by up to 200 us, lost, and lost at the source's site.
fn measure(recovery: Recovery, mode: Mode, reorder: f64, loss: f64, site: f64) -> Measured {
    let wan =
        Impairment { loss, reorder, reorder_by: Span::from_micros(200), ..Impairment::default() };
    let mut world = World::new(Scenario {
        wan: [wan, Impairment::default()],
        lan0: [Impairment::lossy(site), Impairment::default()],
        messages: [400, 0],
        window: 4_000,
        retry: RetryLimit::Infinite,
        fixed_length: true,
        tolerance: Tolerance { mode, ..Tolerance::default() },
        ..Scenario::calm(3, Some(recovery))
    });
    let outcome = world.run(Span::from_millis(60_000));
    let took = outcome.finished.expect("it ends").as_secs_f64() * 1e3;
    let count = |metric| (0..2).flat_map(|me| world.counters(me)).map(|it| it.get(metric)).sum();
    let late = [Metric::DepotAwaited, Metric::DepotMisjudged].map(count);
    Measured { took, resent: count(Metric::SentryResent), late }
}

#[test]
fn a_path_that_reorders_has_fewer_packets_resent() {
    for recovery in [Recovery::Cached, Recovery::Auto, Recovery::Lr2] {
        for loss in [0.0, 1e-3] {
            let off = measure(recovery, Mode::Off, 0.1, loss, 0.0);
            let auto = measure(recovery, Mode::Auto, 0.1, loss, 0.0);
            println!(
                "{recovery:?}, {loss}: {:.2} ms, {} resent without tolerance; {:.2} ms, {} with it, {:?} late",
                off.took, off.resent, auto.took, auto.resent, auto.late
            );
            assert_eq!(off.late, [0, 0]);
            assert!(auto.resent <= off.resent, "{recovery:?}");
            if recovery != Recovery::Lr2 {
                assert!(auto.resent * 3 < off.resent, "{recovery:?}");
                assert!(auto.late[0] > 100 && auto.late[1] > 0, "{:?}", auto.late);
            }
            assert!(auto.took <= off.took * 1.01 + 1.0, "{recovery:?}");
        }
    }
}

/// On a path that keeps order nothing changes, whether it loses, or the source's LAN, or both.
#[test]
fn a_path_that_keeps_order_is_as_without_tolerance() {
    for recovery in [Recovery::Cached, Recovery::Auto, Recovery::Lr2] {
        for [loss, site] in [[1e-2, 0.0], [0.0, 3e-3], [3e-3, 3e-3]] {
            let [off, auto] =
                [Mode::Off, Mode::Auto].map(|mode| measure(recovery, mode, 0.0, loss, site));
            println!("{recovery:?}, {loss}, {site}: {:.2} ms, {} resent", off.took, off.resent);
            assert_eq!(
                (auto.took, auto.resent, auto.late),
                (off.took, off.resent, [0, 0]),
                "{recovery:?} {loss} {site}"
            );
        }
    }
}
