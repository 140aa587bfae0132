//! Counters of IRN hosts.

use core::ops::AddAssign;

/// Counters of a queue pair, or of several added up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IrnStats {
    /// Data packets sent, repeats included.
    pub packets: u64,
    /// Of these, repeats.
    pub repeated: u64,
    /// Payload bytes sent, repeats included.
    pub payload_bytes: u64,
    /// Work requests completed.
    pub messages: u64,
    /// ACKs received.
    pub acks: u64,
    /// NACKs received.
    pub naks: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that loss recovery began.
    pub recoveries: u64,
    /// ACKs and NACKs with numbers that were never sent. Not zero: a defect.
    pub beyond_sent: u64,
    /// CNPs received.
    pub cnps: u64,
    /// Data packets accepted.
    pub accepted: u64,
    /// Of these, ahead of the expected one.
    pub early: u64,
    /// Data packets that had been accepted before.
    pub duplicates: u64,
    /// Data packets beyond the bitmap: discarded.
    pub beyond_bitmap: u64,
    /// Messages received completely.
    pub received: u64,
    /// Bytes that were not those the sender put there. Not zero: a defect.
    pub corrupt_bytes: u64,
    /// CNPs sent.
    pub cnps_sent: u64,
}

impl AddAssign<&Self> for IrnStats {
    fn add_assign(&mut self, other: &Self) {
        // Every field is named: a new one can't be forgotten.
        let Self {
            packets,
            repeated,
            payload_bytes,
            messages,
            acks,
            naks,
            timeouts,
            recoveries,
            beyond_sent,
            cnps,
            accepted,
            early,
            duplicates,
            beyond_bitmap,
            received,
            corrupt_bytes,
            cnps_sent,
        } = other;
        self.packets += packets;
        self.repeated += repeated;
        self.payload_bytes += payload_bytes;
        self.messages += messages;
        self.acks += acks;
        self.naks += naks;
        self.timeouts += timeouts;
        self.recoveries += recoveries;
        self.beyond_sent += beyond_sent;
        self.cnps += cnps;
        self.accepted += accepted;
        self.early += early;
        self.duplicates += duplicates;
        self.beyond_bitmap += beyond_bitmap;
        self.received += received;
        self.corrupt_bytes += corrupt_bytes;
        self.cnps_sent += cnps_sent;
    }
}
