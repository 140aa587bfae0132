//! Messages, before anything is simulated.

mod expand;
pub mod sizes;
pub mod trace;

use common::time::Time;

pub use expand::expand;

/// Wire bytes of a data packet besides its payload: Ethernet 14, IPv4
/// 20, UDP 8, BTH 12, ICRC 4, and the bytes outside of the frame
/// ([`link::FRAME_OVERHEAD`]). The 16 bytes of a RETH, once per message, are not
/// counted.
pub const PACKET_OVERHEAD: u64 = 14 + 20 + 8 + 12 + 4 + link::FRAME_OVERHEAD;

/// The longest message that a distribution or a trace may ask for: 1 TB. A longer one is
/// most likely a mistake.
pub const MAX_BYTES: u64 = 1_000_000_000_000;

/// A message that a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// When it is posted; of a later [round](Self::round), how long after the
    /// round before has ended.
    pub start: Time,
    /// Number of the host that sends it, over both sites.
    pub src: u32,
    /// Number of the host that it goes to; another one.
    pub dst: u32,
    /// Its length; at least 1.
    pub bytes: u64,
    /// Rounds of one collective, from 0; messages outside of any are of round
    /// 0.
    pub round: u32,
    /// Which of the scenario's traffic it belongs to.
    pub traffic: u16,
}
