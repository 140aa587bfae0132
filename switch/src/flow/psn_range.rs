//! Which PSNs of a flow have arrived, and which responses they allow.

use common::psn::{Psn, Seq};

/// Most PSNs of one flow that may be in flight: 400 Gbit/s × 40 ms of 4 KiB
/// packets, or 100 Gbit/s × 40 ms of 1 KiB.
pub(crate) const WINDOW_MAX: u64 = 1 << 19;

/// Responses to packets that lie further back are not matched.
const REMEMBERED: u64 = 1 << 22;
/// A PSN this far from the others is of another incarnation of the queue pair; a READ
/// takes some by itself.
const LEAP: u64 = 2 * WINDOW_MAX;
/// A response of a stream whose flow is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseInfo {
    pub psn: Psn,
    /// It asks for `psn`, rather than acknowledging it.
    pub is_nak: bool,
    pub src_port: u16,
}

/// The PSNs of a flow's requests that have arrived at this box. In as little room as it
/// takes: it is in the first cache line of a flow.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct PsnRange {
    first: Seq,
    end: Seq,
    /// The newest request.
    pub newest: Psn,
}

impl PsnRange {
    /// None yet; `psn` is where they will begin.
    pub fn none(psn: Psn) -> Self {
        let first = Seq::first(psn);
        Self { first, end: first, newest: psn }
    }

    /// The next packet arrived, which takes one PSN. False, and no change, if it is
    /// another.
    #[inline]
    pub fn follow(&mut self, psn: Psn) -> bool {
        let is_next = psn == self.end.psn();
        if is_next {
            self.end = self.end.next();
            self.newest = psn;
        }
        is_next
    }

    /// A request arrived that takes `count` PSNs from `psn` on. Returns whether
    /// it leapt: whether these are the PSNs of another incarnation.
    pub fn add(&mut self, psn: Psn, count: u32) -> bool {
        let seq = psn.unwrap_near(self.end);
        let leapt = seq.since(self.end).max(self.end.since(seq)) > LEAP;
        if leapt {
            *self = Self::none(psn);
        }
        let seq = psn.unwrap_near(self.end);
        self.first = self.first.min(seq);
        self.end = self.end.max(seq + u64::from(count));
        self.newest = psn;
        leapt
    }

    /// Whether no more than one packet has arrived.
    pub fn is_of_one(&self) -> bool {
        let Self { first, end, .. } = *self;
        end.since(first) <= 1
    }

    /// Whether a request with this PSN is new and not the next.
    pub fn is_ahead(&self, psn: Psn) -> bool {
        psn.unwrap_near(self.end) > { self.end }
    }

    /// Another incarnation begins at `psn`. Packets that have overtaken its announcement have
    /// arrived all the same.
    pub fn reset(&mut self, psn: Psn) {
        let first = psn.unwrap_near(self.end);
        if first.since(self.end).max(self.end.since(first)) > WINDOW_MAX {
            *self = Self::none(psn);
        } else {
            (self.first, self.end) = (first, self.end.max(first));
        }
    }

    /// Whether the destination may send this response.
    pub fn may_be_answered(&self, response: &ResponseInfo) -> bool {
        let seq = response.psn.unwrap_near(self.end);
        let oldest = self.first.max(self.end - REMEMBERED) - WINDOW_MAX;
        // A NAK may ask for the very next packet.
        let end = if response.is_nak { self.end.next() } else { self.end };
        oldest <= seq && seq < end
    }

    /// Whether it answers a packet that was seen: a PSN before those may as well be another
    /// flow's.
    pub fn is_answered(&self, response: &ResponseInfo) -> bool {
        let Self { first, end, .. } = *self;
        response.psn.unwrap_near(end) >= first
    }
}
