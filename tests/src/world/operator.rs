//! The operator's changes at a running box, and its overload.

use common::time::Span;
use common::verdict::{Mode, Tolerance};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use switch::{Recovery, Settings};

use super::World;
use crate::Tunnelling;
use crate::out::Out;

/// Not of an operator: housekeeping, which goes on with what he has begun. The numbers below count how often.
const HOUSEKEEPING: u64 = u64::MAX;
/// How often at most: a pool may be full for as long as a queue pair is dead.
const HOUSEKEEPINGS: u64 = 100;
/// Time between two of them.
const INTERVAL: Span = Span::from_millis(5);

impl World {
    /// The operator of box `me` does something, as `seed` says. What traffic does is drawn elsewhere: it is the same
    /// without boxes.
    pub(super) fn operate(&mut self, me: usize, seed: u64) {
        if seed >= HOUSEKEEPING - HOUSEKEEPINGS {
            return self.keep_house(me, seed);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let now = self.now;
        // Boxes that are off are compared with none.
        let is_off =
            self.scenario.tunnel == Tunnelling::No && self.scenario.recovery == Some(Recovery::Off);
        if !is_off && rng.random() {
            let changed = rng.random_range(0..9);
            return self.set_settings(me, |settings| change(settings, changed, &mut rng.clone()));
        }
        let Some(switch) = &mut self.ends[me].switch else { return };
        if rng.random_ratio(1, 3) {
            return switch.set_overloaded(rng.random());
        }
        let mut out = Out::default();
        if let Some(flow) = switch.flows(now).choose(&mut rng) {
            let is_on = rng.random();
            if self.trace {
                println!("{now:?} the operator of box {me} protects: {is_on}, {flow:?}");
            }
            switch.set_protection(flow, is_on, now, &mut out);
        }
        self.emit(me, out);
    }

    /// Box `me` works by other settings from now on.
    pub fn set_settings(&mut self, me: usize, change: impl Fn(&mut Settings)) {
        let Some(switch) = &mut self.ends[me].switch else { return };
        switch.set_settings(self.now, change);
        if self.trace {
            println!("{:?} the operator of box {me} changes settings", self.now);
        }
        self.keep_house(me, HOUSEKEEPING);
    }

    fn keep_house(&mut self, me: usize, n: u64) {
        let now = self.now;
        let Some(switch) = &mut self.ends[me].switch else { return };
        let mut out = Out::default();
        let is_to_go_on = switch.housekeeping(now, &mut out);
        self.emit(me, out);
        if is_to_go_on && n > HOUSEKEEPING - HOUSEKEEPINGS {
            self.operations.push((now + INTERVAL, me, n - 1));
            self.operations.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
}

/// Another value of one setting.
fn change(settings: &mut Settings, which: u32, rng: &mut ChaCha8Rng) {
    let ms = Span::from_millis;
    let mut some = |values: [u64; 2]| Some(ms(values[rng.random_range(0..2)]));
    let Settings { recovery, tuning, pools, .. } = settings;
    match which {
        0..3 => {
            let all = [Recovery::Off, Recovery::Lr2, Recovery::Cached, Recovery::Auto];
            *recovery = all[rng.random_range(0..4)];
        }
        3 => tuning.rtt_guess = Span::from_micros([100, 1_000, 20_000][rng.random_range(0..3)]),
        4 => (tuning.give_up, tuning.peer_timeout) = (some([40, 200]), some([20, 80])),
        5 => (tuning.status_interval, tuning.tail_timeout) = (some([1, 5]), some([1, 3])),
        6 => tuning.t_out = some([5, 20]),
        7 => {
            let fixed = Tolerance { mode: Mode::Fixed, ..Tolerance::default() };
            tuning.tolerance = [Tolerance::default(), fixed][rng.random_range(0..2)];
        }
        _ => {
            let mut frames = || [1 << 13, 64, 18, 0][rng.random_range(0..4)];
            (pools.resend_cache, pools.reorder_pool) = (frames(), frames());
            pools.backup_pool = frames();
        }
    }
}
