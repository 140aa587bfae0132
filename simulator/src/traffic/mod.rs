//! Messages, before anything is simulated.

use common::time::Time;

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
