//! Timers and a pool that change while frames wait. R-TUN-60

use common::time::Time;

use super::{Receiver, ReceiverConfig};
use crate::tuning::Tuning;

/// The pool before it was made smaller the last time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shrunk {
    /// When that was.
    at: Time,
    /// Frames that might wait until then.
    from: usize,
}

impl<F> Receiver<F> {
    /// Works by other timers and another pool from now on, and puts them into `config`. Gaps that are older than a shorter
    /// `give_up` are due at once. A smaller pool takes as many frames as before until those have left that wait now: no gap
    /// is given up for the change. R-TUN-60
    pub fn retune(&mut self, config: &mut ReceiverConfig, now: Time, tuning: &Tuning) {
        let waiting_max = tuning.waiting_max.min(config.waiting_room);
        if waiting_max < config.waiting_max {
            self.shrunk = Shrunk { at: now, from: self.waiting_max(config) };
        }
        config.waiting_max = waiting_max;
        config.give_up = tuning.give_up;
        config.report_interval = tuning.report_interval;
        config.tolerance = tuning.tolerance;
    }

    /// Frames that may wait at present.
    fn waiting_max(&self, config: &ReceiverConfig) -> usize {
        match self.waiting.oldest() {
            Some((since, _)) if since <= self.shrunk.at => self.shrunk.from.max(config.waiting_max),
            _ => config.waiting_max,
        }
    }

    /// Whether one more frame may wait.
    #[inline]
    pub(super) fn has_room(&self, config: &ReceiverConfig) -> bool {
        let len = self.waiting.len();
        len < config.waiting_max || len < self.waiting_max(config)
    }

    /// Whether the frames that wait fit into the pool, and no more than that may wait.
    pub fn fits(&self, config: &ReceiverConfig) -> bool {
        self.waiting.len().max(self.waiting_max(config)) <= config.waiting_max
    }
}
