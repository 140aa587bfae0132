//! What the operator of a box does while it works.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Collector, World};

impl World {
    /// The operator of box `me` does something, as `seed` says. What traffic does is drawn elsewhere: it is the same
    /// without boxes.
    pub(super) fn operate(&mut self, me: usize, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let now = self.now;
        let Some(switch) = &mut self.ends[me].switch else { return };
        let mut sink = Collector::default();
        if let Some(flow) = switch.flows(now).choose(&mut rng) {
            let is_on = rng.random();
            if self.trace {
                println!("{now:?} the operator of box {me} protects: {is_on}, {flow:?}");
            }
            switch.set_protection(flow, is_on, now, &mut sink);
        }
        self.emit(me, sink);
    }
}
