//! The messages that a Sentry and a Depot exchange about a flow.
//!
//! They ride in-band: a message has the Ethernet to UDP headers of the flow it
//! speaks of ([`SyncMessage`] and [`Fetch`], towards the Depot) or of its reverse ([`Status`]), a BTH
//! whose opcode is from the manufacturer range, and a valid ICRC. So it takes
//! the flow's own way through any network, and a RNIC that it should reach
//! after all discards it.
//!
//! ```text
//! | Ethernet .. UDP | BTH | prefix 44 | SYNC 28, STATUS 44 + 8 per range, or FETCH 8 + 8 per range | tag 16 | ICRC |
//! ```
//!
//! The tag is a keyed BLAKE3 over IP addresses, opcode, destination QPN of the
//! BTH, and all of the body before it. Fields not under the tag (MAC addresses,
//! VLANs, UDP source port, DSCP, the BTH's PSN) mean nothing to the
//! receiver.
//!
//! [`decode`] proves that somebody with the key made a message. That it isn't
//! an old one is for a [`Replay`] to say, one per peer box; that the peer isn't
//! talking to an earlier incarnation of ours, for [`Header::seen_boot`].

mod codec;
mod keys;
mod layout;
mod message;
mod replay;
#[cfg(test)]
mod tests;

pub use codec::{Reject, body_len, claims_sync, decode, encode, is_ours};
pub use keys::{Keys, TAG_LEN};
pub(crate) use layout::MAGIC;
pub use layout::VERSION;
pub use message::{
    Fetch, Header, LastAck, MAX_RANGES, Message, PsnRange, Reason, Status, SyncMessage,
    is_control_opcode,
};
pub use replay::{Replay, Stale};

pub use crate::ids::{BootId, Epoch, NodeId};
use crate::wire::Opcode;

/// The opcode of control messages unless configured otherwise.
pub const DEFAULT_OPCODE: Opcode = Opcode(0xe1);
