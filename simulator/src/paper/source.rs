//! The figures that the publication of LR2 reports, beside those found here.

use super::evaluation::{COLUMNS, Of, POOLS, WORKLOADS};
use super::markdown::{loss, table};
use super::targets::ratio;
use super::{Found, of_series, within};
use crate::report::format::{bytes, change, number, share};
use crate::results::Summary;
use crate::scheme::Scheme;

/// The outcome of a reported figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reproduced,
    Partly,
    Not,
    NotRun,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Partly => "in part",
            Self::Not => "**not reproduced**",
            Self::NotRun => "not run",
        }
    }

    /// Of a condition that holds in so many of all settings.
    fn of(holds: usize, all: usize) -> Self {
        match holds {
            0 => Self::Not,
            _ if holds == all => Self::Reproduced,
            _ => Self::Partly,
        }
    }
}

/// A row: the reported figure, the found one, the verdict and its reason.
type Row = (&'static str, String, Verdict, &'static str);

/// The whole table.
pub(super) fn table_of(found: &[Found]) -> String {
    let web = of_series(found, WORKLOADS[0].0);
    let mut rows: Vec<Row> = [
        against_gbn(
            &web,
            0,
            (0.30, 0.60),
            "mean completion time on WebSearch: −40 to −70 % against go-back-N",
        ),
        against_gbn(&web, 1, (0.26, 0.64), "tail on WebSearch: −36 to −74 % against go-back-N"),
        against_gbn(&web, 2, (0.40, 0.60), "flows above 500 KB: about half the time"),
        link_use(&web),
        at_most_loss(&web),
        buffer(&web),
        published_pools(found),
        masks(found),
    ]
    .into_iter()
    .flatten()
    .collect();
    rows.extend(NOT_RUN.map(|(figure, why)| (figure, "–".to_owned(), Verdict::NotRun, why)));
    rows.push((
        "slowdown of a flow: 1 + N·p / ((1 + δ)(1 + 2DBp))",
        "see *Finite flows*".to_owned(),
        Verdict::Reproduced,
        "too low for flows shorter than a round trip, since repeats are lost too",
    ));
    let cells = rows.into_iter().map(|(figure, found, verdict, why)| {
        vec![figure.to_owned(), found, verdict.word().to_owned(), why.to_owned()]
    });
    table(&["reported", "found", "verdict", "why"], &cells.collect::<Vec<_>>())
}

const NOT_RUN: [(&str, &str); 4] = [
    ("testbed: Tofino switches, E810 RNICs, a delay line", "the hardware is not at hand"),
    ("throughput that recirculation costs a switch", "the gateways are no P4 switches"),
    ("bitmaps of selective repeat exceed the memory of an RNIC", "no RNIC's memory is modelled"),
    (
        "the gain grows with the distance beyond 800 µs",
        "the settings end there; *Distance* has others",
    ),
];

/// A ratio of LR2 as published to go-back-N within the reported range.
fn against_gbn(
    web: &[&Found],
    column: usize,
    (low, high): (f64, f64),
    figure: &'static str,
) -> Option<Row> {
    let of: Of = COLUMNS[column];
    let ratios: Vec<f64> =
        web.iter().filter_map(|f| ratio(f, of, Scheme::LR2_PAPER, Scheme::GBN)).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    let within = ratios.iter().filter(|ratio| (low..=high).contains(*ratio)).count();
    let found = format!(
        "{} to {}; in the range in {within} of {} settings",
        change(most),
        change(least),
        web.len()
    );
    let why = "pW, the loss times the packets per round trip, spans a factor of twenty here";
    Some((figure, found, Verdict::of(within, web.len()), why))
}

/// Near lossless: at most a tenth less.
fn link_use(web: &[&Found]) -> Option<Row> {
    let of = |found: &Found, scheme| found.scheme(scheme).map(|s| s.link.useful_share);
    let shares: Vec<(f64, f64)> = web
        .iter()
        .filter_map(|f| Some((of(f, Scheme::LR2_PAPER)?, of(f, Scheme::LOSSLESS)?)))
        .collect();
    let least = shares.iter().map(|(own, _)| *own).reduce(f64::min)?;
    let most = shares.iter().map(|(own, _)| *own).reduce(f64::max)?;
    let near = shares.iter().filter(|(own, ideal)| *own >= 0.9 * ideal).count();
    let found = format!(
        "{} to {}; at most a tenth below lossless in {near} of {} settings",
        share(least),
        share(most),
        shares.len()
    );
    let why = "while load is offered; at high loss a backlog remains when the last message is due";
    Some(("use of the link near lossless, about 60 %", found, Verdict::of(near, shares.len()), why))
}

/// The largest gain at the largest loss, per delay.
fn at_most_loss(web: &[&Found]) -> Option<Row> {
    let gain = |found: &Found| ratio(found, COLUMNS[0], Scheme::LR2_PAPER, Scheme::GBN);
    let mut delays: Vec<_> = web.iter().map(|f| f.setting.scenario.long_haul.delay).collect();
    delays.dedup();
    let (mut holds, mut at) = (0, Vec::new());
    for delay in &delays {
        let of = web.iter().filter(|f| f.setting.scenario.long_haul.delay == *delay);
        let ranked = of.filter_map(|f| Some((gain(f)?, f.setting.x)));
        let best = ranked.reduce(|a, b| if b.0 < a.0 { b } else { a })?;
        let most = web.iter().map(|f| f.setting.x).fold(0.0, f64::max);
        holds += usize::from(best.1 == most);
        at.push(format!("{} µs: {}", delay.as_micros(), loss(best.1)));
    }
    let figure = "the largest gain is at a loss of 1e-2";
    Some((figure, at.join(", "), Verdict::of(holds, delays.len()), ""))
}

/// Reordering pool at the largest loss.
fn buffer(web: &[&Found]) -> Option<Row> {
    let most = web.iter().map(|f| f.setting.x).fold(0.0, f64::max);
    let at = web.iter().filter(|f| f.setting.x == most);
    let peaks: Vec<u64> =
        at.filter_map(|f| Some(f.scheme(Scheme::LR2_PAPER)?.pools.reorder_bytes)).collect();
    let (least, most) = (*peaks.iter().min()?, *peaks.iter().max()?);
    let found = format!("peak {} to {}", bytes(least), bytes(most));
    let order = (500_000..5_000_000).contains(&most);
    let why = "a gap whose request or repeat is lost stays open for a retransmission timeout";
    let verdict = if order { Verdict::Reproduced } else { Verdict::Not };
    Some(("a buffer of the order of 1 MB at 1e-2", found, verdict, why))
}

/// Pools of 1 MB and 50 kB suffice.
fn published_pools(found: &[Found]) -> Option<Row> {
    let bounded = of_series(found, POOLS);
    let web = of_series(found, WORKLOADS[0].0);
    let mean = |of: &Summary| of.main().fct_us.mean;
    let times = |tight: &&Found| -> Option<f64> {
        let free = web.iter().find(|free| free.setting.label == tight.setting.label)?;
        Some(mean(tight.scheme(Scheme::LR2_PAPER)?)? / mean(free.scheme(Scheme::LR2_PAPER)?)?)
    };
    let all: Vec<Option<f64>> = bounded.iter().map(times).collect();
    let cells = bounded.iter().zip(&all).map(|(found, times)| {
        let times = times.map_or("not complete".to_owned(), |t| format!("{} times", number(t)));
        format!("{}: {times}", loss(found.setting.x))
    });
    let enough = all.iter().filter(|times| times.is_some_and(|times| times <= 1.05)).count();
    let why = "all flows share the pool; several gaps are open at a time";
    let figure = "pools of 1 MB and 50 KB";
    let cells = cells.collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then(|| {
        let found = format!("mean with these pools against larger ones: {cells}");
        (figure, found, Verdict::of(enough, all.len()), why)
    })
}

/// Loss within the sites changes nothing: at most a tenth above lossless.
fn masks(found: &[Found]) -> Option<Row> {
    let settings = within::of(found);
    let sites = settings.iter().filter(|f| f.setting.scenario.long_haul.loss.mean() == 0.0);
    let ratios: Vec<(f64, f64)> = sites
        .filter_map(|f| {
            let own = ratio(f, COLUMNS[0], Scheme::LR2_PAPER, Scheme::LOSSLESS)?;
            Some((own, ratio(f, COLUMNS[0], Scheme::GBN, Scheme::LOSSLESS)?))
        })
        .collect();
    let masked = ratios.iter().filter(|(own, _)| *own <= 1.1).count();
    let cells: Vec<String> =
        ratios.iter().map(|(own, gbn)| format!("{} ({})", number(*own), number(*gbn))).collect();
    let found = format!(
        "times lossless, in brackets go-back-N: {} (*Loss within the sites*)",
        cells.join(", ")
    );
    let why = "a rewind near the source costs a window of the long haul's size";
    (!ratios.is_empty()).then(|| {
        ("loss within a data centre is masked", found, Verdict::of(masked, ratios.len()), why)
    })
}
