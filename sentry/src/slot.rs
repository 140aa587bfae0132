//! State of one PSN in flight.

use common::frame::Kept;
use common::time::Time;
use common::wire::Identity;

/// It left more than once.
pub(crate) const RESENT: u8 = 1;
/// The Depot asked for it and nothing was sent yet.
pub(crate) const NEEDED: u8 = 2;
/// The newest copy that was kept or sent asks for an ACK.
pub(crate) const ACK_REQ: u8 = 4;
/// It is a READ or an atomic: a response answers it, not an ACK.
pub(crate) const FETCHES: u8 = 8;
/// State of one PSN in flight.
pub(crate) struct Slot<S> {
    /// When its newest copy left for the Depot; [`Time::ZERO`] if none did.
    pub sent: Time,
    /// The packet's identity. Of no meaning if none left.
    pub identity: Identity,
    /// The NAK round in which the filter let it through; 0 for none.
    pub round: u8,
    marks: u8,
    /// The packet itself, and its length, so that freeing it
    /// does not read it.
    pub handle: Option<Kept<S>>,
}

impl<S> Slot<S> {
    #[inline]
    pub fn new(sent: Time, identity: Identity, ack_req: bool, handle: Option<Kept<S>>) -> Self {
        let marks = if ack_req { ACK_REQ } else { 0 };
        Self { sent, identity, round: 0, marks, handle }
    }

    /// One of which no copy has left, and that is needed or not.
    pub fn unsent(is_needed: bool) -> Self {
        let marks = if is_needed { NEEDED } else { 0 };
        Self { marks, ..Self::new(Time::ZERO, Identity::default(), false, None) }
    }

    /// Whether it has any of `marks`.
    pub fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    pub fn mark(&mut self, marks: u8) {
        self.marks |= marks;
    }

    /// Takes a mark off. Whether it was there.
    pub fn unmark(&mut self, mark: u8) -> bool {
        let had = self.has(mark);
        self.marks &= !mark;
        had
    }

    /// No copy of it has left for the Depot.
    pub fn is_unsent(&self) -> bool {
        self.sent == Time::ZERO
    }
}
