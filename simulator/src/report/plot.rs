//! One kind of plot: lines of schemes over two axes, with a legend, as SVG.
//!
//! Ticks are chosen here, so that both kinds of axis are plain coordinates to the
//! drawing library: a logarithmic one has the logarithms.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::theme::{self, GRID, INK};
use crate::scheme::Scheme;
use crate::schemes::{Look, Marker, profile};

/// As shown, in pixels.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 400;
/// The library draws at whole pixels: at so many per one shown.
const FINE: u32 = 2;
const LEGEND: u32 = 122;
const TEXT: u32 = 16 * FINE;

/// A plot.
pub struct Plot {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// The lines, later ones above earlier ones.
    pub lines: Vec<Line>,
    /// Whether points are marked, and not only joined.
    pub are_marked: bool,
}

/// A scheme's line.
pub struct Line {
    /// Whose it is.
    pub scheme: Scheme,
    /// (x, y) in the units of the axes. Where there is no y, and at 0 on a
    /// logarithmic axis, the line is interrupted; such a y is not a number.
    pub points: Vec<(f64, f64)>,
}

/// An axis.
#[derive(Clone)]
pub struct Axis {
    title: String,
    is_log: bool,
    /// In the coordinates drawn.
    range: (f64, f64),
    /// Where, in the coordinates drawn, with the label.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to `max` in steps that are easy to read. `None` if `max` is not
    /// positive.
    pub fn linear(title: impl Into<String>, max: f64) -> Option<Self> {
        if !(max > 0.0 && max.is_finite()) {
            return None;
        }
        let raw = max / 5.0;
        let power = raw.log10().floor() as i32;
        // Multiples of it, and how many decimals these need.
        let steps = [(1.0, 0), (2.0, 0), (2.5, 1), (5.0, 0), (10.0, -1)];
        let steps = steps.map(|(n, more)| (n * 10_f64.powi(power), more - power));
        let (step, decimals) = steps.into_iter().find(|step| step.0 >= raw).unwrap_or(steps[4]);
        let decimals = usize::try_from(decimals).unwrap_or(0);
        let count = (max / step - 1e-9).ceil() as u32;
        let ticks = (0..=count).map(|i| {
            let value = f64::from(i) * step;
            (value, format!("{value:.decimals$}"))
        });
        let top = f64::from(count) * step;
        Some(Self { title: title.into(), is_log: false, range: (0.0, top), ticks: ticks.collect() })
    }

    /// Logarithmic, around `values`, with ticks at powers of ten or, if there are
    /// too few of them, at 1, 2 and 5. `None` if no value is positive.
    pub fn log(
        title: impl Into<String>,
        values: impl Iterator<Item = f64>,
        label: fn(f64) -> String,
    ) -> Option<Self> {
        let values = values.filter(|v| *v > 0.0 && v.is_finite());
        let range = values.fold(None, |range: Option<(f64, f64)>, v| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        });
        let (low, high) = range?;
        let multiples: &[f64] = if high / low < 300.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32 + 1;
        let candidates: Vec<f64> = (first..=last)
            .flat_map(|decade| multiples.iter().map(move |m| m * 10_f64.powi(decade)))
            .collect();
        // One tick below the lowest value and one above the highest.
        let below = candidates.iter().rposition(|&t| t <= low * 1.000_001).unwrap_or(0);
        let above = candidates.iter().position(|&t| t >= high / 1.000_001);
        let above = above.unwrap_or(candidates.len() - 1).max(below + 1);
        let shown = &candidates[below..=above];
        let every = shown.len().div_ceil(9);
        let tick = |(i, t): (usize, &f64)| {
            (t.log10(), if i % every == 0 { label(*t) } else { String::new() })
        };
        Some(Self {
            title: title.into(),
            is_log: true,
            range: (shown[0].log10(), shown[shown.len() - 1].log10()),
            ticks: shown.iter().enumerate().map(tick).collect(),
        })
    }

    /// Of named places: `(x, label)`.
    pub fn places(
        title: impl Into<String>,
        places: &[(f64, String)],
        is_log: bool,
    ) -> Option<Self> {
        let to = |x: f64| if is_log { x.log10() } else { x };
        let (first, last) = (to(places.first()?.0), to(places.last()?.0));
        let margin = if last > first { 0.04 * (last - first) } else { 0.5 };
        let every = places.len().div_ceil(10);
        let tick = |(i, (x, label)): (usize, &(f64, String))| {
            (to(*x), if i % every == 0 { label.clone() } else { String::new() })
        };
        Some(Self {
            title: title.into(),
            is_log,
            range: (first - margin, last + margin),
            ticks: places.iter().enumerate().map(tick).collect(),
        })
    }

    /// Where a value is drawn; `None`: it has no place.
    fn at(&self, value: f64) -> Option<f64> {
        let at = if self.is_log { value.log10() } else { value };
        at.is_finite().then(|| at.clamp(self.range.0, self.range.1))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(at: &f64) -> String {
        at.to_string()
    }

    fn format_ext(&self, at: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0 == *at);
        tick.map_or_else(String::new, |tick| tick.1.clone())
    }
}

impl Plot {
    /// The plot as an `svg` element of class `plot`, whose look needs
    /// [`theme::plot_css`]. `describe` is for those who can't see it.
    pub fn svg(&self, describe: &str) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).expect("writing to memory does not fail");
        let (width, height) = (WIDTH * FINE, HEIGHT * FINE);
        let found = format!("<svg width=\"{width}\" height=\"{height}\"");
        let describe = maud::html! { (describe) }.into_string();
        let head = format!(
            "<svg class=\"plot\" role=\"img\" aria-label=\"{describe}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\""
        );
        svg.replacen(&found, &head, 1)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error + '_>> {
        let root = SVGBackend::with_string(svg, (WIDTH * FINE, HEIGHT * FINE)).into_drawing_area();
        let (plot, legend) = root.split_horizontally((WIDTH - LEGEND) * FINE);
        let mut chart = ChartBuilder::on(&plot)
            .margin_top(14 * FINE)
            .margin_right(16 * FINE)
            .margin_bottom(4 * FINE)
            .margin_left(4 * FINE)
            .x_label_area_size(50 * FINE)
            .y_label_area_size(66 * FINE)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let text = ("sans-serif", TEXT).into_text_style(&root).color(&INK);
        chart
            .configure_mesh()
            .bold_line_style(GRID.stroke_width(FINE))
            .light_line_style(TRANSPARENT)
            .axis_style(GRID.stroke_width(FINE))
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .draw()?;
        for line in &self.lines {
            let look = profile(line.scheme).look;
            let place = |&(x, y): &(f64, f64)| Some((self.x.at(x)?, self.y.at(y)?));
            let places: Vec<Option<(f64, f64)>> = line.points.iter().map(place).collect();
            let style = theme::colour(look.light).stroke_width(look.width * FINE);
            for stretch in places.split(Option::is_none) {
                chart.draw_series(LineSeries::new(stretch.iter().copied().flatten(), style))?;
            }
            if self.are_marked {
                for at in places.into_iter().flatten() {
                    chart.plotting_area().draw(&(EmptyElement::at(at) + mark(&look)))?;
                }
            }
        }
        self.draw_legend(&legend)?;
        root.present()?;
        Ok(())
    }

    fn draw_legend<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        let anchor = Pos::new(HPos::Left, VPos::Center);
        let text = ("sans-serif", TEXT).into_text_style(area).color(&INK).pos(anchor);
        let fine = FINE as i32;
        let mut schemes: Vec<Scheme> = self.lines.iter().map(|line| line.scheme).collect();
        schemes.sort_unstable();
        for (i, &scheme) in schemes.iter().enumerate() {
            let look = profile(scheme).look;
            let y = (24 + 22 * i as i32) * fine;
            let sample = vec![(0, y), (28 * fine, y)];
            area.draw(&PathElement::new(
                sample,
                theme::colour(look.light).stroke_width(look.width * FINE),
            ))?;
            if self.are_marked {
                area.draw(&(EmptyElement::at((14 * fine, y)) + mark(&look)))?;
            }
            area.draw(&Text::new(scheme.name(), (36 * fine, y), text.clone()))?;
        }
        Ok(())
    }
}

/// The marker of a point, around it.
fn mark(look: &Look) -> Polygon<(i32, i32)> {
    let r = 5 * FINE as i32;
    let circle = || (0..24).map(|i| f64::from(i) * std::f64::consts::TAU / 24.0);
    let outline: Vec<(i32, i32)> = match look.marker {
        Marker::Circle => circle()
            .map(|a| {
                ((f64::from(r) * a.cos()).round() as i32, (f64::from(r) * a.sin()).round() as i32)
            })
            .collect(),
        Marker::Square => vec![(-r + 1, -r + 1), (r - 1, -r + 1), (r - 1, r - 1), (-r + 1, r - 1)],
        Marker::Diamond => vec![(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
        Marker::Up => vec![(0, -r - 1), (r + 1, r - 1), (-r - 1, r - 1)],
        Marker::Down => vec![(0, r + 1), (r + 1, -r + 1), (-r - 1, -r + 1)],
    };
    Polygon::new(outline, theme::colour(look.light).filled())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_has_round_ticks_up_to_the_largest_value() {
        let ticks = |max| Axis::linear("", max).unwrap().ticks.into_iter().map(|t| t.1);
        assert_eq!(ticks(1.0).collect::<Vec<_>>(), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(93.0).collect::<Vec<_>>(), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(0.11).next_back().as_deref(), Some("0.125"));
        assert_eq!(ticks(12.0).next_back().as_deref(), Some("12.5"));
        assert!(Axis::linear("", 0.0).is_none());
    }

    #[test]
    fn a_logarithmic_axis_encloses_its_values() {
        let label = |value: f64| format!("{value}");
        let wide = Axis::log("", [3.0, 4000.0].into_iter(), label).unwrap();
        assert_eq!(labels(&wide), ["1", "10", "100", "1000", "10000"]);
        let narrow = Axis::log("", [1.0, 1.3, 30.0].into_iter(), label).unwrap();
        assert_eq!(labels(&narrow), ["1", "2", "5", "10", "20", "50"]);
        let one = Axis::log("", [1.0].into_iter(), label).unwrap();
        assert_eq!(labels(&one), ["1", "2"]);
        assert!(Axis::log("", [0.0].into_iter(), label).is_none());
    }

    #[test]
    fn what_has_no_place_is_not_drawn() {
        let axis = Axis::log("", [1.0, 10.0].into_iter(), |v| format!("{v}")).unwrap();
        assert_eq!(axis.at(0.0), None);
        assert_eq!(axis.at(f64::NAN), None);
        assert_eq!(axis.at(10.0), Some(1.0));
    }
}
