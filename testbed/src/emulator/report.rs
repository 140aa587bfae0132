//! What `lr2-wan` tells: while it runs and at the end.

use serde::Serialize;

use crate::report::{Durations, Summary};
use crate::wan::Counters;

/// How well the program kept time.
#[derive(Default)]
pub(super) struct Punctuality {
    /// From when a frame was due to when the port had taken it.
    pub lateness: Durations,
    /// Per frame, the time between the two polls between which it arrived:
    /// how uncertain its arrival is.
    pub poll_gap: Durations,
}

/// The counters of both directions at one time; the shape of a live line and,
/// with [`Report`]'s fields, of the report.
#[derive(Serialize)]
pub(super) struct Snapshot {
    /// Since the start.
    pub elapsed_s: f64,
    pub a_to_b: Counters,
    pub b_to_a: Counters,
}

/// The report at the end.
#[derive(Serialize)]
pub(super) struct Report {
    pub program: &'static str,
    pub seed: u64,
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Beyond the delay asked for, in microseconds.
    pub lateness_us: Summary,
    /// In microseconds.
    pub poll_gap_us: Summary,
}
