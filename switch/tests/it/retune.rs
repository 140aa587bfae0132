//! Settings that change while a switch works.

use crate::support::*;
use common::control::Reason;
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::time::Span;
use switch::{Config, Recovery, Settings};

fn set(bench: &mut Bench, change: impl FnOnce(&mut Settings)) {
    let mut settings = bench.switch.settings();
    change(&mut settings);
    bench.switch.set_settings(&settings);
    assert_eq!(bench.switch.settings(), settings);
}

/// The reasons of the SYNCs.
fn syncs(sent: &[Sent]) -> Vec<Reason> {
    sent.iter().filter_map(Sent::sync).map(|(_, sync)| sync.reason).collect()
}

const MODES: [Recovery; 4] = [Recovery::Off, Recovery::Lr2, Recovery::Cached, Recovery::Auto];

// R-SET-1
#[test]
fn with_another_mode_flows_begin_anew_and_nothing_is_lost() {
    for from in MODES {
        for to in MODES.into_iter().filter(|to| *to != from) {
            let mut bench = Bench::new(from);
            if from != Recovery::Off {
                bench.protect(0x22, 0..8);
                bench.wan(request(&inbound(), 0x33, 0));
                bench.told(0x33, 1, open(0));
                bench.arrive(0x33, [2, 3, 5]);
                assert!(bench.switch.held() >= 3, "{from:?}");
            }
            set(&mut bench, |settings| settings.recovery = to);
            // Until the flows are left they are repaired as before.
            let sent = bench.keep_house();
            if from != Recovery::Off {
                assert_eq!(syncs(&sent), [Reason::Release], "{from:?} {to:?}");
                assert_eq!(psns(&sent, Lan), [2, 3, 5], "{from:?} {to:?}");
            }
            assert!(!bench.switch.is_retuning());
            assert_eq!(bench.switch.held(), 0);
            let sent = bench.lan(request(&outbound(), 0x22, 8));
            assert_eq!(psns(&sent, Wan), [8]);
            let announced = if to == Recovery::Off { vec![] } else { vec![Reason::Open] };
            assert_eq!(syncs(&sent), announced, "{from:?} {to:?}");
            let kept = matches!(to, Recovery::Cached | Recovery::Auto);
            assert_eq!(bench.switch.held(), u64::from(kept), "{from:?} {to:?}");
        }
    }
}

// R-SET-1
#[test]
fn many_flows_are_left_some_at_a_time_in_their_old_mode() {
    let mut bench = Bench::new(Recovery::Cached);
    for qpn in 0..300 {
        bench.sends(qpn, 5..7);
    }
    set(&mut bench, |settings| settings.recovery = Recovery::Off);
    bench.keep_house();
    assert!(bench.switch.is_retuning() && bench.switch.is_forgetting());
    // A new flow passes; an old one is still what it was.
    bench.assert_passes(Lan, &request(&outbound(), 5_000, 5));
    bench.sends(299, 7..8);
    assert_eq!(bench.count(Metric::PassedRole), 0);
    // The operator thinks again.
    set(&mut bench, |settings| settings.recovery = Recovery::Lr2);
    for _ in 0..5 {
        bench.keep_house();
    }
    assert_eq!((bench.switch.is_retuning(), bench.switch.held()), (false, 0));
    bench.sends(299, 8..9);
    assert_eq!((bench.count(Metric::PassedRole), bench.switch.held()), (0, 0));
    bench.keep_house();
    assert_eq!(bench.count(Metric::FlowsAll), 1);
}

// R-SET-2
#[test]
fn a_shorter_timer_counts_for_what_waits() {
    let ms = Span::from_millis;
    let mut bench = Bench::with(Config {
        tuning: switch::Tuning { give_up: Some(ms(5_000)), ..Default::default() },
        ..Config::lab(Recovery::Auto, NODE, BOOT)
    });
    bench.wan(request(&inbound(), 0x22, 0));
    bench.told(0x22, 1, open(0));
    bench.arrive(0x22, [2, 3]);
    assert_eq!(bench.switch.held(), 2);
    set(&mut bench, |settings| settings.tuning.give_up = Some(ms(40)));
    bench.housekeeping();
    let mut delivered = Vec::new();
    for _ in 0..50 {
        bench.wait(ms(1));
        if bench.switch.next_deadline() <= bench.now {
            delivered.extend(psns(&bench.timers(), Lan));
        }
    }
    assert_eq!(delivered, [2, 3]);
    // And a longer one.
    set(&mut bench, |settings| settings.tuning.give_up = Some(ms(10_000)));
    bench.arrive(0x22, [5]);
    bench.wait(ms(60));
    assert_eq!(psns(&bench.timers(), Lan), []);
}

// R-SET-3
#[test]
fn a_pool_shrinks_as_frames_leave_and_another_grows_once_it_has() {
    let mut bench = Bench::new(Recovery::Cached);
    let epoch = bench.protect(0x22, 0..8);
    set(&mut bench, |settings| {
        settings.pools.resend_cache = 4;
        settings.pools.backup_pool = 1 << 20;
    });
    assert_eq!(bench.switch.held(), 8, "what is kept stays");
    bench.housekeeping();
    bench.sends(0x22, 8..10);
    assert_eq!((bench.switch.held(), bench.count(Metric::SentryCacheFull)), (8, 2));
    assert!(bench.switch.is_retuning(), "the backup pool has yet to grow");
    bench.status(0x22, epoch, report(7, 10, &[]));
    bench.housekeeping();
    assert!(!bench.switch.is_retuning());
    bench.sends(0x22, 10..20);
    assert!(bench.switch.held() <= 4);
    set(&mut bench, |settings| settings.pools.resend_cache = 16);
    bench.housekeeping();
    bench.sends(0x22, 20..40);
    assert_eq!(bench.switch.held(), 16);
}

#[test]
fn what_the_operator_has_left_stays_so_with_another_mode() {
    let mut bench = Bench::new(Recovery::Cached);
    bench.protect(0x22, 0..8);
    let flow = bench.switch.flow(0, bench.now).expect("it is known").name();
    bench.unprotect(&flow);
    set(&mut bench, |settings| settings.recovery = Recovery::Auto);
    bench.housekeeping();
    bench.assert_passes(Lan, &request(&outbound(), 0x22, 8));
    assert_eq!(bench.count(Metric::PassedOperator), 1);
}
