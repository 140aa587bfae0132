//! Copies of retransmissions on other lanes.
//!
//! A lost retransmission costs another round trip, in which all later frames of its flow wait. Where a link loses much, a
//! second transmission on another lane makes that rare. As LinkGuardian (SIGCOMM 2023), which sends several copies at once.

use std::collections::VecDeque;

use common::time::Time;

use super::age::Age;
use super::{Health, Recover, Sender, SenderConfig, Sent};
use crate::number::{FrameId, Lane};
use crate::shim::Shim;

/// The share of losses is taken over so many frames, or twice as many.
const RECENT: u64 = 1 << 13;
/// One frame in so many has to be lost for copies to be sent.
const ONE_IN: u64 = 1_000;

/// Copies of which nothing is reported, at most.
const PAIRS: usize = 1 << 12;

/// Whether copies are sent, and what became of them.
#[derive(Debug)]
pub(super) struct Copies {
    is_on: bool,
    /// Frames sent and transmissions lost so far, as of some time ago and of more recently.
    then: [(u64, u64); 2],
    is_lossy: bool,
    /// Retransmissions and their copies of which nothing is reported, the oldest first.
    pairs: VecDeque<(FrameId, FrameId)>,
    /// For the time of one call: transmissions without a handle that arrived, by frame or by what they are a copy of.
    pub arrived: Vec<FrameId>,
}

impl Copies {
    pub fn new(config: &SenderConfig, counts: &Sent) -> Self {
        let is_on = config.resend_copies > 1 && config.lanes > 1;
        let pairs = VecDeque::with_capacity(if is_on { PAIRS } else { 0 });
        Self {
            is_on,
            then: [(counts.frames, counts.lost); 2],
            is_lossy: false,
            pairs,
            arrived: Vec::new(),
        }
    }

    /// Sends copies from now on, or no more.
    pub fn set(&mut self, config: &SenderConfig) {
        self.is_on = config.resend_copies > 1 && config.lanes > 1;
        if self.is_on {
            self.pairs.reserve(PAIRS.saturating_sub(self.pairs.len()));
        }
    }

    /// So many frames were sent, and so many transmissions lost, in all.
    pub fn look(&mut self, frames: u64, lost: u64) {
        let [(frames_then, lost_then), newer] = self.then;
        self.is_lossy = (lost - lost_then) * ONE_IN > frames - frames_then;
        if frames - newer.0 >= RECENT {
            self.then = [newer, (frames, lost)];
        }
    }

    fn are_due(&self) -> bool {
        self.is_on && self.is_lossy && self.pairs.len() < PAIRS
    }

    /// Forgets that `sent` has a copy, and returns which.
    fn part(&mut self, sent: FrameId) -> Option<FrameId> {
        // REPORTs come in the order of transmissions, so that it is one of the first.
        let at = self.pairs.iter().position(|(first, _)| *first == sent)?;
        self.pairs.remove(at).map(|(_, copy)| copy)
    }
}

impl<K> Sender<K> {
    /// Sends a copy of retransmission `sent` on another lane, if that is worth it. R-TUN-34
    pub(super) fn copy<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        sent: FrameId,
        shim: &Shim,
        kept: &K,
        out: &mut T,
    ) {
        // Where the network has queues, it may lose for want of room.
        let is_queued = |lane: Lane| self.lanes[lane.index()].delivery.is_queued();
        if !self.copies.are_due() || is_queued(sent.lane()) {
            return;
        }
        let is_good =
            |lane: Lane| self.lanes[lane.index()].health == Health::Good && !is_queued(lane);
        let Some(lane) = self.spray.choose_other(sent.lane(), is_good) else { return };
        let state = &mut self.lanes[lane.index()];
        let copy = FrameId::new(lane, state.next());
        let shim = Shim { lane, number: copy.number().wire(), ..*shim };
        if out.resend(&shim, kept) {
            state.counts.resent += 1;
            state.push(now, sent, None, Age::default());
            self.copies.pairs.push_back((sent, copy));
        }
    }

    /// Retransmission `lost` of frame `id` is lost. If nothing is reported of its copy, that takes its place.
    pub(super) fn leave_to_copy(
        &mut self,
        lost: FrameId,
        frame: (FrameId, Age),
        kept: K,
    ) -> Result<(), K> {
        let Some(copy) = self.copies.part(lost) else { return Err(kept) };
        // From a lane that fails, frames have been moved already: this one would be stuck there.
        if !self.is_good(copy.lane()) {
            return Err(kept);
        }
        self.lanes[copy.lane().index()].replace(copy.number(), lost, frame, kept)
    }

    /// The copy of retransmission `sent` is lost.
    pub(super) fn lose_copy(&mut self, sent: FrameId) {
        self.copies.part(sent);
    }

    /// Frees the handles of transmissions whose copies have arrived.
    pub(super) fn settle_copied<T: Recover<Kept = K>>(&mut self, out: &mut T) {
        while let Some(sent) = self.copies.arrived.pop() {
            // Of a frame that was not kept, it is the frame itself.
            if self.copies.part(sent).is_none() {
                continue;
            }
            let state = &mut self.lanes[sent.lane().index()];
            if let Some(kept) = state.handle(sent.number()).and_then(Option::take) {
                state.counts.released += 1;
                self.kept -= 1;
                out.release(kept);
            }
        }
    }
}
