//! Control messages: the words of two tunnel ends about a session and its lanes.

mod layout;
mod reports;

use arrayvec::ArrayVec;
use common::control::{Keys, TAG_LEN};
use common::ids::{BootId, NodeId};
use common::time::Time;

pub use self::reports::{MAX_REPORTED, Reports};
use crate::number::{Lane, Session, WireNumber};

/// Most ranges that one REPORT or SKIP lists.
pub const MAX_RANGES: usize = 64;

/// The fields of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Node id of the box that made the message.
    pub node: NodeId,
    /// Its boot id, which only grows.
    pub boot: BootId,
    /// Counts its messages of this boot.
    pub seq: u64,
    /// The newest boot id that it knows of the receiving box.
    pub seen_boot: BootId,
    /// The session of the receiving end, as far as it is known.
    pub session: Session,
    /// The tunnel between the boxes that it is about, from 0 on.
    pub tunnel: u8,
}

/// A control message.
#[expect(
    clippy::large_enum_variant,
    reason = "most messages are REPORTs, and nothing is allocated for them"
)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A box introduces itself and offers a session.
    Hello(Hello),
    /// Which transmissions have arrived.
    Reports(Reports),
    /// Asks for a REPORT.
    Probe(Probe),
    /// Transmissions that will bring no frame.
    Skip(Skip),
    /// The box leaves the session.
    Bye,
    /// Measures how long a frame the path of a lane carries.
    PathProbe(PathProbe),
    /// A [`PathProbe`] has arrived.
    PathEcho(PathEcho),
}

/// HELLO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The session in which the box takes frames from now on.
    pub session: Session,
    /// Its lanes, 1 to 255.
    pub lanes: u8,
    /// What the box says of itself, as [`Features`](crate::Features) transmits it; bits that a receiver does not know have
    /// no meaning to it.
    pub features: u32,
    /// Bytes of the longest frame that its WAN port carries, from the destination MAC on.
    pub frame_max: u16,
    /// How flows are divided into tunnels, as [`Division`](crate::Division) transmits it.
    pub division: u8,
    /// Bytes of the longest frame with a HELLO of the receiving box's session that arrived.
    pub heard: u16,
    /// Bytes of zero behind it, that make the frame as long as the path has to carry.
    pub padding: u16,
}

/// What a REPORT, receiver to sender, says of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The lane.
    pub lane: Lane,
    /// The first number that it speaks of; `None`: the first one of the session.
    pub from: Option<WireNumber>,
    /// One past the last number that it speaks of: each of them has arrived or is listed.
    pub next: WireNumber,
    /// Frames that have arrived on the lane, modulo 2^32.
    pub frames: u32,
    /// Of these, with a congestion mark of the path, modulo 2^32.
    pub marked: u32,
    /// The newest PROBE of the lane that said when it was sent.
    pub echo: Option<Echo>,
    /// Runs of missing numbers, start and count, in ascending order.
    pub missing: ArrayVec<(WireNumber, u32), MAX_RANGES>,
}

/// When a PROBE was sent and when it arrived, each by the clock of the box that says so. The difference is the delay
/// of the lane and that of the clocks, which all lanes have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// [`Probe::sent_at`].
    pub sent_at: Time,
    /// When it arrived.
    pub arrived_at: Time,
}

impl Echo {
    /// Delay by the clocks of both boxes, in ns: only differences have a meaning.
    pub const fn delay(&self) -> i64 {
        self.arrived_at.as_nanos().wrapping_sub(self.sent_at.as_nanos()).cast_signed()
    }
}

/// PROBE, sender to receiver: every number before `next` was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The lane.
    pub lane: Lane,
    /// The next number of the lane.
    pub next: WireNumber,
    /// When it is sent, not at the time zero; `None`: it is answered only if there is something that was not reported.
    pub sent_at: Option<Time>,
}

/// SKIP, sender to receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skip {
    /// The lane.
    pub lane: Lane,
    /// Runs of transmissions, start and count, that are lost and carried frames that are sent under other numbers
    /// or never again.
    pub ranges: ArrayVec<(WireNumber, u32), MAX_RANGES>,
}

/// PATH, of either direction: a frame of a certain length on a lane. Zeros fill the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathProbe {
    /// The lane.
    pub lane: Lane,
    /// When it is sent, by the clock of the sending box, not at the time zero.
    pub sent_at: Time,
    /// Bytes of zero behind it.
    pub padding: u16,
}

/// PATH_ECHO: the answer to a [`PathProbe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathEcho {
    /// [`PathProbe::lane`].
    pub lane: Lane,
    /// [`PathProbe::sent_at`].
    pub sent_at: Time,
    /// Bytes of the frame that arrived, from the destination MAC address on and without Ethernet padding.
    pub len: u16,
}

/// Why a control message is refused by itself, whatever the state of the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reject {
    /// The frame ends within it.
    Truncated,
    /// Another version.
    Version,
    /// No key of ours gives this tag.
    BadTag,
    /// A field is out of its range, though the tag is right.
    Invalid,
}

/// Bytes that a message takes, with shim and tag.
pub fn wire_len(message: &Message) -> usize {
    layout::len(message) + TAG_LEN
}

/// Where a message says which tunnel it is about.
pub(crate) const TUNNEL_AT: usize = layout::TUNNEL_AT;

/// Bytes of the shortest HELLO.
pub const HELLO_LEN: usize = layout::HELLO_LEN + TAG_LEN;

/// Bytes of the shortest PATH.
pub const PATH_LEN: usize = layout::PATH_LEN + TAG_LEN;

/// Writes a message.
///
/// # Panics
/// If `out` is not [`wire_len`] bytes long.
pub fn write(header: &Header, message: &Message, keys: &Keys, out: &mut [u8]) {
    let (body, tag) = out.split_at_mut(layout::len(message));
    layout::write(header, message, body);
    tag.copy_from_slice(&keys.seal_tunnel(body));
}

/// Reads a message, which bytes of Ethernet padding may follow. R-TUN-2
///
/// # Errors
/// [`Reject`]; never panics.
pub fn read(bytes: &[u8], keys: &Keys) -> Result<(Header, Message), Reject> {
    let len = layout::declared_len(bytes)?;
    let (body, rest) = bytes.split_at_checked(len).ok_or(Reject::Truncated)?;
    let tag = rest.first_chunk::<TAG_LEN>().ok_or(Reject::Truncated)?;
    if !keys.verify_tunnel(body, tag) {
        return Err(Reject::BadTag);
    }
    layout::read(body).ok_or(Reject::Invalid)
}
