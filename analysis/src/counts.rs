//! Counters of a flow's requests.

use serde::Serialize;

/// Resends of one cause.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Resends {
    /// How often the source went back.
    pub times: u64,
    /// Packets that it sent again or, where they had been lost before the capture, that passed for the first time.
    pub packets: u64,
    /// Payload of these, in bytes.
    pub bytes: u64,
    /// Of the packets, those that had passed the capture before, without the first one of each time.
    pub wasted_packets: u64,
    /// Payload of these, in bytes.
    pub wasted_bytes: u64,
    /// Time in which the flow brought nothing new, in ns: from the first resent packet, of a timeout from the packet before it,
    /// to the next new packet.
    pub stalled_ns: u64,
}

/// Counters of requests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct RequestCounts {
    /// Packets, resent ones included.
    pub packets: u64,
    /// Payload of these, in bytes.
    pub bytes: u64,
    /// Payload that passed for the first time, in bytes.
    pub new_bytes: u64,
    /// Times that packets were missing before one that passed.
    pub gaps: u64,
    /// Packets that were missing then.
    pub missing: u64,
    /// Of these, packets that passed late although their source did not go back: reordered on the way, or resent by a gateway.
    pub late: u64,
    /// Most packets that had overtaken a late one.
    pub late_depth: u64,
    /// Longest time that a late one was missing, in ns.
    pub late_ns: u64,
    /// Of the missing, packets that passed when their source had gone back: lost before the capture.
    pub lost_before: u64,
    /// Packets that were missing within a run of resent packets: lost again before the capture.
    pub lost_again: u64,
    /// Packets older than the flow's first one in the capture, sent again: lost before it, or older than the capture.
    pub before_first: u64,
    /// Of the missing, packets that never passed.
    pub never: u64,
    /// Times that a source went back to a packet that had passed: it, or its acknowledgement, was lost behind the capture.
    pub lost_behind: u64,
    /// Packets that passed twice, and that nothing had asked for.
    pub duplicates: u64,
    /// Times that the PSNs leapt: the queue pair's number was used anew, or the capture has a long gap.
    pub restarts: u64,
    /// By NAKs: go-back-N.
    pub after_nak: Resends,
    /// By timeouts: silence, without a NAK.
    pub after_timeout: Resends,
    /// By RNR NAKs.
    pub after_rnr: Resends,
    /// READs whose responses were asked for again.
    pub read_repair: Resends,
    /// Of a flow whose responses are not in the capture: why is not known.
    pub unexplained: Resends,
}
