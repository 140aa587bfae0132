//! What a NIC counts.

use core::ops::AddAssign;

use common::time::Span;

/// Adds up every field of a struct of counters.
macro_rules! additive {
    ($name:ty { $($field:ident),* $(,)? }) => {
        impl AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                $( self.$field += other.$field; )*
            }
        }
    };
}

/// Round-trip times: from a packet that requests an ACK, sent once, to the ACK
/// of exactly that packet. One packet at a time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rtt {
    /// Number of samples.
    pub samples: u64,
    /// Sum of the samples in nanoseconds.
    pub sum_nanos: u64,
    /// Shortest one.
    pub min: Option<Span>,
    /// Longest one.
    pub max: Span,
}

impl Rtt {
    pub(crate) fn sample(&mut self, rtt: Span) {
        self.samples += 1;
        self.sum_nanos += rtt.as_nanos();
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.max = self.max.max(rtt);
    }

    /// Mean, if there are samples.
    pub fn mean(&self) -> Option<Span> {
        self.sum_nanos.checked_div(self.samples).map(Span::from_nanos)
    }
}

impl AddAssign<Self> for Rtt {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.sum_nanos += other.sum_nanos;
        self.min = match (self.min, other.min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.max = self.max.max(other.max);
    }
}

/// The sending side of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RequesterStats {
    /// Data packets sent, resent ones included.
    pub packets: u64,
    /// Of these, packets whose PSN had been sent before.
    pub retransmitted: u64,
    /// Payload bytes sent, resent ones included.
    pub payload_bytes: u64,
    /// Messages acknowledged.
    pub messages: u64,
    /// Bytes of these messages.
    pub message_bytes: u64,
    /// Work requests that ended with another status than `Ok`.
    pub failed: u64,
    /// Positive ACKs received.
    pub acks: u64,
    /// PSN sequence error NAKs received.
    pub naks: u64,
    /// Of these, NAKs ignored because an earlier one was being obeyed.
    pub naks_ignored: u64,
    /// Of the ACKs and NAKs, those behind what was already acknowledged.
    pub stale: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Round-trip times.
    pub rtt: Rtt,
    /// ACKs and NAKs for packets that were never sent. Not zero: a defect, of
    /// the peer or of what lies between.
    pub beyond_sent: u64,
    /// ACKs and NAKs whose MSN is not the number of messages that they
    /// acknowledge. RNICs don't look; not zero is a defect all the same.
    pub wrong_msn: u64,
    /// Responses of a kind that nothing asked for (READ and atomic responses,
    /// RNR NAKs, reserved syndromes).
    pub unexpected: u64,
}

additive!(RequesterStats {
    packets,
    retransmitted,
    payload_bytes,
    messages,
    message_bytes,
    failed,
    acks,
    naks,
    naks_ignored,
    stale,
    timeouts,
    rtt,
    beyond_sent,
    wrong_msn,
    unexpected,
});

/// The receiving side of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResponderStats {
    /// Data packets accepted, in order.
    pub accepted: u64,
    /// Packets behind the expected PSN: acknowledged again and discarded.
    pub duplicates: u64,
    /// Packets ahead of the expected PSN: discarded.
    pub out_of_sequence: u64,
    /// Messages received completely.
    pub messages: u64,
    /// Bytes of these messages, all compared with what they should be.
    pub message_bytes: u64,
    /// Bytes that were not as they should be. Not zero: a defect of what lies
    /// between, or two ends with different seeds.
    pub corrupt_bytes: u64,
    /// Messages with such bytes.
    pub corrupt_messages: u64,
    /// Positive ACKs decided on.
    pub acks: u64,
    /// PSN sequence error NAKs decided on.
    pub naks: u64,
    /// Requests refused with another NAK; each ends the QP.
    pub refused: u64,
    /// Sum, over the packets accepted, of the number of accepted packets that
    /// no ACK or NAK covered right afterwards.
    pub ack_lag_sum: u64,
}

impl ResponderStats {
    /// Mean number of packets that the requester does not know to have been
    /// accepted when one is accepted: `L` of the closed forms.
    pub fn mean_ack_lag(&self) -> f64 {
        if self.accepted == 0 { 0.0 } else { self.ack_lag_sum as f64 / self.accepted as f64 }
    }
}

additive!(ResponderStats {
    accepted,
    duplicates,
    out_of_sequence,
    messages,
    message_bytes,
    corrupt_bytes,
    corrupt_messages,
    acks,
    naks,
    refused,
    ack_lag_sum,
});

/// One QP, over all its lives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QpStats {
    /// Its sending side.
    pub requester: RequesterStats,
    /// Its receiving side.
    pub responder: ResponderStats,
}

impl AddAssign<&Self> for QpStats {
    fn add_assign(&mut self, other: &Self) {
        self.requester += &other.requester;
        self.responder += &other.responder;
    }
}

/// The port. Frames received are those given to a QP plus those dropped, by
/// reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortStats {
    /// Frames received.
    pub frames_in: u64,
    /// Their bytes, without [`WIRE_OVERHEAD`](crate::WIRE_OVERHEAD).
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Their bytes, without [`WIRE_OVERHEAD`](crate::WIRE_OVERHEAD).
    pub bytes_out: u64,
    /// Dropped: not RoCEv2 (ARP, ping and the like).
    pub not_roce: u64,
    /// Dropped: RoCEv2, but not well-formed.
    pub malformed: u64,
    /// Dropped: MAC address, VLANs or IP addresses are not those of the QP.
    pub not_ours: u64,
    /// Dropped: no such QP.
    pub unknown_qp: u64,
    /// Dropped: not an opcode that reliable connections define.
    pub unknown_opcode: u64,
    /// Dropped: the ICRC is wrong.
    pub bad_icrc: u64,
    /// Dropped: the QP is in error state.
    pub qp_in_error: u64,
    /// Times that the pool had no frame for what could have been sent.
    pub no_frame: u64,
    /// ACKs not sent because too many responses were waiting for the port;
    /// a later one covers them.
    pub responses_dropped: u64,
}

additive!(PortStats {
    frames_in,
    bytes_in,
    frames_out,
    bytes_out,
    not_roce,
    malformed,
    not_ours,
    unknown_qp,
    unknown_opcode,
    bad_icrc,
    qp_in_error,
    no_frame,
    responses_dropped,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtt_of_several_qps_joins() {
        let mut a = Rtt::default();
        assert_eq!(a.mean(), None);
        a.sample(Span::from_micros(10));
        let mut b = Rtt::default();
        b.sample(Span::from_micros(30));
        b.sample(Span::from_micros(50));
        a += b;
        assert_eq!(a.mean(), Some(Span::from_micros(30)));
        assert_eq!(a.min, Some(Span::from_micros(10)));
        assert_eq!(a.max, Span::from_micros(50));
        a += Rtt::default();
        assert_eq!(a.min, Some(Span::from_micros(10)));
    }
}
