//! One direction of a link: from a port through the engine to the other port.

use arrayvec::ArrayVec;
use common::frame::{Frame, Pool};
use common::time::{Span, Time};
use dpdk_sys_wrapper::{Clock, Mbuf, RxQueue, SharedMbuf, TxQueue};

use super::report::Punctuality;
use crate::dpdk::BURST;
use link::{Counters, Direction, Receipt};

/// Frames taken from a port before anything else gets its turn. They are
/// thought to have arrived evenly since the last poll, so it is as many as can
/// arrive while the program is without a CPU for some milliseconds.
const INTAKE: usize = 256;

/// A port to take from, the engine, the port to give to.
pub(super) struct Way {
    pub rx: RxQueue,
    pub tx: TxQueue,
    direction: Direction<Mbuf>,
    intake: ArrayVec<Mbuf, INTAKE>,
    last_poll: Time,
    /// Due and not yet taken by the port, with their pending counts.
    outgoing: ArrayVec<SharedMbuf, BURST>,
    receipts: ArrayVec<Receipt, BURST>,
    /// Since when the port has not taken anything offered to it.
    refusing_since: Option<Time>,
    /// How long it may do so.
    patience: Span,
}

impl Way {
    pub fn new(
        rx: RxQueue,
        tx: TxQueue,
        direction: Direction<Mbuf>,
        now: Time,
        patience: Span,
    ) -> Self {
        Self {
            rx,
            tx,
            direction,
            intake: ArrayVec::new(),
            last_poll: now,
            outgoing: ArrayVec::new(),
            receipts: ArrayVec::new(),
            refusing_since: None,
            patience,
        }
    }

    /// Takes all that has arrived since the last poll. Returns whether there
    /// was anything.
    ///
    /// A port doesn't tell when a frame arrived. With all stamped `now`, a
    /// line would seem to have been idle while this program was not looking,
    /// and carry less than its rate; evenly spread stamps are wrong by no more
    /// than the gap, and right on average.
    pub fn take_in<P: Pool<Frame = Mbuf>>(
        &mut self,
        clock: &Clock,
        copies: &mut P,
        punctuality: &mut Punctuality,
    ) -> bool {
        while self.intake.remaining_capacity() >= BURST {
            let mut burst = ArrayVec::<Mbuf, BURST>::new();
            let received = self.rx.burst(&mut burst);
            self.intake.extend(burst);
            if received < BURST {
                break;
            }
        }
        // Not before: the program may have lost its CPU since it last looked.
        let now = clock.now();
        let gap = now.since(self.last_poll);
        let frames = self.intake.len() as u64;
        if frames > 0 {
            punctuality.poll_gap.record(gap.as_nanos(), frames);
        }
        for (n, frame) in self.intake.drain(..).enumerate() {
            let arrived = self.last_poll + gap.scale(n as u64 + 1, frames);
            self.direction.offer(frame, arrived, now, copies);
        }
        self.last_poll = now;
        frames > 0
    }

    /// Sends due frames. Returns whether there were any.
    pub fn forward_due(&mut self, clock: &Clock, punctuality: &mut Punctuality) -> bool {
        let now = clock.now();
        let mut worked = false;
        loop {
            while !self.outgoing.is_full()
                && let Some((frame, receipt)) = self.direction.pop_due(now)
            {
                self.outgoing.push(frame.share());
                self.receipts.push(receipt);
            }
            if self.outgoing.is_empty() {
                return worked;
            }
            let sent = self.tx.burst(&mut self.outgoing);
            let done = clock.now();
            for receipt in self.receipts.drain(..sent) {
                punctuality.lateness.record(done.since(receipt.due).as_nanos(), 1);
                self.direction.delivered(receipt);
            }
            if !self.outgoing.is_empty() {
                self.refused(sent, now);
                return worked || sent > 0;
            }
            self.refusing_since = None;
            worked = true;
        }
    }

    /// The port took `sent` frames and left some. They are offered again until
    /// it has taken none for too long: then they are lost, like all that
    /// follow until it takes one.
    fn refused(&mut self, sent: usize, now: Time) {
        let since = *self.refusing_since.get_or_insert(now);
        if sent > 0 {
            self.refusing_since = Some(now);
        } else if now.since(since) >= self.patience {
            self.outgoing.clear();
            for receipt in self.receipts.drain(..) {
                self.direction.refused(receipt);
            }
        }
    }

    pub fn counters(&self) -> &Counters {
        self.direction.counters()
    }

    pub fn next_due(&self) -> Time {
        // Refused frames are offered again at no set time; the longest nap will do.
        if self.outgoing.is_empty() { self.direction.next_due() } else { Time::NEVER }
    }
}
