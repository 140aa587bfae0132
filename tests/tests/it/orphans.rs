//! A box that is left alone by the other, in the middle of a long flow: it ends, it is
//! killed, it comes back with its clock set back, its messages no longer arrive. However it
//! comes, the flow is through no later than without gateways on the same losses.
//!
//! `SEEDS=n` runs that many seeds per case (8 by default, 20 with `LR2_LONG=1`).

use std::sync::OnceLock;

use common::time::Span;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Scenario, Silenced, World, number, seeds};

/// When it happens, from the start on.
const WHEN: Span = Span::from_millis(80);

/// 38 MiB over 10 ms at 1 Gbit/s; 1 % of all frames is lost on the long-haul link.
fn scenario(seed: u64, recovery: Option<Recovery>) -> Scenario {
    Scenario {
        wan: [Impairment::lossy(0.01); 2],
        messages: [600, 0],
        fixed_length: true,
        retry: RetryLimit::Infinite,
        ..Scenario::calm(seed, recovery)
    }
}

/// How long it takes until all is delivered, in seconds; `fault` befalls it.
fn time(seed: u64, recovery: Option<Recovery>, fault: fn(&mut World)) -> f64 {
    let mut world = World::new(scenario(seed, recovery));
    if recovery.is_some() {
        world.run_for(WHEN);
        fault(&mut world);
    }
    let outcome = world.run(Span::from_millis(600_000));
    if std::env::var_os("SEED").is_some() {
        world.explain();
    }
    assert_eq!(outcome.failed, 0, "a QP failed: seed {seed}");
    outcome.finished.expect("it ends").as_secs_f64()
}

/// Times of some runs, in seconds.
struct Times(Vec<f64>);

impl Times {
    fn of(recovery: Option<Recovery>, fault: fn(&mut World)) -> Self {
        let range = match number("SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..seeds(8, 20),
        };
        let mut times: Vec<f64> = range.map(|seed| time(seed, recovery, fault)).collect();
        times.sort_unstable_by(f64::total_cmp);
        Self(times)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The standard error of the mean.
    fn error(&self) -> f64 {
        let (n, mean) = (self.0.len() as f64, self.mean());
        let squares: f64 = self.0.iter().map(|time| (time - mean).powi(2)).sum();
        (squares / n.max(2.0)).sqrt() / n.sqrt()
    }
}

/// No slower than plain go-back-N by more than 3 %, as far as that can be told: the runs
/// lose other packets, and a few timeouts take most of the time of a run.
fn assert_never_slower(fault: fn(&mut World)) {
    static PLAIN: OnceLock<Times> = OnceLock::new();
    let plain = PLAIN.get_or_init(|| Times::of(None, |_| {}));
    for recovery in [Recovery::Auto, Recovery::Lr2] {
        let ours = Times::of(Some(recovery), fault);
        let chance = 2.0 * plain.error().hypot(ours.error());
        for (what, ours, plain) in
            [("mean", ours.mean(), plain.mean()), ("median", ours.median(), plain.median())]
        {
            println!("{recovery:?}: {what} {:.0} ms, plain {:.0} ms", ours * 1e3, plain * 1e3);
            assert!(
                ours <= plain * 1.03 + chance,
                "{recovery:?}: {what} {ours:.3} s, plain {plain:.3} s, by chance {chance:.3} s"
            );
        }
    }
}

/// Near the source.
const SENTRY: usize = 0;
/// Near the destination.
const DEPOT: usize = 1;

#[test]
fn the_sentry_drains_and_its_releases_are_lost() {
    assert_never_slower(|world| {
        world.silence(Silenced::Release);
        world.drain(SENTRY);
        world.bypass(SENTRY);
    });
}

#[test]
fn the_sentry_dies_and_a_wire_takes_its_place() {
    assert_never_slower(|world| world.bypass(SENTRY));
}

#[test]
fn the_depot_dies_and_a_wire_takes_its_place() {
    assert_never_slower(|world| world.bypass(DEPOT));
}

#[test]
fn the_sentry_restarts_with_its_clock_set_back() {
    assert_never_slower(|world| world.restart_at(SENTRY, 10));
}

#[test]
fn the_depot_restarts_with_its_clock_set_back() {
    assert_never_slower(|world| world.restart_at(DEPOT, 10));
}

#[test]
fn the_sentry_restarts() {
    assert_never_slower(|world| world.restart_at(SENTRY, 2_000));
}

#[test]
fn the_depot_restarts() {
    assert_never_slower(|world| world.restart_at(DEPOT, 2_000));
}

#[test]
fn the_sentry_restarts_with_another_key() {
    assert_never_slower(|world| world.rekey(SENTRY));
}

#[test]
fn the_depot_restarts_with_another_key() {
    assert_never_slower(|world| world.rekey(DEPOT));
}

#[test]
fn no_status_arrives_any_more() {
    assert_never_slower(|world| world.silence(Silenced::Status));
}
