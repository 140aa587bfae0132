//! Pacing of frames that were held behind a gap.
//!
//! A lost frame holds up a round trip of frames of its flow. Delivered all at once when it arrives, they would be a burst
//! at the rate of the LAN, which switches take for congestion. So each is delivered about as long after the one before
//! as it arrived after it, later by a *lag* that shrinks. The frames that are still held are unsettled, so that later
//! ones of their flow wait for them as for any predecessor.

use core::cmp::Reverse;
use core::mem;
use std::collections::binary_heap::PeekMut;

use common::time::{Span, Time};

use super::{Deliver, Receiver, ReceiverConfig};
use crate::number::FrameId;

/// Frames that were held for less are delivered at once.
const LEAST: Span = Span::from_micros(50);
/// By how much a frame may leave too early: frames leave in small groups, each of which costs two look-ups and a step of the
/// heap.
const SLACK: Span = Span::from_micros(20);
/// The part of the time that passes by which a lag shrinks.
const CATCH_UP: u64 = 8;
/// A part of the time between two REPORTs. A longer silence of a flow is cut to this.
const SILENCE: u64 = 4;

/// Frames of a flow that are held, and may be delivered one by one. Chains are in the order in which they are due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Chain {
    /// When the first one is delivered.
    pub due: Time,
    /// Its predecessor, which is settled.
    before: FrameId,
    /// How late they are.
    lag: Span,
    /// When the newest delivered one arrived.
    newest: Time,
}

impl Chain {
    /// The next frame arrived at `at`.
    fn advance(&mut self, at: Time, silence: Span) {
        let step = at.since(self.newest);
        let spacing = step.min(silence);
        self.lag = self.lag - spacing / CATCH_UP - (step - spacing);
        self.newest = self.newest.max(at);
        self.due = at + self.lag;
    }
}

impl<F> Receiver<F> {
    /// Frame `before` is settled: delivers the frames that wait for it, each in its time. R-TUN-40
    pub(super) fn resume<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        before: FrameId,
        out: &mut D,
    ) {
        let Some((_, since, _)) = self.waiting.seek(before) else { return };
        // No frame is held for so long that it would be given up.
        let lag = now.since(since).min(config.give_up / 2);
        if lag < LEAST || !config.is_paced {
            return self.release(now, before, out);
        }
        let mut chain = Chain { due: now, before, lag, newest: since };
        if self.proceed(config, now, &mut chain, out) {
            self.paced.push(Reverse(chain));
        }
    }

    /// Delivers the frames of a chain that are due. Whether there are others.
    fn proceed<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        chain: &mut Chain,
        out: &mut D,
    ) -> bool {
        while let Some((seat, since, has_frame)) = self.waiting.seek(chain.before) {
            chain.advance(since, config.report_interval / SILENCE);
            if has_frame && chain.due > now + SLACK && self.may_pace(config) {
                return true;
            }
            let Some(id) = self.release_at(seat, now.since(since), out) else { break };
            chain.before = id;
        }
        false
    }

    /// Whether there is room to hold more frames than those behind gaps.
    pub(super) fn may_pace(&self, config: &ReceiverConfig) -> bool {
        self.waiting.len() < config.waiting_max / 2
    }

    /// When a chain is due.
    pub(super) fn paced_due(&self) -> Time {
        self.paced.peek().map_or(Time::NEVER, |Reverse(chain)| chain.due)
    }

    /// Delivers the frames of all chains that are due.
    pub(super) fn deliver_due<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        out: &mut D,
    ) {
        if self.paced_due() > now {
            return;
        }
        // No chain begins meanwhile. One that goes on takes a step of the heap, and not two.
        let mut paced = mem::take(&mut self.paced);
        while let Some(mut first) = paced.peek_mut().filter(|first| first.0.due <= now) {
            if !self.proceed(config, now, &mut first.0, out) {
                PeekMut::pop(first);
            }
        }
        self.paced = paced;
    }

    /// Delivers the frames of all chains at once: frames behind a gap that is given up must not overtake them.
    pub(super) fn deliver_all<D: Deliver<F>>(&mut self, now: Time, out: &mut D) {
        while let Some(Reverse(chain)) = self.paced.pop() {
            self.release(now, chain.before, out);
        }
    }
}
