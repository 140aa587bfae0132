//! The packets in flight: the slots that they have, and the gaps between them.

use common::frame::Frame;
use common::metrics::Metric;
use common::psn::Seq;

use crate::cache::release;
use crate::filter::Pass;
use crate::slot::{self, Slot};
use crate::{Actions, Context, Flow};

/// Slots that a flow takes at first.
const LOT: u32 = 16;

impl<F: Frame> Flow<F> {
    /// Empties the window; a pass has nothing to go on.
    pub(crate) fn clear_window<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let end = self.window.end();
        self.window.drain_before(end, |_, slot| release(cx, slot.handle));
        self.gaps.clear();
        cx.cache.give_slots(core::mem::take(&mut self.granted));
        self.window.skip_to(self.next);
        self.released = self.next;
        self.kept.clear();
        self.pass = Pass::new(self.next);
    }

    /// Gives `next` its slot and moves on.
    pub(crate) fn track<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, slot: Slot<F::Shared>) {
        self.next = self.next.next();
        if self.discovery.tracks() && self.has_slot(cx) {
            self.window.push(slot);
            self.bound(cx);
        } else {
            let end = self.window.end();
            self.trim(cx, end);
            self.window.skip_to(self.next);
            self.released = self.next;
            release(cx, slot.handle);
        }
    }

    /// The packets from `next` to before `seq` were lost on their way here.
    pub(crate) fn lose<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq, needed: bool) {
        if self.discovery.tracks() {
            self.gaps.open(self.next, seq, needed);
            if needed {
                self.pass.need_all(self.next, seq);
            }
        }
        self.next = seq;
        self.extend(cx);
    }

    /// Makes room up to `next`, for packets that have none of their own.
    pub(crate) fn extend<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.discovery.tracks() {
            self.window.extend_to(self.next);
            self.bound(cx);
        } else {
            self.window.skip_to(self.next);
            self.released = self.next;
        }
    }

    /// Makes sure that there is a slot for one more packet. Where the worker has none to
    /// give, the flow's oldest slot is freed; false if it has none either (R-PSN-4).
    fn has_slot<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> bool {
        if self.window.filled() < self.granted as usize {
            return true;
        }
        let most = u32::try_from(cx.config.window_max).unwrap_or(u32::MAX);
        // Twice as many as before: it is asked seldom.
        let more = self.granted.max(LOT).min(most - self.granted.min(most));
        if more > 0 && cx.cache.take_slots(more, self.granted) {
            self.granted += more;
        } else if let Some(oldest) = self.window.first_from(self.window.start()) {
            cx.out.count(Metric::SentrySlotsFull, 1);
            self.trim(cx, oldest.next());
        }
        self.window.filled() < self.granted as usize
    }

    /// Gives up the slots that no packet needs; how many these are. To be called when the
    /// flow has been idle for a while.
    pub fn spare_slots(&mut self) -> u32 {
        let kept = (self.window.filled() as u32).min(self.granted);
        core::mem::replace(&mut self.granted, kept) - kept
    }

    /// Slots that are too far behind are freed, oldest first.
    fn bound<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let beyond = (self.window.len() as u64).saturating_sub(cx.config.window_max);
        if beyond > 0 {
            self.trim(cx, self.window.start() + beyond);
        }
    }

    /// The slot of `seq`, or of the READ request that it belongs to.
    #[inline]
    pub(crate) fn slot_of(&self, seq: Seq) -> Option<(Seq, &Slot<F::Shared>)> {
        match self.window.get(seq) {
            Some(slot) => Some((seq, slot)),
            None => self.slot_before(seq),
        }
    }

    /// The slot of the READ request that `seq`, which has none, belongs to.
    fn slot_before(&self, seq: Seq) -> Option<(Seq, &Slot<F::Shared>)> {
        let is_within = seq >= self.window.start() && seq < self.next;
        let slot = self.window.last_to(seq).filter(|_| is_within);
        slot.filter(|_| self.gaps.get(seq).is_none())
    }

    /// Whether `seq` was asked for, and no copy of it has left since.
    #[inline]
    pub(crate) fn is_needed(&self, seq: Seq) -> bool {
        match self.window.get(seq) {
            Some(slot) => slot.has(slot::NEEDED),
            None => self.gaps.get(seq) == Some(true),
        }
    }

    /// Whether an ACK may be made for `seq`: it is known to be a SEND or WRITE packet. An ACK with the PSN of a READ or an atomic
    /// would complete that without its data, even if its response is under way or has been lost on the source's LAN (R-ACK-4).
    pub(crate) fn may_be_acked(&self, seq: Seq) -> bool {
        let slot = self.window.get(seq);
        slot.is_some_and(|slot| !slot.is_unsent() && !slot.has(slot::FETCHES))
    }

    /// A packet of a gap came: from now on it has a slot.
    pub(crate) fn fill_gap(&mut self, seq: Seq) {
        if self.window.filled() < self.granted as usize
            && let Some(needed) = self.gaps.take(seq)
        {
            self.window.put(seq, Slot::unsent(needed));
        }
    }

    /// Drops the slots before `floor`.
    pub(crate) fn trim<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, floor: Seq) {
        self.trim_slots(cx, floor);
        if !self.gaps.is_empty() {
            self.pass.meet(self.gaps.trim(floor) as u32);
        }
    }

    /// The same, of a flow without gaps.
    #[inline]
    pub(crate) fn trim_slots<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, floor: Seq) {
        // Counted here, so that a flow of which none is needed has nothing read of its pass.
        let mut met = 0;
        self.window.drain_before(floor, |_, slot| {
            met += u32::from(slot.has(slot::NEEDED));
            release(cx, slot.handle);
        });
        if met > 0 {
            self.pass.meet(met);
        }
        self.released = self.released.max(self.window.start());
    }
}
