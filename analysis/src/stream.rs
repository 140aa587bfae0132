//! The packets from one host to one queue pair of another: requests, and responses to those of that queue pair.

use common::time::Time;
use common::wire::{Addr, Qpn};
use serde::Serialize;

use crate::copies::Repeats;
use crate::requests::Requests;

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamKey {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Queue pair at the destination.
    pub dest_qpn: Qpn,
}

/// Counters of responses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct ResponseCounts {
    /// ACKs.
    pub acks: u64,
    /// Responses to atomics.
    pub atomic_acks: u64,
    /// NAKs: PSN sequence error.
    pub naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// NAKs: invalid request.
    pub invalid_requests: u64,
    /// NAKs: remote access error.
    pub remote_access_errors: u64,
    /// NAKs: remote operational error.
    pub remote_operational_errors: u64,
    /// NAKs with a reserved code.
    pub other_naks: u64,
}

/// Everything known of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub key: StreamKey,
    /// Of its newest packet.
    pub src_port: u16,
    pub vlans: Vec<u16>,
    pub first: Time,
    pub last: Time,
    pub packets: u64,
    /// Bytes of its frames, from the destination MAC address on, without the tunnel's.
    pub bytes: u64,
    /// Packets that a queue on the way has marked (ECN).
    pub marked: u64,
    pub cnps: u64,
    pub repeats: Repeats,
    pub requests: Option<Box<Requests>>,
    pub responses: ResponseCounts,
    /// The stream of the same queue pairs in the other direction.
    pub partner: Option<usize>,
}

impl Stream {
    pub fn new(key: StreamKey, src_port: u16, vlans: Vec<u16>, at: Time) -> Self {
        Self {
            key,
            src_port,
            vlans,
            first: at,
            last: at,
            packets: 0,
            bytes: 0,
            marked: 0,
            cnps: 0,
            repeats: Repeats::default(),
            requests: None,
            responses: ResponseCounts::default(),
            partner: None,
        }
    }
}
