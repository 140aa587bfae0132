//! Work requests and what becomes of them.

use common::time::{Span, Time};

/// A QP of a NIC: the value that [`Nic::add_qp`](crate::Nic::add_qp) gave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpId(pub(crate) u32);

impl QpId {
    /// Position among the QPs of the NIC, in the order they were added, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Operations.
///
/// READ and atomics will be further variants: they take PSNs for responses
/// (a READ as many as [`common::wire::read_responses`] says) and are completed
/// by those, not by ACKs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkKind {
    /// A message into a buffer of the receiver's choice.
    Send,
    /// A message into the receiver's memory, at an address of the sender's
    /// choice.
    Write,
}

/// A message to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkRequest {
    /// By which operation.
    pub kind: WorkKind,
    /// Its length in bytes: 0 to [`MAX_MESSAGE`].
    pub len: u32,
    /// Whatever the caller wants to find in the [`Completion`].
    pub id: u64,
}

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
    /// The region that WRITEs go to ends before.
    #[error("a WRITE of {len} bytes does not fit into the remote region of {region} bytes")]
    OutsideRegion {
        /// Length of the message.
        len: u32,
        /// Length of the region.
        region: u64,
    },
}

/// How a work request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The responder has acknowledged all of it.
    Ok,
    /// Neither ACK nor progress for as many tries as allowed.
    RetryExceeded,
    /// The responder refused it: invalid request (NAK 0x61).
    RemoteInvalidRequest,
    /// The responder refused it: no access (NAK 0x62).
    RemoteAccess,
    /// The responder could not do it (NAK 0x63).
    RemoteOperation,
    /// A response came that answers nothing we asked.
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
    /// Number of the message on this QP since it was set up or reset, from 0.
    pub index: u64,
    /// How it ended.
    pub status: Status,
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

/// A message that has arrived completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// On which QP.
    pub qp: QpId,
    /// By which operation.
    pub kind: WorkKind,
    /// Number of the message on this QP since it was set up or reset, from 0.
    pub index: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Bytes that are not those the sender put there.
    pub corrupt_bytes: u64,
    /// When its last packet was accepted.
    pub at: Time,
}
