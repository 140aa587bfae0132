//! Models of other boxes, to compare the product with.
//!
//! The papers' own code is not used. The module of each model, and
//! `docs/simulator.md`, say which properties of the original it keeps and leaves out.

pub mod conweave;
pub mod irn;
mod marks;
pub mod netrt;
pub mod paper;
pub mod selective;
pub mod slr;
pub mod uet;

use common::frame::{Class, Packet, Side, Sink};
use common::psn::Seq;
use common::time::Time;
use common::wire::{Addr, Qpn, Response, Roce, Verdict};

use crate::frame::SimFrame;
use crate::node::{Egress, Middlebox};
use crate::results::Pools;

/// The box of a peer.
pub trait Peer {
    /// A frame has arrived on `side`.
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut impl Ports);

    /// When [`timers`](Self::timers) has something to do.
    fn next(&self) -> Time {
        Time::NEVER
    }

    /// That time has come.
    fn timers(&mut self, _now: Time, _out: &mut impl Ports) {}

    /// Bytes that it holds now.
    fn held(&self) -> Pools {
        Pools::default()
    }
}

/// The ports of a [`Peer`]: a gateway's, or a record of a test.
pub trait Ports: Sink<Frame = SimFrame> {
    /// Sends a frame.
    fn send(&mut self, side: Side, class: Class, frame: SimFrame) {
        self.transmit(side, class, Packet::Owned(frame));
    }
}

impl<S: Sink<Frame = SimFrame>> Ports for S {}

impl<P: Peer> Middlebox for P {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress) {
        Peer::receive(self, side, frame, now, out);
    }

    fn next(&self) -> Time {
        Peer::next(self)
    }

    fn timers(&mut self, now: Time, out: &mut Egress) {
        Peer::timers(self, now, out);
    }

    fn held(&self) -> Pools {
        Peer::held(self)
    }
}

/// Direction of a queue pair: who it goes to, and to which QPN.
type Key = (Addr, Qpn);

/// Hashes the same on every run.
type Map<V> = hashbrown::HashMap<Key, V, foldhash::fast::FixedState>;

/// The flow of a request.
const fn flow(roce: &Roce) -> Key {
    (roce.dst, roce.dest_qpn)
}

/// The flow whose requests a response speaks of. The simulator numbers the two
/// ends of a queue pair 2n and 2n + 1, so that these models need not be told
/// which belong together: how their originals find out is not known.
const fn answered(roce: &Roce) -> Key {
    (roce.src, partner(roce.dest_qpn))
}

/// The other end's number of a queue pair.
const fn partner(qpn: Qpn) -> Qpn {
    Qpn::new(qpn.get() ^ 1)
}

/// Packets that were delivered and are not acknowledged, with rising PSNs.
type Backup = std::collections::VecDeque<(Seq, SimFrame)>;

/// Removes packets that `response` acknowledges, `near` which its PSN is, and calls `freed`
/// with each. Returns whether it is a NAK for the oldest packet that remains.
fn acknowledge(
    backup: &mut Backup,
    response: &Response,
    near: Seq,
    mut freed: impl FnMut(&SimFrame),
) -> bool {
    let seq = response.psn.unwrap_near(near);
    let acked = if response.is_nak() { seq } else { seq.next() };
    while let Some((_, frame)) = backup.pop_front_if(|(oldest, _)| *oldest < acked) {
        freed(&frame);
    }
    let has_it = backup.front().is_some_and(|(oldest, _)| *oldest == seq);
    response.verdict == Verdict::Missing && has_it
}
