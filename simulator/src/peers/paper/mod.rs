//! LR2 as published, for Tofino switches and RNICs that know a switch's NAK.
//!
//! The model follows a digest of the paper, whose text and code are not at
//! hand: a Sentry that reports gaps before it at once and filters the repeats of
//! a rewind by a bitmap; a Depot that holds early packets, names each gap
//! once, in a Depot-NACK that the Sentry hands to the source, and repairs loss
//! behind it from a small pool of packets not yet acknowledged, on a NAK or
//! after two downstream round trips. Repeats are marked by the RNIC when a
//! switch asked for them: those are filtered; repeats after a timeout or for the
//! receiver's own NAK all pass.
//!
//! It does without, as the paper does: a second Depot-NACK when a repeat
//! or the NACK itself is lost (the source's timeout repairs that), and any
//! knowledge of lost tails. The switches know each other and every queue pair
//! from the first packet on.
//!
//! # Where the digest is silent
//! The reading that suits the original best, each with a test in `tests`:
//!
//! - *How large the pools are.* The reordering pool is to cover the
//!   bandwidth-delay product, the backup pool that of the receiving site; on the
//!   authors' testbed 1 MB and 50 KB; about 1 MB was in use at a loss of 1e-2. The
//!   scenario says how much there is; the evaluation gives the reordering pool no
//!   bound, tells its peak, and runs a bound of 1 MB beside it.
//! - *Who shares them.* All flows: one pool per switch, as its memory is one.
//! - *A full reordering pool.* It refuses arriving packets. The Depot knows
//!   that, and names all that a flow was refused, as one gap, once the flow has
//!   nothing waiting. A repeat that is refused has been named already, and is
//!   the source's timeout's business.
//! - *A full backup pool.* It drops the oldest packet of the flow
//!   that needs room; a NAK for a dropped packet is forwarded to the source.
//! - *When pools are freed.* By delivery in order, and by ACKs.
//! - *From when the Depot's timer counts.* From when a packet that asks for an
//!   ACK has left its port, since packets released by a filled gap wait there; each
//!   time it goes off in vain it doubles. Counted from when the packet was handed
//!   to the port it goes off in the middle of the Depot's own bursts, and the
//!   model drowns in its own resends.

mod depot;
mod sentry;
#[cfg(test)]
mod tests;

use common::frame::{Class, Frame, Side};
use common::time::{Span, Time};
use common::wire::parse;

use self::depot::{Depot, Limits};
use self::sentry::Sentry;
use super::{Peer, Ports};
use crate::frame::SimFrame;
use crate::results::Pools;

/// Both roles of a box.
pub struct Paper {
    sentry: Sentry,
    depot: Depot,
}

impl Paper {
    /// A box with `reorder` and `backup` bytes of pool, whose port towards the
    /// hosts has `lan_rate` bit/s, at a site whose own round trip is `local_rtt`.
    pub fn new(reorder: u64, backup: u64, local_rtt: Span, lan_rate: u64) -> Self {
        let limits = Limits { reorder, backup, t_out: local_rtt * 2, lan_rate };
        Self { sentry: Sentry::default(), depot: Depot::new(limits) }
    }
}

impl Peer for Paper {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut impl Ports) {
        let Ok(roce) = parse(frame.bytes()) else {
            return out.send(side.other(), Class::Data, frame);
        };
        let kind = roce.opcode.kind();
        match (side, kind.is_request(), kind.is_response()) {
            (Side::Lan, true, _) => self.sentry.on_data(frame, &roce, out),
            (Side::Wan, true, _) => self.depot.on_data(frame, &roce, now, out),
            (Side::Lan, _, true) => self.depot.on_response(frame, &roce, now, out),
            (Side::Wan, _, true) => self.sentry.on_response(frame, &roce, out),
            _ => out.send(side.other(), Class::Data, frame),
        }
    }

    /// Resends packets that the destination has not acknowledged for too long.
    fn timers(&mut self, now: Time, out: &mut impl Ports) {
        self.depot.on_timer(now, out);
    }

    fn next(&self) -> Time {
        self.depot.next()
    }

    fn held(&self) -> Pools {
        let (reorder_bytes, backup_bytes) = self.depot.held();
        Pools { reorder_bytes, backup_bytes, cache_bytes: 0 }
    }
}
