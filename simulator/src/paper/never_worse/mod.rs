//! Never worse than no gateway: LANs under congestion, with and without loss on
//! the long haul, each of the product's modes against plain go-back-N with the
//! same seeds, messages, hosts and switches.
//!
//! `design` lists the cells, `judge` decides on the runs, `page`
//! writes the verdicts down.

mod design;
mod explained;
mod judge;
mod page;

pub use design::{Cell, cell, cells};
pub use judge::{Judged, LIMIT, OURS, Times, Verdict};

use super::Effort;
use super::markdown::table;

/// The files of the page, by their names relative to the folder of the page.
pub fn files(effort: &Effort, command: &str, judged: &[Judged]) -> Vec<(String, String)> {
    vec![
        ("never-worse.md".to_owned(), page::text(effort, command, judged)),
        (format!("{}/never-worse.csv", super::Page::FOLDER), page::csv(judged)),
    ]
}
