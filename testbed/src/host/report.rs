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
    /// Messages that had not ended when the run did.
    pub pending: usize,
    pub steady: Steady,
    /// From post to completion, of messages completed in the steady interval.
    pub completion_us: Summary,
    pub rtt_us: Rtt,
    #[serde(flatten)]
    pub stats: RequesterStats,
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
    /// Longest time between two packets that a queue pair accepted, both in the steady interval, microseconds.
    pub longest_stall_us: f64,
    /// Mean number of packets accepted and not acknowledged: the L of the
    /// closed forms.
    pub ack_lag_packets: f64,
    #[serde(flatten)]
    pub stats: ResponderStats,
}

#[derive(Serialize)]
pub(super) struct Port {
    #[serde(flatten)]
    pub stats: PortStats,
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
    /// Whether all that was posted has arrived, and as it should.
    pub fn is_clean(&self) -> bool {
        let RequesterStats { beyond_sent, unexpected, corrupt_bytes, wrong_originals, .. } =
            self.stats;
        let defects = beyond_sent + unexpected + corrupt_bytes + wrong_originals;
        self.stats.failed == 0 && self.pending == 0 && defects == 0
    }
}

impl Responder {
    pub fn new(stats: &ResponderStats, received: Amount, steady: Steady, stall: Span) -> Self {
        let longest_stall_us = us(stall);
        Self {
            received,
            steady,
            longest_stall_us,
            ack_lag_packets: stats.mean_ack_lag(),
            stats: *stats,
        }
    }

    /// Whether nothing arrived that was not sent.
    pub fn is_clean(&self) -> bool {
        self.stats.corrupt_bytes == 0 && self.stats.refused == 0
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
