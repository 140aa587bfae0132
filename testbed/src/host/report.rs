//! Reports of `lr2-host`: while it runs and at the end.

use common::time::Span;
use rnic::{Nic, PortStats, RequesterStats, ResponderStats};
use serde::Serialize;

use super::meter::{Amount, Steady};
use crate::report::Summary;

/// A line while it runs.
#[derive(Serialize)]
pub(super) struct Line {
    /// Since the start of the program's loop.
    pub elapsed_s: f64,
    /// Of the time since the line before: messages completed (requester) or
    /// received (responder).
    pub goodput_bps: f64,
    pub messages: u64,
    pub bytes: u64,
    pub corrupt_bytes: u64,
    pub timeouts: u64,
    pub retransmitted: u64,
    pub naks: u64,
}

/// The report at the end.
#[derive(Serialize)]
pub(super) struct Report {
    pub program: &'static str,
    pub role: &'static str,
    pub qps: u32,
    /// QPs in error state at the end.
    pub qps_failed: usize,
    pub pmtu: u32,
    pub message_bytes: u32,
    pub rate_bps: Option<u64>,
    pub window_packets_per_qp: u32,
    /// The requester's counters; `null` for a responder.
    pub requester: Option<Requester>,
    /// The responder's counters.
    pub responder: Responder,
    pub port: Port,
}

#[derive(Serialize)]
pub(super) struct Requester {
    /// Messages completed without error.
    pub completed: Amount,
    /// Messages that ended otherwise.
    pub failed: u64,
    /// Messages that had not ended when the run did.
    pub pending: usize,
    pub steady: Steady,
    /// From post to completion, of messages completed in the steady interval.
    pub completion_us: Summary,
    pub rtt_us: Rtt,
    pub packets: u64,
    pub retransmitted: u64,
    pub timeouts: u64,
    pub acks: u64,
    pub naks: u64,
    pub naks_ignored: u64,
    pub rnr_naks: u64,
    /// Times that a READ or atomic was asked for again because its answer was
    /// seen to be missing.
    pub implied_naks: u64,
    /// Bytes that READs fetched and that were not as they should be.
    pub corrupt_bytes: u64,
    /// Atomics that found an impossible value: executed twice, or not at all.
    pub wrong_originals: u64,
    /// Responses that can't be: not zero is a defect.
    pub beyond_sent: u64,
    pub unexpected: u64,
}

/// Round-trip times in microseconds, from packets sent once that asked for an
/// ACK to that ACK; `null` without samples.
#[derive(Serialize)]
pub(super) struct Rtt {
    pub samples: u64,
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub max: f64,
}

#[derive(Serialize)]
pub(super) struct Responder {
    /// Messages received; each of their bytes was compared.
    pub received: Amount,
    pub steady: Steady,
    pub corrupt_bytes: u64,
    pub corrupt_messages: u64,
    /// Mean number of packets accepted and not acknowledged: the L of the
    /// closed forms.
    pub ack_lag_packets: f64,
    pub packets: u64,
    pub duplicates: u64,
    pub out_of_sequence: u64,
    pub reads: u64,
    pub reads_repeated: u64,
    pub atomics: u64,
    pub atomics_repeated: u64,
    pub acks: u64,
    pub naks: u64,
    pub refused: u64,
}

#[derive(Serialize)]
pub(super) struct Port {
    pub frames_in: u64,
    pub bytes_in: u64,
    pub frames_out: u64,
    pub bytes_out: u64,
    pub not_roce: u64,
    pub malformed: u64,
    pub not_ours: u64,
    pub unknown_qp: u64,
    pub unknown_opcode: u64,
    pub bad_icrc: u64,
    /// Times that there was no memory for a frame.
    pub no_frame: u64,
    /// Times that the port took less than it was offered.
    pub port_full: u64,
}

fn us(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

impl From<&rnic::Rtt> for Rtt {
    fn from(rtt: &rnic::Rtt) -> Self {
        Self {
            samples: rtt.samples,
            mean: rtt.mean().map(us),
            min: rtt.min.map(us),
            max: us(rtt.max),
        }
    }
}

impl Requester {
    pub fn new(
        stats: &RequesterStats,
        completed: Amount,
        pending: usize,
        steady: Steady,
        completion_us: Summary,
    ) -> Self {
        Self {
            completed,
            failed: stats.failed,
            pending,
            steady,
            completion_us,
            rtt_us: (&stats.rtt).into(),
            packets: stats.packets,
            retransmitted: stats.retransmitted,
            timeouts: stats.timeouts,
            acks: stats.acks,
            naks: stats.naks,
            naks_ignored: stats.naks_ignored,
            rnr_naks: stats.rnr_naks,
            implied_naks: stats.implied_naks,
            corrupt_bytes: stats.corrupt_bytes,
            wrong_originals: stats.wrong_originals,
            beyond_sent: stats.beyond_sent,
            unexpected: stats.unexpected,
        }
    }

    /// Whether all that was posted has arrived, and as it should.
    pub fn is_clean(&self) -> bool {
        let defects =
            self.beyond_sent + self.unexpected + self.corrupt_bytes + self.wrong_originals;
        self.failed == 0 && self.pending == 0 && defects == 0
    }
}

impl Responder {
    pub fn new(stats: &ResponderStats, received: Amount, steady: Steady) -> Self {
        Self {
            received,
            steady,
            corrupt_bytes: stats.corrupt_bytes,
            corrupt_messages: stats.corrupt_messages,
            ack_lag_packets: stats.mean_ack_lag(),
            packets: stats.accepted,
            duplicates: stats.duplicates,
            out_of_sequence: stats.out_of_sequence,
            reads: stats.reads,
            reads_repeated: stats.reads_repeated,
            atomics: stats.atomics,
            atomics_repeated: stats.atomics_repeated,
            acks: stats.acks,
            naks: stats.naks,
            refused: stats.refused,
        }
    }

    /// Whether nothing arrived that was not sent.
    pub fn is_clean(&self) -> bool {
        self.corrupt_bytes == 0 && self.refused == 0
    }
}

impl Port {
    pub fn new(stats: &PortStats, port_full: u64) -> Self {
        Self {
            frames_in: stats.frames_in,
            bytes_in: stats.bytes_in,
            frames_out: stats.frames_out,
            bytes_out: stats.bytes_out,
            not_roce: stats.not_roce,
            malformed: stats.malformed,
            not_ours: stats.not_ours,
            unknown_qp: stats.unknown_qp,
            unknown_opcode: stats.unknown_opcode,
            bad_icrc: stats.bad_icrc,
            no_frame: stats.no_frame,
            port_full,
        }
    }
}

/// Makes [`Line`]s.
pub(super) struct Lines {
    requests: bool,
    last: (Span, u64),
}

impl Lines {
    pub fn new(requests: bool) -> Self {
        Self { requests, last: (Span::ZERO, 0) }
    }

    pub fn next(&mut self, nic: &Nic, elapsed: Span) -> Line {
        let totals = nic.totals();
        let (messages, bytes) = if self.requests {
            (totals.requester.messages, totals.requester.message_bytes)
        } else {
            (totals.responder.messages, totals.responder.message_bytes)
        };
        let (then, bytes_then) = std::mem::replace(&mut self.last, (elapsed, bytes));
        let seconds = (elapsed - then).as_secs_f64();
        Line {
            elapsed_s: elapsed.as_secs_f64(),
            goodput_bps: (bytes - bytes_then) as f64 * 8.0 / seconds.max(1e-9),
            messages,
            bytes,
            corrupt_bytes: totals.responder.corrupt_bytes + totals.requester.corrupt_bytes,
            timeouts: totals.requester.timeouts,
            retransmitted: totals.requester.retransmitted,
            naks: totals.requester.naks + totals.responder.naks,
        }
    }
}
