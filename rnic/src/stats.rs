//! Counters of a NIC.

use core::ops::AddAssign;

use common::time::Span;
use serde::Serialize;

/// Defines a struct of counters that can be added up, field by field.
#[macro_export]
macro_rules! counters {
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        $vis struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl core::ops::AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                $( self.$field += &other.$field; )*
            }
        }
    };
}

/// Round-trip times: from a packet that requests an ACK, sent once, to the ACK
/// of exactly that packet or the first packet of its response. One packet at a time is measured.
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

impl AddAssign<&Self> for Rtt {
    fn add_assign(&mut self, other: &Self) {
        self.samples += other.samples;
        self.sum_nanos += other.sum_nanos;
        self.min = match (self.min, other.min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.max = self.max.max(other.max);
    }
}

crate::counters! {
    /// The sending side of a QP.
    #[derive(Serialize)]
    pub struct RequesterStats {
        /// Request packets sent, resent ones included.
        pub packets: u64,
        /// Of these, packets whose PSN had been sent before; parts of a READ that
        /// were asked for again among them.
        pub retransmitted: u64,
        /// Payload bytes sent, resent ones included.
        pub payload_bytes: u64,
        /// Work requests completed, of all kinds.
        pub messages: u64,
        /// Bytes of these messages; eight for an atomic.
        pub message_bytes: u64,
        /// Of the work requests completed, READs.
        pub reads: u64,
        /// Of the work requests completed, atomics.
        pub atomics: u64,
        /// Work requests that ended with another status than `Ok`.
        pub failed: u64,
        /// Positive ACKs received.
        pub acks: u64,
        /// PSN sequence error NAKs received.
        pub naks: u64,
        /// Of these, NAKs ignored because an earlier one was being obeyed.
        pub naks_ignored: u64,
        /// Of these, NAKs of a switch, where
        /// [they are known](crate::QpConfig::knows_switch_nak).
        pub switch_naks: u64,
        /// RNR NAKs received.
        pub rnr_naks: u64,
        /// Packets of READ responses received.
        pub read_responses: u64,
        /// Responses to atomics received.
        pub atomic_acks: u64,
        /// Responses that showed READ data or the response to an atomic to be
        /// missing, and made the requester ask again.
        pub implied_naks: u64,
        /// The same, but without effect: an earlier one was being obeyed, or they
        /// were packets ahead within one READ and
        /// [`ImpliedNak::LaterRequest`](crate::ImpliedNak::LaterRequest) discards
        /// those.
        pub implied_naks_ignored: u64,
        /// Of the responses, those behind `acked`.
        pub stale: u64,
        /// Congestion notification packets received.
        pub cnps: u64,
        /// Retransmission timeouts.
        pub timeouts: u64,
        /// Bytes fetched by READs that are not those of the peer's memory. Not
        /// zero: a defect of the network, or two ends with different seeds.
        pub corrupt_bytes: u64,
        /// READs with such bytes.
        pub corrupt_messages: u64,
        /// Atomics that found another value than those of this QP before them have
        /// left. Not zero: one was executed twice or not at all, or was answered
        /// with the result of another.
        pub wrong_originals: u64,
        /// READs and atomics that an ACK has completed without their data.
        pub without_data: u64,
        /// Round-trip times; a report has units of its own for them.
        #[serde(skip)]
        pub rtt: Rtt,
        /// Responses to packets that were never sent. Not zero: a defect, of
        /// the peer or of the network.
        pub beyond_sent: u64,
        /// Responses whose MSN is not the number of messages that the responder
        /// has completed: for ACKs and NAKs the acknowledged ones, for READ
        /// responses and responses to atomics at least these and at most the
        /// sent ones. RNICs don't look; not zero is a defect all the same.
        pub wrong_msn: u64,
        /// Responses that can't match the request, and reserved syndromes. All
        /// but the latter end the QP: READ data or responses to atomics for another
        /// request, packets of a READ response in an impossible order or of a
        /// wrong length, ACKs and NAKs between them.
        pub unexpected: u64,
    }
}

crate::counters! {
    /// The receiving side of a QP.
    #[derive(Serialize)]
    pub struct ResponderStats {
        /// Request packets accepted, in order.
        pub accepted: u64,
        /// Packets behind the expected PSN: a SEND or WRITE is acknowledged again
        /// and discarded, a READ or an atomic answered again.
        pub duplicates: u64,
        /// Of these, READs and atomics that were not answered: too old, or not the
        /// same request.
        pub duplicates_dropped: u64,
        /// Packets ahead of the expected PSN: discarded.
        pub out_of_sequence: u64,
        /// Messages received completely, SENDs and WRITEs.
        pub messages: u64,
        /// Bytes of these messages, all compared with the expected ones.
        pub message_bytes: u64,
        /// Bytes that differ from the expected ones. Not zero: a defect of the
        /// network, or two ends with different seeds.
        pub corrupt_bytes: u64,
        /// Messages with such bytes.
        pub corrupt_messages: u64,
        /// Positive ACKs decided on.
        pub acks: u64,
        /// PSN sequence error NAKs decided on.
        pub naks: u64,
        /// RNR NAKs decided on.
        pub rnr_naks: u64,
        /// READs accepted, duplicates not counted.
        pub reads: u64,
        /// READs answered again, in whole or in part.
        pub reads_repeated: u64,
        /// Packets of READ responses sent.
        pub read_responses: u64,
        /// Payload bytes of these.
        pub read_bytes: u64,
        /// Atomics executed.
        pub atomics: u64,
        /// Atomics answered again with the result they had.
        pub atomics_repeated: u64,
        /// Requests refused with another NAK; each ends the QP.
        pub refused: u64,
        /// Congestion notification packets sent, those for marked READ data that
        /// this side has received among them.
        pub cnps: u64,
        /// ACKs not sent because too many responses of their QP were waiting for the
        /// port, which a later one covers, and READs and atomics discarded for
        /// that reason, which the requester sends again.
        pub responses_dropped: u64,
        /// Sum, over the packets accepted, of the number of accepted packets that
        /// no ACK or NAK covered right afterwards.
        pub ack_lag_sum: u64,
    }
}

impl ResponderStats {
    /// Mean number of accepted packets that are not yet acknowledged to the requester when
    /// one is accepted: `L` of the closed forms.
    pub fn mean_ack_lag(&self) -> f64 {
        if self.accepted == 0 { 0.0 } else { self.ack_lag_sum as f64 / self.accepted as f64 }
    }
}

crate::counters! {
    /// One QP, over all its incarnations.
    pub struct QpStats {
        /// Its sending side.
        pub requester: RequesterStats,
        /// Its receiving side.
        pub responder: ResponderStats,
    }
}

crate::counters! {
    /// The port. Frames received are those given to a QP plus those dropped, by
    /// reason.
    #[derive(Serialize)]
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
        /// Dropped: neither a CNP nor an opcode that reliable connections define.
        pub unknown_opcode: u64,
        /// Dropped: the ICRC is wrong.
        pub bad_icrc: u64,
        /// Dropped: the QP is in error state.
        pub qp_in_error: u64,
        /// Times that the pool had no frame for a packet that was ready.
        pub no_frame: u64,
    }
}

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
        a += &b;
        assert_eq!(a.mean(), Some(Span::from_micros(30)));
        assert_eq!(a.min, Some(Span::from_micros(10)));
        assert_eq!(a.max, Span::from_micros(50));
        a += &Rtt::default();
        assert_eq!(a.min, Some(Span::from_micros(10)));
    }
}
