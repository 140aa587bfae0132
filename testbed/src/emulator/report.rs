//! Reports of `lr2-wan`: while it runs and at the end.

use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::report::{Durations, Summary};
use link::Counters;

/// How well the program kept time on a link.
#[derive(Default)]
pub(super) struct Punctuality {
    /// From when a frame was due to when the port had taken it.
    pub lateness: Durations,
    /// Per frame, the time between the two polls between which it arrived:
    /// how uncertain its arrival is.
    pub poll_gap: Durations,
}

impl Punctuality {
    pub fn summary(&self) -> Kept {
        Kept { lateness_us: self.lateness.summary(), poll_gap_us: self.poll_gap.summary() }
    }
}

/// [`Punctuality`] in figures, in microseconds.
#[derive(Serialize)]
pub(super) struct Kept {
    /// Beyond the delay asked for.
    lateness_us: Summary,
    poll_gap_us: Summary,
}

/// The counters of a link, and at the end how punctual it was.
#[derive(Serialize)]
pub(super) struct Link {
    pub a_to_b: Counters,
    pub b_to_a: Counters,
    #[serde(flatten)]
    pub kept: Option<Kept>,
}

/// All links at one time; the shape of a live line and, with [`Report`]'s
/// fields, of the report.
#[derive(Serialize)]
pub(super) struct Snapshot {
    /// Since the start.
    pub elapsed_s: f64,
    pub links: Named,
}

/// Links by name, in the order of the command line.
pub(super) struct Named {
    pub names: Arc<[String]>,
    pub links: Vec<Link>,
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.links.len()))?;
        for (name, link) in self.names.iter().zip(&self.links) {
            map.serialize_entry(name, link)?;
        }
        map.end()
    }
}

/// The report at the end.
#[derive(Serialize)]
pub(super) struct Report {
    pub program: &'static str,
    pub seed: u64,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}
