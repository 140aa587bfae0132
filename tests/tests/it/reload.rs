//! Settings that change in the middle of a long flow with loss: the flow is through, in order and intact, and no queue
//! pair fails. The world checks each frame's account at each event.
//!
//! `SEEDS=n` runs that many seeds per case (5 by default).

use common::time::Span;
use common::verdict::{Mode, Tolerance};
use rnic::RetryLimit;
use switch::{Recovery, Settings};
use tests::{Impairment, Scenario, World, number};

/// 13 MiB each way over 10 ms at 1 Gbit/s; 1 % of all frames is lost on the long-haul link.
fn scenario(seed: u64, recovery: Recovery) -> Scenario {
    Scenario {
        wan: [Impairment::lossy(0.01); 2],
        messages: [200, 40],
        reads: 0.2,
        fixed_length: true,
        retry: RetryLimit::Count(7),
        qps: 3,
        ..Scenario::calm(seed, Some(recovery))
    }
}

const MODES: [Recovery; 4] = [Recovery::Off, Recovery::Lr2, Recovery::Cached, Recovery::Auto];

/// Both boxes change their settings `n` times, one somewhat later than the other.
fn run(seed: u64, recovery: Recovery, n: u32, change: impl Fn(u32, &mut Settings)) {
    let mut world = World::new(scenario(seed, recovery));
    for n in 0..n {
        for me in [seed as usize % 2, 1 - seed as usize % 2] {
            world.run_for(Span::from_millis(7));
            world.set_settings(me, |settings| change(n, settings));
        }
    }
    let outcome = world.run(Span::from_millis(600_000));
    assert_eq!((outcome.failed, outcome.held), (0, 0), "seed {seed}");
    assert!(outcome.finished.is_some(), "seed {seed}");
}

fn seeds() -> std::ops::Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(5),
    }
}

// R-SET-1
#[test]
fn every_mode_follows_every_other_one() {
    for seed in seeds() {
        for from in MODES {
            for to in MODES {
                run(seed, from, 4, |n, settings| {
                    settings.recovery = if n % 2 == 0 { to } else { from };
                });
            }
        }
    }
}

// R-SET-2
#[test]
fn timers_change() {
    let ms = |ms| Some(Span::from_millis(ms));
    let changes: [fn(&mut Settings, Option<Span>); 8] = [
        |it, to| it.tuning.rtt_guess = to.unwrap_or(Span::from_micros(10)),
        |it, to| it.tuning.tail_timeout = to,
        |it, to| it.tuning.status_interval = to,
        |it, to| it.tuning.peer_timeout = to.map(|to| to * 8),
        |it, to| it.tuning.give_up = to.map(|to| to * 5),
        |it, to| it.tuning.t_out = to,
        |it, to| it.tuning.t_out_min = to.unwrap_or(Span::from_micros(500)),
        |it, to| it.cnp_interval = to,
    ];
    for seed in seeds() {
        for change in changes {
            run(seed, Recovery::Auto, 6, |n, settings| {
                change(settings, [ms(20), ms(5), None][n as usize % 3])
            });
        }
    }
}

// R-SET-2
#[test]
fn the_tolerance_changes() {
    let all =
        [Mode::Off, Mode::Fixed, Mode::Auto].map(|mode| Tolerance { mode, ..Tolerance::default() });
    for seed in seeds() {
        run(seed, Recovery::Auto, 9, |n, settings| settings.tuning.tolerance = all[n as usize % 3]);
    }
}

// R-SET-3
#[test]
fn pools_change() {
    for seed in seeds() {
        for mode in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
            run(seed, mode, 8, |n, settings| {
                let frames = [16, 1 << 12, 0, 1 << 16][n as usize % 4];
                settings.pools.resend_cache = frames;
                settings.pools.reorder_pool = frames;
                settings.pools.backup_pool = (1 << 16) - frames;
            });
        }
    }
}
