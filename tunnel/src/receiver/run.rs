//! Frames that arrive in order on a lane on which nothing is missing: of a burst, they are taken together.

use super::Receiver;
use crate::number::{Lane, Session};
use crate::shim::{self, Next};

/// First transmissions that arrive one behind the other, each of which can be delivered at once.
#[derive(Debug)]
pub(crate) struct Run {
    lane: Lane,
    next: Next,
    count: u64,
}

impl Run {
    /// Whether a frame with this shim is the next one. Then it belongs to the run.
    #[inline(always)]
    pub fn takes(&mut self, shim: &[u8; shim::LEN]) -> bool {
        let is_next = self.next.is(shim);
        if is_next {
            self.next.number.0 = self.next.number.0.wrapping_add(1);
            self.count += 1;
        }
        is_next
    }

    /// The lane.
    pub const fn lane(&self) -> Lane {
        self.lane
    }

    /// Frames so far.
    pub const fn count(&self) -> u64 {
        self.count
    }
}

impl<F> Receiver<F> {
    /// A run of frames on a lane on which nothing is missing or waits; `None`, if there is no such lane. R-TUN-6
    #[inline]
    pub(crate) fn begin_run(&self, lane: Lane, session: Session) -> Option<Run> {
        let state = self.lanes.get(lane.index()).filter(|lane| lane.is_calm())?;
        let next = Next::new(lane, session, state.next.wire());
        self.waiting.is_empty().then_some(Run { lane, next, count: 0 })
    }

    /// The frames of a run were delivered.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &Run) {
        let Some(lane) = self.lanes.get_mut(run.lane.index()) else { return };
        lane.counts.arrived += run.count;
        lane.counts.delivered += run.count;
        lane.next += run.count;
        lane.floor = lane.next;
        lane.has_news = true;
    }
}
