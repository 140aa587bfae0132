//! What a switch takes of memory: per queue pair, and per packet in flight.
//!
//! The sizes are those of the types themselves, so they follow the code. Frames
//! are not part of them: whoever holds one knows what its pool takes for it.

use common::frame::Frame;
use common::time::Time;

use crate::Role;
use crate::table::{Entry, FlowKey, Id, Stage};

/// Memory in bytes, of a switch for frames of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The flow table's index, per entry: at most, when it has just grown.
    pub index: usize,
    /// An entry of the flow table.
    pub entry: usize,
    /// A flow's state at its Sentry, while nothing is in flight.
    pub sentry_flow: usize,
    /// A flow's state at its Depot, likewise.
    pub depot_flow: usize,
    /// Deadlines of one flow that may be queued at a time. The queue keeps its
    /// room.
    pub timers: usize,
    /// A PSN in flight, at the Sentry, from its first packet until it is
    /// acknowledged.
    pub sentry_slot: usize,
    /// A PSN that waits for its turn at the Depot, or is missing.
    pub depot_slot: usize,
    /// A PSN that went on from the Depot, until it is acknowledged.
    pub backup_slot: usize,
}

/// What [`slab`] puts into its vector.
#[expect(dead_code, reason = "only its size is of interest, and the slab's own is private")]
enum Place<T> {
    Vacant(usize),
    Occupied(T),
}

impl Footprint {
    /// Of a [`Switch<F>`](crate::Switch).
    pub const fn of<F: Frame>() -> Self {
        // A table that has just doubled is 7/16 full, and has a byte of control
        // beside each place.
        let place = size_of::<(FlowKey, Id)>() + 1;
        Self {
            index: (place * 16).div_ceil(7),
            entry: size_of::<Place<Entry<F>>>(),
            sentry_flow: size_of::<Stage<sentry::Flow<F>>>(),
            depot_flow: size_of::<Stage<depot::Flow<F>>>(),
            timers: 2 * size_of::<(Time, Id, u32)>(),
            sentry_slot: sentry::Flow::<F>::SLOT,
            depot_slot: depot::Flow::<F>::SLOT,
            backup_slot: depot::Flow::<F>::BACKUP_SLOT,
        }
    }

    /// The flow table's own, with room for `entries`.
    pub const fn table(&self, entries: u64) -> u64 {
        entries * (self.index + self.entry) as u64
    }

    /// A queue pair with nothing in flight, which had requests in every
    /// direction that the box works for.
    pub const fn idle(&self, role: Role) -> u64 {
        let sentry = if role.is_sentry() { self.sentry_flow + self.timers } else { 0 };
        let depot = if role.is_depot() { self.depot_flow + self.timers } else { 0 };
        // An entry for each direction, whatever goes that way.
        self.table(2) + (sentry + depot) as u64
    }

    /// What a packet takes beside its frame, at most, while it is in flight in
    /// all that the box keeps of it: rings are up to half empty.
    pub const fn per_packet(&self, role: Role) -> u64 {
        let sentry = if role.is_sentry() { self.sentry_slot } else { 0 };
        let depot = if role.is_depot() { self.depot_slot + self.backup_slot } else { 0 };
        2 * (sentry + depot) as u64
    }

    /// A queue pair with `in_flight` packets each way, beside their frames, at
    /// most.
    pub const fn active(&self, role: Role, in_flight: u64) -> u64 {
        self.idle(role) + in_flight * self.per_packet(role)
    }
}
