//! Repair frames of a tunnel's lanes, both ways. R-TUN-67

use fec::{Decoder, Encoder, LEN_BYTES, Outcome, Plan, Repair};
use galois::Kernel;

use crate::number::{Lane, Number, Session, WireNumber};
use crate::shim::{self, RepairShim};

/// Counts of repair frames, over all sessions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Protected {
    /// Repair frames that were sent.
    pub sent: u64,
    /// Repair frames that were due, and for which the port's queue had no room, or there was no memory.
    pub unsent: u64,
    /// Repair frames that arrived.
    pub arrived: u64,
    /// Of these, the ones that are no sum that the peer can have sent.
    pub refused: u64,
    /// Frames that were decoded.
    pub decoded: u64,
    /// Decoded bytes that are no frame, or for which there was no memory.
    pub faulty: u64,
}

/// A frame as its sums have it, in two parts: bytes in front of an EtherType of ours, and from the shim on.
pub(crate) type Parts<'a> = [&'a [u8]; 2];

/// The sums of all lanes.
pub(crate) struct Protection {
    plan: Plan,
    encoders: Vec<Encoder>,
    decoders: Vec<Decoder>,
    /// The peer's session, while both boxes send and decode repair frames.
    session: Option<Session>,
    pub counts: Protected,
}

impl Protection {
    /// By this plan, for so many lanes and frames of so many bytes at most.
    pub fn new(plan: Plan, lanes: u8, longest: usize) -> Self {
        let kernel = Kernel::best();
        Self {
            plan,
            encoders: Lane::all(lanes).map(|_| Encoder::new(kernel, longest)).collect(),
            decoders: Lane::all(lanes).map(|_| Decoder::new(kernel, longest)).collect(),
            session: None,
            counts: Protected::default(),
        }
    }

    /// A session began, with a peer that sends and decodes repair frames. Frames and repair frames behind outer headers of
    /// `front` bytes are of `frame_max` bytes at most: longer frames are in no sum.
    pub fn begin(&mut self, peer: Session, frame_max: u16, front: u16) {
        let more = usize::from(front) + shim::LEN + LEN_BYTES;
        let longest = usize::from(frame_max).saturating_sub(more);
        self.session = Some(peer);
        self.decoders.iter_mut().for_each(|decoder| decoder.limit(longest));
        self.encoders.iter_mut().for_each(|encoder| encoder.limit(longest));
    }

    /// The session is over.
    pub fn end(&mut self) {
        self.session = None;
        self.encoders.iter_mut().for_each(Encoder::stop);
        self.decoders.iter_mut().for_each(Decoder::stop);
    }

    /// Whether frames of this session are in sums.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.session.is_some()
    }

    /// Whether arriving frames of a lane are to be added.
    #[inline]
    pub fn is_decoding(&self, lane: Lane) -> bool {
        self.decoders.get(lane.index()).is_some_and(|decoder| decoder.plan().is_some())
    }

    /// The plan of the peer for a lane, as far as it is known.
    pub fn peers_plan(&self, lane: Lane) -> Option<Plan> {
        self.decoders.get(lane.index())?.plan()
    }

    /// A transmission leaves. Returns the repair frame that is to leave behind it: behind the first
    /// one of a lane the announcement of the plan, which holds from the next number on.
    pub fn sent(
        &mut self,
        lane: Lane,
        number: WireNumber,
        parts: Parts<'_>,
    ) -> Option<(RepairShim, &[u8])> {
        let session = self.session?;
        let encoder = self.encoders.get_mut(lane.index())?;
        if encoder.plan().is_none() {
            let number = Number::read(number, session.first())?;
            let repair = encoder.start(self.plan, number.next().get());
            return Some((shim(lane, session, &repair), &[]));
        }
        let number = Number::read(number, Number::new(encoder.next()))?;
        let (repair, bytes) = encoder.add(number.get(), &parts)?;
        Some((shim(lane, session, &repair), bytes))
    }

    /// A repair frame for frames of a lane that are in none yet.
    pub fn flush(&mut self, lane: Lane) -> Option<(RepairShim, &[u8])> {
        let session = self.session?;
        let (repair, bytes) = self.encoders.get_mut(lane.index())?.flush()?;
        Some((shim(lane, session, &repair), bytes))
    }

    /// A transmission has arrived.
    pub fn arrived(&mut self, lane: Lane, number: Number, parts: Parts<'_>) {
        if let Some(decoder) = self.decoders.get_mut(lane.index()) {
            decoder.frame(number.get(), &parts);
        }
    }

    /// A repair frame has arrived on a lane whose next number is `next`.
    pub fn repair(&mut self, shim: &RepairShim, next: Number, bytes: &[u8]) {
        self.counts.arrived += 1;
        let RepairShim { lane, plan, count, seed, .. } = *shim;
        let decoder = self.decoders.get_mut(lane.index()).filter(|_| self.session.is_some());
        let first = Number::read(shim.first, next);
        let (Some(decoder), Some(first)) = (decoder, first) else {
            self.counts.refused += 1;
            return;
        };
        let repair = Repair { plan, first: first.get(), count, seed };
        // Links may pad a short frame.
        let bytes = if count == 0 { &[] } else { bytes };
        let outcome = decoder.repair(&repair, bytes, next.get());
        self.counts.refused += u64::from(outcome == Outcome::Refused);
    }

    /// Takes a frame of a lane that was decoded: its number, and its bytes from the parts on.
    pub fn decoded(&mut self, lane: Lane) -> Option<(Number, &[u8])> {
        let (number, bytes) = self.decoders.get_mut(lane.index())?.decoded()?;
        Some((Number::new(number), bytes))
    }
}

fn shim(lane: Lane, session: Session, repair: &Repair) -> RepairShim {
    let Repair { plan, first, count, seed } = *repair;
    RepairShim { lane, session, plan, first: Number::new(first).wire(), count, seed }
}
