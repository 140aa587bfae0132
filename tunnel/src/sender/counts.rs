//! The counts of a sender.

use common::histogram::Histogram;

/// Counts of a sender, in frames unless the field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// Sent for the first time.
    pub frames: u64,
    /// Of these, not kept: the cache was full, or there was no memory.
    pub not_kept: u64,
    /// Handles released: the frame arrived, or is not resent.
    pub released: u64,
    /// Transmissions that were lost.
    pub lost: u64,
    /// Sent again.
    pub resent: u64,
    /// Of these, because a retransmission was lost.
    pub resent_again: u64,
    /// Of those resent, because their lane became suspect.
    pub moved: u64,
    /// REPORTs on which frames of several gaps were sent again together.
    pub aggregated: u64,
    /// Lost and not resent: not kept, without memory, or one of the next three.
    pub skipped: u64,
    /// Of these, beyond the share of retransmissions.
    pub skipped_beyond: u64,
    /// Of these, resent as often or for as long as any frame is.
    pub skipped_old: u64,
    /// Of these, of flows whose resends are all lost.
    pub skipped_refused: u64,
    /// PROBEs.
    pub probes: u64,
    /// REPORTs that were taken.
    pub reports: u64,
    /// REPORTs that speak of what was never sent.
    pub refused: u64,
    /// Times that a lane became suspect.
    pub suspected: u64,
    /// Frames that arrived with a mark of the path, as REPORTs have them.
    pub marked: u64,
    /// Round trips that were measured.
    pub round_trips: Histogram,
}

impl Sent {
    /// Adds the counts of another lane.
    pub(super) fn join(&mut self, other: &Self) {
        self.frames += other.frames;
        self.not_kept += other.not_kept;
        self.released += other.released;
        self.lost += other.lost;
        self.resent += other.resent;
        self.aggregated += other.aggregated;
        self.resent_again += other.resent_again;
        self.moved += other.moved;
        self.skipped += other.skipped;
        self.skipped_beyond += other.skipped_beyond;
        self.skipped_old += other.skipped_old;
        self.skipped_refused += other.skipped_refused;
        self.probes += other.probes;
        self.reports += other.reports;
        self.refused += other.refused;
        self.suspected += other.suspected;
        self.marked += other.marked;
        self.round_trips.join(&other.round_trips);
    }
}
