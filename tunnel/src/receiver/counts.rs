//! Counts of the receiving end.

use common::histogram::Histogram;

/// Counts of a receiver, in frames unless the field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// Arrived.
    pub arrived: u64,
    /// Delivered.
    pub delivered: u64,
    /// Dropped: received before.
    pub duplicate: u64,
    /// Dropped: there is no such lane, or a number lies outside the window.
    pub outside: u64,
    /// Dropped: given up so long ago that the hosts may have begun anew.
    pub too_late: u64,
    /// Dropped: ACKs behind a newer one of their flow.
    pub superseded: u64,
    /// Of those delivered: after their successors, which had been released.
    pub late: u64,
    /// Of those delivered: before their predecessor, as another frame waits for it, none can wait any
    /// more, or it did not come in time; or with a predecessor that can't be.
    pub unordered: u64,
    /// Of those delivered: ACKs, before an earlier one.
    pub overtook: u64,
    /// Frames that waited for their predecessor.
    pub waited: u64,
    /// Numbers that became missing.
    pub missing: u64,
    /// Of these, arrived behind later ones: they were late, not lost.
    pub overtaken: u64,
    /// Of those overtaken, reported missing before: resent needlessly.
    pub misjudged: u64,
    /// Numbers given up for their age, or for want of room.
    pub given_up: u64,
    /// Numbers that the sender skipped.
    pub skipped: u64,
    /// REPORTs sent.
    pub reports: u64,
    /// PROBEs and SKIPs that name no lane or no possible number.
    pub refused: u64,
    /// Times from when numbers became missing until their frames came.
    pub recovery: Histogram,
    /// Times for which frames waited that are delivered now, by their own lane.
    pub hold: Histogram,
}

impl Received {
    /// Adds the counts of another lane.
    pub(super) fn join(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.delivered += other.delivered;
        self.duplicate += other.duplicate;
        self.outside += other.outside;
        self.too_late += other.too_late;
        self.superseded += other.superseded;
        self.late += other.late;
        self.unordered += other.unordered;
        self.overtook += other.overtook;
        self.waited += other.waited;
        self.missing += other.missing;
        self.overtaken += other.overtaken;
        self.misjudged += other.misjudged;
        self.given_up += other.given_up;
        self.skipped += other.skipped;
        self.reports += other.reports;
        self.refused += other.refused;
        self.recovery.join(&other.recovery);
        self.hold.join(&other.hold);
    }
}
