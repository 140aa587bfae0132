//! The plots of a study and of a sweep.

use super::plot::{Axis, Line, Plot};
use super::{Study, Sweep, SweepPoint, format, series, theme};
use crate::results::summary::{Group, SIZE_LABELS, SizeBucket};
use crate::results::{Distribution, Pools, Summary};
use crate::scheme::Scheme;

/// A plot with its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// A word for it, fit for a file name.
    pub name: &'static str,
    /// The title.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// An `svg` element that takes its look from the report's style sheet.
    pub(super) svg: String,
}

impl Figure {
    pub(super) fn new(name: &'static str, title: &str, caption: &str, plot: &Plot) -> Self {
        let svg = plot.svg(title);
        Self { name, title: title.to_owned(), caption: caption.to_owned(), svg }
    }

    /// The plot as an SVG file that stands by itself.
    pub fn standalone(&self) -> String {
        let css = theme::plot_css();
        let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>";
        self.svg.replacen(">\n", &format!(">\n<style>\n{css}</style>\n{ground}\n"), 1)
    }
}

/// All that can be drawn of a study.
pub fn of_study(study: &Study) -> Vec<Figure> {
    let summaries = study.summaries();
    let schemes: Vec<Scheme> = summaries.iter().map(|summary| summary.scheme).collect();
    let by_size = |title, name, of: fn(&Distribution) -> Option<f64>| {
        slowdown_by_size(name, title, &summaries, of)
    };
    let figures = [
        fct_cdf(study, &schemes),
        fct_tail(study, &schemes),
        by_size("Mean slowdown by message size", "slowdown-mean", |d| d.mean),
        by_size("99th percentile of slowdown by message size", "slowdown-p99", |d| d.p99),
        recovery_cdf(study, &schemes),
        pool(study, &schemes, "reorder-pool", "Reordering pool", |p| p.reorder_bytes),
        pool(study, &schemes, "backup-pool", "Backup pool", |p| p.backup_bytes),
        pool(study, &schemes, "resend-cache", "Resend cache", |p| p.cache_bytes),
    ];
    figures.into_iter().flatten().collect()
}

/// All that can be drawn of a sweep.
pub fn of_sweep(sweep: &Sweep) -> Vec<Figure> {
    let goodput = |summary: &Summary| Some(summary.main().goodput_bps);
    let slowdown = |of: fn(&Distribution) -> Option<f64>| {
        move |summary: &Summary| of(&summary.main().slowdown)
    };
    // Of single messages the percentile is the mean.
    let all = || sweep.points.iter().flat_map(|point| &point.summaries);
    let (divisor, unit) = format::rate_unit(all().filter_map(goodput).fold(0.0, f64::max));
    let has_tail = all().any(|summary| summary.main().fct_us.count > 1);
    let figures = [
        over_sweep(
            sweep,
            ("goodput", "Goodput", "Payload of completed messages per time."),
            &|max| Axis::linear(format!("goodput ({unit})"), max),
            &|summary| goodput(summary).map(|bps| bps / divisor),
        ),
        over_sweep(
            sweep,
            ("mean-slowdown", "Mean slowdown", SLOWDOWN),
            &|max| slowdown_axis([max].into_iter()),
            &slowdown(|d| d.mean),
        ),
        has_tail
            .then(|| {
                over_sweep(
                    sweep,
                    ("p99-slowdown", "99th percentile of slowdown", SLOWDOWN),
                    &|max| slowdown_axis([max].into_iter()),
                    &slowdown(|d| d.p99),
                )
            })
            .flatten(),
        over_sweep(
            sweep,
            (
                "sent-twice",
                "Sent more than once",
                "Data packets that had crossed the long-haul link before, of all that crossed it.",
            ),
            &|max| Axis::linear("share of data bytes (%)", max),
            &|summary| Some(100.0 * summary.link.sent_twice_share),
        ),
    ];
    figures.into_iter().flatten().collect()
}

const SLOWDOWN: &str = "Completion time as a multiple of what it would be alone and without loss. \
                        There is no point where too many messages did not complete.";

fn slowdown_axis(values: impl Iterator<Item = f64>) -> Option<Axis> {
    Axis::log("slowdown (1 = ideal)", values.chain([1.0]), format::axis)
}

/// The lines of `schemes`, those that have points; ours come last, on top.
fn lines(schemes: &[Scheme], points: impl Fn(Scheme) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line = |&scheme: &Scheme| Line { scheme, points: points(scheme) };
    schemes.iter().map(line).filter(is_drawn).collect()
}

fn is_drawn(line: &Line) -> bool {
    line.points.iter().any(|point| point.1.is_finite())
}

fn xs(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.0)
}

fn ys(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.1)
}

fn fct_cdf(study: &Study, schemes: &[Scheme]) -> Option<Figure> {
    let lines = lines(schemes, |scheme| series::fct_us(scheme, &study.results));
    let plot = cdf_plot("flow completion time", "share of messages (%)", lines)?;
    let caption = "The further left the better. A line that ends below 100 % belongs to a scheme \
                   under which messages did not complete.";
    Some(Figure::new("fct-cdf", "Flow completion times", caption, &plot))
}

/// Fewer different times than these have no tail to draw.
const FEW: usize = 10;

fn fct_tail(study: &Study, schemes: &[Scheme]) -> Option<Figure> {
    let lines = lines(schemes, |scheme| {
        steps(&series::fct_us(scheme, &study.results), |share| 100.0 * (1.0 - share))
    });
    if lines.iter().all(|line| line.points.len() < 2 * FEW) {
        return None;
    }
    // The largest value, than which none is larger, is 0 but for rounding.
    let y = "share of messages that take longer (%)";
    let plot = Plot {
        x: Axis::log("flow completion time", xs(&lines), format::axis_micros)?,
        y: Axis::log(y, ys(&lines).filter(|share| *share > 1e-9), format::axis)?,
        lines,
        are_marked: false,
    };
    let caption = "The same, with the slowest messages drawn large: at 1 % is the 99th \
                   percentile, at 0.1 % the 99.9th.";
    Some(Figure::new("fct-tail", "Tail of the flow completion times", caption, &plot))
}

fn recovery_cdf(study: &Study, schemes: &[Scheme]) -> Option<Figure> {
    let lines = lines(schemes, |scheme| series::recovery_us(scheme, &study.results));
    let plot = cdf_plot("time from loss to arrival", "share of lost packets (%)", lines)?;
    let caption = "How long a data packet that the long-haul link lost took to reach its host \
                   all the same.";
    Some(Figure::new("recovery-cdf", "Recovery times", caption, &plot))
}

/// A cumulative distribution as the stairs that it is, of heights that `to` makes
/// of shares.
fn steps(cdf: &[(f64, f64)], to: fn(f64) -> f64) -> Vec<(f64, f64)> {
    let before = std::iter::once(0.0).chain(cdf.iter().map(|point| point.1));
    let step = |(&(x, share), before)| [(x, to(before)), (x, to(share))];
    cdf.iter().zip(before).flat_map(step).collect()
}

/// Cumulative distributions of times in microseconds.
fn cdf_plot(x: &str, y: &str, mut lines: Vec<Line>) -> Option<Plot> {
    for line in &mut lines {
        line.points = steps(&line.points, |share| 100.0 * share);
    }
    Some(Plot {
        x: Axis::log(x, xs(&lines), format::axis_micros)?,
        y: Axis::linear(y, 100.0)?,
        lines,
        are_marked: false,
    })
}

/// A figure of the slowdown by message size; `None` if all have the same.
pub fn slowdown_by_size(
    name: &'static str,
    title: &str,
    summaries: &[Summary],
    of: fn(&Distribution) -> Option<f64>,
) -> Option<Figure> {
    let used = |bucket: &SizeBucket| bucket.fct_us.count > 0;
    let is_used = |i: &usize| summaries.iter().any(|s| s.main().sizes.get(*i).is_some_and(used));
    let used: Vec<usize> = (0..SIZE_LABELS.len()).filter(is_used).collect();
    // One size is no course of anything.
    if used.len() < 2 {
        return None;
    }
    let line = |summary: &Summary| {
        let Group { sizes, .. } = summary.main();
        let value = |i: usize| of(&sizes.get(i)?.slowdown);
        let point = |(place, &i): (usize, &usize)| (place as f64, value(i).unwrap_or(f64::NAN));
        let points = used.iter().enumerate().map(point).collect();
        Line { scheme: summary.scheme, points }
    };
    let lines: Vec<Line> = summaries.iter().map(line).filter(is_drawn).collect();
    let places: Vec<(f64, String)> =
        used.iter().enumerate().map(|(at, &i)| (at as f64, SIZE_LABELS[i].to_owned())).collect();
    let plot = Plot {
        x: Axis::places("message size", &places, false)?,
        y: slowdown_axis(ys(&lines))?,
        lines,
        are_marked: true,
    };
    Some(Figure::new(name, title, SLOWDOWN, &plot))
}

fn pool(
    study: &Study,
    schemes: &[Scheme],
    name: &'static str,
    title: &str,
    of: fn(&Pools) -> u64,
) -> Option<Figure> {
    let mut lines = lines(schemes, |scheme| {
        let points = series::pools(scheme, &study.results);
        points.iter().map(|point| (point.at_us, of(&point.held) as f64)).collect()
    });
    // Only who uses it at all.
    lines.retain(|line| line.points.iter().any(|point| point.1 > 0.0));
    let (unit_us, unit) = format::time_unit(xs(&lines).fold(0.0, f64::max));
    let (unit_bytes, byte_unit) = format::byte_unit(ys(&lines).fold(0.0, f64::max));
    for (x, y) in lines.iter_mut().flat_map(|line| &mut line.points) {
        *x /= unit_us;
        *y /= unit_bytes;
    }
    let plot = Plot {
        x: Axis::linear(format!("time ({unit})"), xs(&lines).fold(0.0, f64::max))?,
        y: Axis::linear(format!("held ({byte_unit})"), ys(&lines).fold(0.0, f64::max))?,
        lines,
        are_marked: false,
    };
    let caption = "What the fuller of the gateways held, in the run with the first seed.";
    Some(Figure::new(name, title, caption, &plot))
}

/// A figure of each scheme over the value that changes; `words`: name, title, caption.
fn over_sweep(
    sweep: &Sweep,
    (name, title, caption): (&'static str, &str, &str),
    y_axis: &dyn Fn(f64) -> Option<Axis>,
    value: &dyn Fn(&Summary) -> Option<f64>,
) -> Option<Figure> {
    let is_log = sweep.is_log && sweep.points.iter().all(|point| point.x > 0.0);
    let is_even = sweep.is_log && !is_log;
    let x = |i: usize| if is_even { i as f64 } else { sweep.points[i].x };
    let lines = lines(&sweep.schemes(), |scheme| {
        let y = |point: &SweepPoint| point.of(scheme).and_then(value).unwrap_or(f64::NAN);
        sweep.points.iter().enumerate().map(|(i, point)| (x(i), y(point))).collect()
    });
    let places: Vec<(f64, String)> =
        sweep.points.iter().enumerate().map(|(i, point)| (x(i), point.label.clone())).collect();
    let plot = Plot {
        x: Axis::places(&sweep.axis, &places, is_log)?,
        y: y_axis(ys(&lines).fold(0.0, f64::max))?,
        lines,
        are_marked: true,
    };
    Some(Figure::new(name, title, caption, &plot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_only_at_its_values() {
        let stairs = steps(&[(3.0, 0.5), (7.0, 1.0)], |share| 10.0 * share);
        assert_eq!(stairs, [(3.0, 0.0), (3.0, 5.0), (7.0, 5.0), (7.0, 10.0)]);
    }
}
