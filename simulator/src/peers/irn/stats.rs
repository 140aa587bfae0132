//! Counters of IRN hosts.

rnic::counters! {
    /// Counters of a queue pair, or of several added up.
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
}
