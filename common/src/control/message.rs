//! Messages between a Sentry and a Depot.

use arrayvec::ArrayVec;

use crate::ids::{BootId, Epoch, NodeId};
use crate::psn::Psn;
use crate::time::{Span, Time};
use crate::wire::{Opcode, Qpn, Transport};

/// Most missing ranges that one STATUS lists.
pub const MAX_RANGES: usize = 32;

/// The prefix of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Which box sent it.
    pub node: NodeId,
    /// Which incarnation of that box: grows from start to start.
    pub boot: BootId,
    /// Grows from message to message of one incarnation.
    pub seq: u64,
    /// Newest boot id that the sender has seen of the receiver.
    pub seen_boot: BootId,
    /// Destination QP of the flow that the message is about.
    pub dest_qpn: Qpn,
    /// Which use of that QP number.
    pub epoch: Epoch,
}

/// The body of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
// A message lives on the stack between decoding and use; a box would allocate.
#[allow(clippy::large_enum_variant)]
pub enum Message {
    /// Sentry to Depot: the packets that were sent.
    Sync(SyncMessage),
    /// Depot to Sentry: the packets that arrived.
    Status(Status),
    /// Sentry to Depot: which READ responses and atomic ACKs did not arrive.
    Fetch(Fetch),
    /// Depot to Sentry: responses that are not available: the destination has sent them, or later
    /// ones, and they are not kept. As a rule they were lost before the Depot.
    Absent(Fetch),
}

/// Why a SYNC is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Is there a Depot? Also opens an epoch.
    Open,
    /// The flow fell idle with unacknowledged data.
    Tail,
    /// All resends of a round have been sent before this.
    Resent,
    /// Nothing new; asks for a STATUS.
    Keepalive,
    /// The Sentry no longer protects the flow: deliver held packets, in order,
    /// and forward the flow from then on.
    Release,
    /// The packets missing before `next_psn` are lost for good: no cache has them, and the Sentry
    /// can't request them from the source. Deliver held packets in order, past the gaps.
    Lost,
}

/// SYNC: travels in order with the data that it vouches for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncMessage {
    /// Why.
    pub reason: Reason,
    /// Next new PSN of the source. `None` if, and only if, the reason is
    /// [`Reason::Resent`]: that one overtakes new data and vouches for none.
    pub next_psn: Option<Psn>,
    /// Path MTU of the QP in bytes: 256, 512, 1024, 2048 or 4096; 0 if unknown.
    pub pmtu: u16,
    /// QP of the source, where its NAKs go, if known.
    pub src_qpn: Option<Qpn>,
    /// When this was sent, by the sender's clock; means nothing to the receiver
    /// but to echo it.
    pub sent_at: Time,
    /// Long-haul round trip as the sender measures it; zero if unknown.
    pub rtt: Span,
}

/// The newest ACK that the destination sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastAck {
    /// PSN of its BTH.
    pub psn: Psn,
    /// Syndrome of its AETH.
    pub syndrome: u8,
    /// MSN of its AETH, below 2^24.
    pub msn: u32,
}

/// `len` PSNs from `start` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PsnRange {
    /// The first.
    pub start: Psn,
    /// How many: 1 ..= 2^23.
    pub len: u32,
}

/// STATUS; with missing ranges it is a Depot-NACK.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Next PSN to be delivered in order.
    pub expected: Psn,
    /// The newest ACK from the destination, if there was one.
    pub ack: Option<LastAck>,
    /// `missing` is complete for the PSNs from here ...
    pub from: Psn,
    /// ... to before here. With more gaps than fit, a full list is spread over
    /// several messages.
    pub to: Psn,
    /// All gaps between `from` and `to` that are open and judged lost: in
    /// ascending order, without overlap. `expected`, `from` and `to` ascend within
    /// half the PSN space.
    pub missing: ArrayVec<PsnRange, MAX_RANGES>,
    /// [`SyncMessage::sent_at`] of the newest SYNC of this epoch; zero if there was
    /// none.
    pub echo: Time,
    /// Time from that SYNC's arrival until now.
    pub hold: Span,
    /// QP of the source, if known.
    pub src_qpn: Option<Qpn>,
    /// Whether the sender keeps READ responses and atomic ACKs for a FETCH.
    pub keeps_responses: bool,
    /// The sender forwards everything and holds nothing, because the SYNC that this
    /// answers didn't show that its STATUSes arrive. It reports nothing of the flow's
    /// packets: the PSNs are zero, and there are no ranges and no ACK.
    pub passive: bool,
}

/// FETCH: the near end of the requester asks for READ responses and atomic
/// ACKs that were lost on their way. They carry the PSNs of their requests. An ABSENT has
/// the same fields; its `missing` lists those that the peer does not keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The oldest one that has not arrived: those before need not be kept.
    pub expected: Psn,
    /// Which ones are to be sent again: in ascending order, without overlap,
    /// all within half the PSN space from `expected` on. Empty: the message reports
    /// only `expected`.
    pub missing: ArrayVec<PsnRange, MAX_RANGES>,
}

/// Whether an opcode may be that of control messages: manufacturer range.
pub const fn is_control_opcode(opcode: Opcode) -> bool {
    matches!(opcode.transport(), Transport::Manufacturer)
}

const fn is_u24(value: u32) -> bool {
    value < Psn::MODULUS
}

impl Message {
    /// Whether all fields are in their ranges.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Sync(sync) => sync.is_valid(),
            Self::Status(status) => status.is_valid(),
            Self::Fetch(fetch) | Self::Absent(fetch) => {
                ascend(fetch.expected, 0, HALF, &fetch.missing)
            }
        }
    }
}

impl SyncMessage {
    fn is_valid(&self) -> bool {
        self.next_psn.is_none() == (self.reason == Reason::Resent)
            && matches!(self.pmtu, 0 | 256 | 512 | 1024 | 2048 | 4096)
    }
}

impl Status {
    /// The reply of a Depot that holds nothing of the flow, to the SYNC that was sent
    /// at `echo` and has just come.
    pub fn passive(echo: Time, src_qpn: Option<Qpn>) -> Self {
        Self {
            expected: Psn::default(),
            ack: None,
            from: Psn::default(),
            to: Psn::default(),
            missing: ArrayVec::new(),
            echo,
            hold: Span::ZERO,
            src_qpn,
            keeps_responses: false,
            passive: true,
        }
    }

    fn is_valid(&self) -> bool {
        let zero = Psn::default();
        let says_nothing = [self.expected, self.from, self.to] == [zero; 3]
            && self.missing.is_empty()
            && self.ack.is_none();
        if self.passive && !says_nothing {
            return false;
        }
        self.ack.is_none_or(|ack| is_u24(ack.msn)) && self.ranges_ascend()
    }

    fn ranges_ascend(&self) -> bool {
        let ahead = |psn: Psn| psn.offset(Psn::MODULUS - self.expected.get()).get();
        let (from, to) = (ahead(self.from), ahead(self.to));
        from <= to && to < HALF && ascend(self.expected, from, to, &self.missing)
    }
}

/// Half of the PSN space.
const HALF: u32 = Psn::MODULUS / 2;

/// Whether `ranges` ascend without overlap in `from .. to`, counted from `base`.
fn ascend(base: Psn, from: u32, to: u32, ranges: &[PsnRange]) -> bool {
    let mut end = from;
    ranges.iter().all(|range| {
        let start = range.start.offset(Psn::MODULUS - base.get()).get();
        let fits = start >= end && start < to && (1..=to - start).contains(&range.len);
        end = start.saturating_add(range.len);
        fits
    })
}
