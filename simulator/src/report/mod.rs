//! Results for people and programs: JSON, CSV, and a report with
//! plots in one HTML file.

mod course;
pub(crate) mod csv;
pub mod figures;
pub mod format;
mod html;
mod json;
mod parquet;
mod plot;
mod series;
mod tables;
mod theme;
mod words;

use serde::Serialize;

use crate::results::{RunResult, Summary};
use crate::scheme::Scheme;
use crate::schemes;

pub use self::course::{Course, Scale};
pub use self::csv::{csv_flows, csv_summary, csv_sweeps};
pub use html::html;
pub use json::{json, json_sweep};
pub use parquet::parquet_flows;

/// Several schemes on one scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Name of the scenario.
    pub scenario: String,
    /// The simulation, in a sentence or a few.
    pub about: String,
    /// The scenario's parameters as people are to read them.
    pub parameters: Vec<Parameter>,
    /// All runs, in any order.
    pub results: Vec<RunResult>,
}

/// Several schemes while one thing changes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sweep {
    /// A name for it.
    #[serde(rename = "sweep")]
    pub name: String,
    /// The simulation, in a sentence or a few.
    pub about: String,
    /// The constant settings.
    pub parameters: Vec<Parameter>,
    /// The value that changes, with its unit: "loss of packets", "round trip (ms)".
    pub axis: String,
    /// Whether it is shown on a logarithmic scale. If it is 0 somewhere, points
    /// are then evenly spaced.
    #[serde(skip)]
    pub is_log: bool,
    /// In rising order of `x`.
    pub points: Vec<SweepPoint>,
}

/// A value of the axis, and the results there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepPoint {
    /// The value.
    pub x: f64,
    /// As it is written at the axis and in tables: "1e-3", "10 ms".
    pub label: String,
    /// One per scheme.
    pub summaries: Vec<Summary>,
}

/// A parameter of a scenario, for the reader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value, with unit.
    pub value: String,
}

impl Parameter {
    /// `name` is `value`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The content of an HTML report.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// The subject, in a sentence or a few.
    pub about: String,
    /// One after the other.
    pub parts: Vec<Part>,
}

/// A part of a report.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// See there.
    Study(Study),
    /// See there.
    Sweep(Sweep),
}

impl Study {
    /// The figures of each scheme that was run, in the order of [`schemes::all`].
    pub fn summaries(&self) -> Vec<Summary> {
        schemes::all().into_iter().filter_map(|scheme| Summary::of(scheme, &self.results)).collect()
    }
}

impl Sweep {
    /// The schemes of its points, in the order of [`schemes::all`].
    pub fn schemes(&self) -> Vec<Scheme> {
        let runs = |&scheme: &Scheme| {
            let mut summaries = self.points.iter().flat_map(|point| &point.summaries);
            summaries.any(|summary| summary.scheme == scheme)
        };
        schemes::all().into_iter().filter(runs).collect()
    }
}

impl SweepPoint {
    /// The results of `scheme` here.
    pub fn of(&self, scheme: Scheme) -> Option<&Summary> {
        self.summaries.iter().find(|summary| summary.scheme == scheme)
    }
}
