//! The box in a gateway: the product's switch, that of a peer, or none.

use arrayvec::ArrayVec;
use common::frame::{Class, Packet, Side, Sink};
use common::metrics::Counters;
use common::time::Time;

use super::egress::Egress;
use crate::frame::{SimFrame, SimPool};
use crate::results::{Pools, TunnelUse};

/// Timers run at a time: more than are ever due.
const TIMERS: usize = 1 << 20;

/// A box in a gateway, between a port towards the hosts and one towards the
/// long-haul link. Time comes as an argument; frames that leave are
/// [transmitted](Sink::transmit).
pub trait Middlebox {
    /// A frame has arrived on `side`.
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress);

    /// A frame has arrived at the WAN port of that number, from 0 on.
    fn receive_wan(&mut self, _port: usize, frame: SimFrame, now: Time, out: &mut Egress) {
        self.receive(Side::Wan, frame, now, out);
    }

    /// When [`timers`](Self::timers) has something to do.
    fn next(&self) -> Time {
        Time::NEVER
    }

    /// That time has come.
    fn timers(&mut self, _now: Time, _out: &mut Egress) {}

    /// Is called every few milliseconds.
    fn housekeeping(&mut self, _now: Time, _out: &mut Egress) {}

    /// Bytes that it holds now.
    fn held(&self) -> Pools {
        Pools::default()
    }

    /// The counters of a box that is the product's.
    fn counters(&self) -> Option<&Counters> {
        None
    }

    /// The counts of a box that is an end of a tunnel.
    fn tunnel(&self) -> TunnelUse {
        TunnelUse::default()
    }

    /// Whether there is no box at all, so that no queue of its serves flows in turn.
    fn is_wire(&self) -> bool {
        false
    }

    /// Checks the box's books, if it keeps any: so many frames have arrived, and so many
    /// were transmitted.
    ///
    /// # Panics
    /// If a frame is unaccounted for.
    fn check(&self, _arrived: u64, _transmitted: u64) {}
}

/// Lets everything pass.
pub struct Wire;

impl Middlebox for Wire {
    fn receive(&mut self, side: Side, frame: SimFrame, _: Time, out: &mut Egress) {
        out.transmit(side.other(), Class::Data, Packet::Owned(frame));
    }

    fn is_wire(&self) -> bool {
        true
    }

    fn check(&self, arrived: u64, transmitted: u64) {
        assert_eq!(arrived, transmitted, "a wire's books");
    }
}

impl Middlebox for switch::Switch<SimFrame> {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress) {
        let mut burst = ArrayVec::<SimFrame, 1>::new();
        burst.push(frame);
        self.burst(side, &mut burst, now, &mut SimPool, out);
    }

    fn next(&self) -> Time {
        self.next_deadline()
    }

    fn timers(&mut self, now: Time, out: &mut Egress) {
        Self::timers(self, now, TIMERS, &mut SimPool, out);
    }

    fn housekeeping(&mut self, now: Time, out: &mut Egress) {
        Self::housekeeping(self, now, &mut SimPool, out);
    }

    fn held(&self) -> Pools {
        let switch::HeldBytes { reorder, backup, cache } = self.held_bytes();
        Pools { reorder_bytes: reorder, backup_bytes: backup, cache_bytes: cache }
    }

    fn counters(&self) -> Option<&Counters> {
        Some(Self::counters(self))
    }

    fn check(&self, arrived: u64, transmitted: u64) {
        let counters = Self::counters(self);
        let family = |name| counters.family(name);
        assert_eq!(family("lr2_received_frames_total"), arrived, "what a gateway received");
        assert_eq!(family("lr2_transmitted_frames_total"), transmitted, "what it sent");
        assert_eq!(counters.entered(), counters.left() + Self::held(self), "its own books");
    }
}
