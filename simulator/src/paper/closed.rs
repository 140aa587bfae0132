//! One long flow against the closed forms, and finite ones against the paper's.

use super::Effort;
use super::embed::embed;
use super::forms::{self, Cell, LOSSES, Outcome, SCHEMES, TOLERANCE, WINDOWS};
use super::markdown::{loss, page, table};
use crate::report::figures::Figure;
use crate::report::format::share;
use crate::report::{Course, Scale};
use crate::scheme::Scheme;

/// Cells of which the effort does not show this many round trips are left out:
/// go-back-N where it delivers next to nothing.
const ROUND_TRIPS: f64 = 20.0;
/// Where finite flows are looked at: W, p.
const FINITE: [(u32, f64); 4] = [(50, 1e-2), (200, 1e-3), (200, 1e-2), (1_000, 1e-3)];
/// Their lengths in round trips.
const LENGTHS: [u32; 4] = [1, 2, 5, 20];
/// Round trip of the figure.
const SHOWN: u32 = 1_000;

/// Something to simulate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Job {
    /// A cell of the grid.
    Long(Cell),
    /// Messages of so many round trips under LR2.
    Finite(Cell, u32),
}

/// Results of the jobs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Closed {
    /// Of the grid.
    pub long: Vec<Outcome>,
    /// Cell, length in round trips, slowdown by the formula, and simulated.
    pub finite: Vec<(Cell, u32, f64, f64)>,
}

impl Closed {
    /// All jobs.
    pub fn jobs(effort: &Effort) -> Vec<Job> {
        let long = forms::cells().filter(|cell| cell.round_trips(effort.packets) >= ROUND_TRIPS);
        let finite = FINITE.into_iter().flat_map(|(window, loss)| {
            let cell = Cell { scheme: Scheme::LR2, window, loss };
            LENGTHS.map(|length| Job::Finite(cell, length))
        });
        long.map(Job::Long).chain(finite).collect()
    }

    /// Does `job` and nothing else.
    pub fn of(job: Job, effort: &Effort) -> Self {
        match job {
            Job::Long(cell) => {
                Self { long: vec![cell.simulate(effort.packets)], finite: Vec::new() }
            }
            Job::Finite(cell, length) => {
                let packets = u64::from(length * cell.window);
                let messages = (effort.packets / packets).clamp(3, 400) as u32;
                let (formula, simulated) = forms::slowdown(cell, packets, messages);
                Self { long: Vec::new(), finite: vec![(cell, length, formula, simulated)] }
            }
        }
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        self.long.append(&mut other.long);
        self.finite.append(&mut other.finite);
        self
    }

    fn at(&self, scheme: Scheme, window: u32, loss: f64) -> Option<&Outcome> {
        self.long.iter().find(|found| found.cell == Cell { scheme, window, loss })
    }

    fn furthest(&self) -> f64 {
        self.long.iter().map(|found| (found.ratio() - 1.0).abs()).fold(0.0, f64::max)
    }

    /// A summary.
    pub(super) fn in_short(&self) -> Option<String> {
        let near = self.long.iter().filter(|found| (found.ratio() - 1.0).abs() <= TOLERANCE);
        (!self.long.is_empty()).then(|| {
            format!(
                "One long flow: {} of {} cells within 10 % of their closed form, the furthest {} off.",
                near.count(),
                self.long.len(),
                share(self.furthest())
            )
        })
    }

    /// The section, and its figures.
    pub(super) fn section(&self) -> (String, Vec<Figure>) {
        if self.long.is_empty() {
            return (String::new(), Vec::new());
        }
        let has_any = |w: &u32| self.long.iter().any(|found| found.cell.window == *w);
        let windows = WINDOWS.into_iter().filter(has_any);
        let grids = windows.map(|window| format!("W = {window}\n\n{}\n", self.grid(window)));
        let is_off = |found: &&Outcome| (found.ratio() - 1.0).abs() > TOLERANCE;
        let off = match self.long.iter().filter(is_off).count() {
            0 => "All are within 10 %.".to_owned(),
            n => format!(
                "{n} differ by more than 10 %: their simulation has too few losses for a mean, or \
                 exceeds the form's limits."
            ),
        };
        let figure = self.course().figure();
        let values = [
            ("grids", grids.collect()),
            ("cells", self.long.len().to_string()),
            ("furthest", share(self.furthest())),
            ("off", off),
            ("finite", self.finite()),
            ("figure", figure.as_ref().map_or(String::new(), embed)),
        ];
        (page(include_str!("pages/forms.md"), &values), figure.into_iter().collect())
    }

    fn grid(&self, window: u32) -> String {
        let rows: Vec<Vec<String>> = LOSSES
            .iter()
            .map(|&p| {
                let cell = |scheme| match self.at(scheme, window, p) {
                    Some(found) => format!("{:.3} / {:.3}", found.simulated, found.form),
                    None => "–".to_owned(),
                };
                std::iter::once(loss(p)).chain(SCHEMES.map(cell)).collect()
            })
            .collect();
        let mut heads = vec!["p"];
        heads.extend(SCHEMES.map(Scheme::name));
        table(&heads, &rows)
    }

    fn finite(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .finite
            .iter()
            .map(|(cell, length, formula, simulated)| {
                vec![
                    format!("{}, {}", cell.window, loss(cell.loss)),
                    length.to_string(),
                    format!("{formula:.3}"),
                    format!("{simulated:.3}"),
                    format!("{:+.1} %", 100.0 * (simulated / formula - 1.0)).replace('-', "−"),
                ]
            })
            .collect();
        table(&["W, p", "δ", "formula", "simulated", "difference"], &rows)
    }

    fn course(&self) -> Course {
        let places: Vec<_> = LOSSES.iter().map(|&p| (p, loss(p))).collect();
        let line = |scheme: Scheme| {
            let value = |&p: &f64| {
                // A measurement may be a hair above the whole.
                let share = self.at(scheme, SHOWN, p).map(|found| found.simulated.min(1.0));
                100.0 * share.unwrap_or(f64::NAN)
            };
            (scheme, LOSSES.iter().map(value).collect())
        };
        Course {
            name: "forms",
            title: format!(
                "One long flow, {SHOWN} packets per round trip: share of the rate delivered"
            ),
            axis: "loss of packets".into(),
            places,
            scale: Scale::Linear("delivered (%)".into()),
            lines: SCHEMES.map(line).to_vec(),
        }
    }
}
