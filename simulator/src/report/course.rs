//! Plots of a figure of each scheme over a parameter, with titles and axes of the caller's,
//! where those of a sweep do not suit.

use super::figures::Figure;
use super::format;
use super::plot::{Axis, Line, Plot};
use crate::scheme::Scheme;

/// The vertical axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From 0.
    Linear(String),
    /// Around the values, and 1 is among them.
    Log(String),
}

/// A plot of lines over places that have names.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// A word for it, fit for a file name.
    pub name: &'static str,
    /// The title.
    pub title: String,
    /// The value that changes, with its unit.
    pub axis: String,
    /// Its values and how they are written, rising. On a logarithmic scale if
    /// all are positive and they span a power of ten.
    pub places: Vec<(f64, String)>,
    /// The quantity shown.
    pub scale: Scale,
    /// Of each scheme, a value per place; not a number where there is none.
    pub lines: Vec<(Scheme, Vec<f64>)>,
}

impl Course {
    /// The plot; `None` if there is nothing to show.
    pub fn figure(&self) -> Option<Figure> {
        let (first, last) = (self.places.first()?.0, self.places.last()?.0);
        let is_log = first > 0.0 && last / first >= 10.0;
        let lines: Vec<Line> = self
            .lines
            .iter()
            .filter(|(_, values)| values.iter().any(|value| value.is_finite()))
            .map(|(scheme, values)| Line {
                scheme: *scheme,
                points: self
                    .places
                    .iter()
                    .map(|place| place.0)
                    .zip(values.iter().copied())
                    .collect(),
            })
            .collect();
        let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let y = match &self.scale {
            Scale::Linear(title) => Axis::linear(title, values().fold(0.0, f64::max))?,
            Scale::Log(title) => Axis::log(title, values().chain([1.0]), format::axis)?,
        };
        let x = Axis::places(&self.axis, &self.places, is_log)?;
        let plot = Plot { x, y, lines, are_marked: true };
        Some(Figure::new(self.name, &self.title, "", &plot))
    }
}
