//! The meaning of a packet of the reverse direction for the requests.

use super::{AethKind, PacketKind, Position, Roce};
use crate::psn::Psn;

/// An ACK, NAK, READ response or atomic ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// Its meaning.
    pub verdict: Verdict,
    /// PSN of its BTH.
    pub psn: Psn,
    /// MSN of its AETH; `None` for a middle READ response, which has none.
    pub msn: Option<u32>,
    /// The credits that it gives, as its AETH's syndrome has them; `None` if it gives none.
    pub credits: Option<u8>,
}

/// The meaning of a response for its PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// ACK: everything up to and including it has arrived.
    Acknowledged,
    /// READ response or atomic ACK: everything before it has arrived, and it carries
    /// the requested data.
    Response(Position),
    /// RNR NAK: everything before it has arrived; it is to come again later.
    NotReady,
    /// NAK, PSN sequence error: everything before it has arrived; it is missing.
    Missing,
    /// An error that no gateway can help with.
    Failed,
}

impl Response {
    /// Reads a response; `None` if the packet is none.
    pub fn of(roce: &Roce, frame: &[u8]) -> Option<Self> {
        let aeth = roce.aeth(frame);
        let verdict = match (roce.kind(), aeth.map(|aeth| aeth.kind())) {
            (PacketKind::ReadResponse(position), _) => Verdict::Response(position),
            (PacketKind::AtomicAck, _) => Verdict::Response(Position::Only),
            (PacketKind::Ack, Some(AethKind::Ack { .. })) => Verdict::Acknowledged,
            (PacketKind::Ack, Some(AethKind::Rnr { .. })) => Verdict::NotReady,
            (PacketKind::Ack, Some(AethKind::Nak { code: 0 })) => Verdict::Missing,
            (PacketKind::Ack, _) => Verdict::Failed,
            _ => return None,
        };
        let credits = aeth.filter(|aeth| aeth.is_ack()).map(|aeth| aeth.syndrome);
        Some(Self { verdict, psn: roce.psn, msn: aeth.map(|aeth| aeth.msn), credits })
    }

    /// Whether it asks for its PSN, rather than answering it.
    pub const fn is_nak(&self) -> bool {
        matches!(self.verdict, Verdict::NotReady | Verdict::Missing | Verdict::Failed)
    }

    /// Whether other responses may follow it at once: whether it does not leave
    /// a READ response message unfinished.
    pub const fn ends_message(&self) -> bool {
        match self.verdict {
            Verdict::Response(position) => position.ends_message(),
            _ => true,
        }
    }
}
