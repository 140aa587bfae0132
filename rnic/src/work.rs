//! Work requests and their completions.

use common::time::{Span, Time};

/// A QP of a NIC: the value that [`Nic::add_qp`](crate::Nic::add_qp) gave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct QpId(pub(crate) u32);

impl QpId {
    /// The QP that was added after `index` others. Models of other NICs with the same
    /// interface construct it.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Position among the QPs of the NIC, in the order they were added, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Operations.
///
/// SEND and WRITE carry a message to the peer, and the peer's ACK completes
/// them. A READ and the atomics fetch something: the response
/// completes them, and a QP bounds how many of them are outstanding at a time
/// ([`QpConfig::max_rd_atomic`](crate::QpConfig::max_rd_atomic)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkKind {
    /// A message into a buffer of the receiver's choice.
    Send,
    /// A message into the receiver's memory, at an address of the sender's
    /// choice.
    Write,
    /// Bytes from the peer's memory.
    Read,
    /// The first eight bytes of the peer's region, taken as a number, become
    /// `swap` if they are `compare`.
    CompareSwap {
        /// The compare value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// `add` is added to the first eight bytes of the peer's region, taken as
    /// a number; it wraps.
    FetchAdd {
        /// The summand.
        add: u64,
    },
}

impl WorkKind {
    /// Whether it is one of the atomics.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether the response completes it, rather than an ACK.
    pub const fn is_fetch(self) -> bool {
        self.is_atomic() || matches!(self, Self::Read)
    }
}

/// A message to be sent or fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkRequest {
    /// By which operation.
    pub kind: WorkKind,
    /// Its length in bytes: 0 to [`MAX_MESSAGE`]; [`ATOMIC_LEN`] for an
    /// atomic.
    pub len: u32,
    /// The caller's own id, returned in the [`Completion`].
    pub id: u64,
}

/// Bytes that an atomic works on.
pub const ATOMIC_LEN: u32 = 8;

/// Packets that one READ may fetch. A PSN is distinguished from the one 2^24 later by
/// its distance to the other unacknowledged ones, which stays below 2^23 with the
/// largest window.
pub const MAX_READ_PACKETS: u32 = 1 << 22;

/// Longest message in bytes (InfiniBand Architecture 9.7: 2^31).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Why a work request was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The QP has failed.
    #[error("the QP is in error state; reset it before posting to it")]
    QpInError,
    /// Longer than a message can be.
    #[error("a message of {0} bytes is too long; at most 2147483648 are allowed")]
    TooLong(u32),
    /// The region that WRITEs go to and READs come from ends before.
    #[error("a message of {len} bytes does not fit into the remote region of {region} bytes")]
    OutsideRegion {
        /// Length of the message.
        len: u32,
        /// Length of the region.
        region: u64,
    },
    /// A READ of more than [`MAX_READ_PACKETS`].
    #[error("a READ of {0} bytes takes too many packets; at most 4194304 are allowed")]
    ReadTooLong(u32),
    /// Not the length of an atomic, or no room for one in the region.
    #[error("an atomic works on 8 aligned bytes at the start of the remote region")]
    NoAtomicWord,
    /// The QP does neither READs nor atomics.
    #[error("max_rd_atomic is 0: the QP takes neither READs nor atomics")]
    FetchNotAllowed,
}

/// How a work request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The responder has acknowledged all of it, or all that was asked for has
    /// come.
    Ok,
    /// Neither ACK nor progress for as many tries as allowed.
    RetryExceeded,
    /// The responder had no receive buffer for as many tries as allowed.
    RnrRetryExceeded,
    /// The responder refused it: invalid request (NAK 0x61).
    RemoteInvalidRequest,
    /// The responder refused it: no access (NAK 0x62).
    RemoteAccess,
    /// The responder could not do it (NAK 0x63).
    RemoteOperation,
    /// A response came that can't match the request: READ data for a WRITE,
    /// an ACK or NAK between the packets of a READ response, a length that is
    /// wrong.
    BadResponse,
    /// An earlier request or the responder of this QP failed, or the QP was
    /// reset.
    Flushed,
}

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// On which QP.
    pub qp: QpId,
    /// The request.
    pub work: WorkRequest,
    /// Number of the message on this QP since it was set up or reset, from 0:
    /// SENDs and WRITEs are counted together and carry the number of their
    /// [`Received`]; READs and atomics have a count of their own.
    pub index: u64,
    /// How it ended.
    pub status: Status,
    /// The word before an atomic; `None` for other operations and without success.
    pub original: Option<u64>,
    /// Of a READ: bytes that are not those of the peer's memory.
    pub corrupt_bytes: u64,
    /// When it was posted.
    pub posted_at: Time,
    /// When it ended.
    pub completed_at: Time,
}

impl Completion {
    /// From post to end.
    pub fn duration(&self) -> Span {
        self.completed_at.since(self.posted_at)
    }
}

/// A message that has arrived completely: a SEND or a WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// On which QP.
    pub qp: QpId,
    /// By which operation.
    pub kind: WorkKind,
    /// Number of the message on this QP since it was set up or reset, from 0;
    /// READs and atomics are not counted.
    pub index: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Bytes that are not those the sender put there.
    pub corrupt_bytes: u64,
    /// When its last packet was accepted.
    pub at: Time,
}
