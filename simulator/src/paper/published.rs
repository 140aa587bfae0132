//! The evaluation of the LR2 paper, as far as its digest describes it: web search,
//! Hadoop and AliStorage over 400 to 800 µs one way at losses of 1e-3 to 1e-2.

use super::evaluation::{COLUMNS, POOLS, WORKLOADS, mean, p99};
use super::markdown::{by_scheme, loss, mean_median_p99, page, table};
use super::targets::ratio;
use super::{Effort, Found, budget, congestion, of_series, paired, source, targets, within};
use crate::report::figures::{Figure, slowdown_by_size};
use crate::report::format::{bytes, change, micros, number, share};
use crate::report::{Course, Scale};
use crate::results::{Distribution, Summary};
use crate::scheme::Scheme;

/// The section, and its figures.
pub(super) fn section(found: &[Found], effort: &Effort) -> (String, Vec<Figure>) {
    let of = |series: &str| of_series(found, series);
    let web = of(WORKLOADS[0].0);
    if web.is_empty() {
        return (String::new(), Vec::new());
    }
    let figures = figures(&web);
    let all = WORKLOADS.map(|(series, _, name)| (name, of(series)));
    let schemes = all.iter().map(|(name, found)| {
        let schemes = found.first().map_or(&[][..], |found| &found.setting.scenario.schemes);
        let table = by_scheme("delay, loss", schemes, found, mean_median_p99);
        format!("**{name}**, mean / median / p99 (ms)\n\n{table}\n")
    });
    let [web_search, hadoop, storage] = effort.messages;
    let [means, tails, large] = changes(&web);
    let values = [
        ("web", web_search.to_string()),
        ("hadoop", hadoop.to_string()),
        ("storage", storage.to_string()),
        ("seeds", effort.seeds.to_string()),
        ("against", against_gbn(&web)),
        ("means", means),
        ("tails", tails),
        ("large", large),
        ("schemes", schemes.collect()),
        ("figures", figures.iter().map(super::embed::embed).collect()),
        ("targets", targets::reached_table(&all)),
        ("behind", targets::behind(&all)),
        ("paired", paired::table_of(found)),
        ("pools", pools(&web)),
        ("bounded", bounded(&of(POOLS), &web)),
        ("bound", bound(&of(POOLS), &web)),
        ("source", source::table_of(found)),
        ("congestion", congestion::tables(found)),
        ("within", within::table(found)),
        ("budget", budget::table(found)),
    ];
    (page(include_str!("pages/published.md"), &values), figures)
}

/// From the least to the most that each of them changes, over all settings.
pub(super) fn changes(web: &[&Found]) -> [String; 3] {
    COLUMNS.map(|of| {
        let ratios = web.iter().filter_map(|f| ratio(f, of, Scheme::LR2_PAPER, Scheme::GBN));
        let (low, high) = ratios.fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
        if high > 0.0 { format!("{} to {}", change(high), change(low)) } else { "–".to_owned() }
    })
}

/// The summary, a point per line.
pub(super) fn in_short(found: &[Found]) -> Vec<String> {
    let workloads = WORKLOADS.map(|(series, _, name)| (name, of_series(found, series)));
    let web = &workloads[0].1;
    if web.is_empty() {
        return Vec::new();
    }
    let [means, tails, _] = changes(web);
    let mut points = vec![format!(
        "LR2 as published against go-back-N on WebSearch: the mean completion time changes by \
         {means} (reported: −40 to −70 %), the 99th percentile by {tails} (−36 to −74 %)."
    )];
    for scheme in [Scheme::LR2, Scheme::CACHED] {
        points.push(targets::in_short(&workloads, scheme));
    }
    points.extend(paired::in_short(found));
    points
}

/// LR2 as published and go-back-N, beside the reported figures.
fn against_gbn(web: &[&Found]) -> String {
    let used = |found: &Found, scheme| {
        found.scheme(scheme).map_or("–".to_owned(), |s| share(s.link.useful_share))
    };
    let mut rows = Vec::new();
    for found in web {
        let mut row = vec![found.setting.label.clone()];
        row.extend(COLUMNS.map(|of| {
            let ratio = ratio(found, of, Scheme::LR2_PAPER, Scheme::GBN);
            ratio.map_or("–".to_owned(), change)
        }));
        row.extend([Scheme::GBN, Scheme::LR2_PAPER, Scheme::LOSSLESS].map(|s| used(found, s)));
        rows.push(row);
    }
    let reported = ["*reported*", "*−40 to −70 %*", "*−36 to −74 %*", "*about −50 %*"];
    let links = ["*about 50 %*", "*near lossless*", "*about 60 %*"];
    rows.push(reported.iter().chain(&links).map(|cell| (*cell).to_owned()).collect());
    let heads =
        ["delay, loss", "mean", "p99", "mean, > 500 kB", "link used: gbn", "lr2-paper", "lossless"];
    table(&heads, &rows)
}

fn figures(web: &[&Found]) -> Vec<Figure> {
    let Some(first) = web.first() else { return Vec::new() };
    let delay = first.setting.scenario.long_haul.delay;
    let same: Vec<&&Found> =
        web.iter().filter(|found| found.setting.scenario.long_haul.delay == delay).collect();
    let places: Vec<_> =
        same.iter().map(|found| (found.setting.x, loss(found.setting.x))).collect();
    let schemes = &first.setting.scenario.schemes;
    let lines = |of: &dyn Fn(&Found, Scheme) -> Option<f64>| -> Vec<(Scheme, Vec<f64>)> {
        let line = |scheme: &Scheme| {
            let value = |found: &&&Found| of(found, *scheme).unwrap_or(f64::NAN);
            (*scheme, same.iter().map(value).collect())
        };
        schemes.iter().map(line).collect()
    };
    let delay = micros(delay.as_nanos() as f64 / 1e3);
    let course = |name, title: String, scale, lines| Course {
        name,
        title,
        axis: "loss of packets".into(),
        places: places.clone(),
        scale,
        lines,
    };
    let times = || Scale::Log("multiple of lossless".into());
    let courses = [
        course(
            "published-mean",
            format!("WebSearch, {delay} one way: mean completion time"),
            times(),
            lines(&|found, scheme| ratio(found, mean, scheme, Scheme::LOSSLESS)),
        ),
        course(
            "published-p99",
            format!("WebSearch, {delay} one way: 99th percentile of completion times"),
            times(),
            lines(&|found, scheme| ratio(found, p99, scheme, Scheme::LOSSLESS)),
        ),
        course(
            "published-link",
            format!("WebSearch, {delay} one way: share of the link that carried something new"),
            Scale::Linear("link used (%)".into()),
            lines(&|found, scheme| found.scheme(scheme).map(|s| 100.0 * s.link.useful_share)),
        ),
    ];
    let mut figures: Vec<Figure> = courses.iter().filter_map(Course::figure).collect();
    if let Some(last) = same.last() {
        let title = format!(
            "WebSearch, {delay} one way, loss {}: mean slowdown by size",
            loss(last.setting.x)
        );
        let of: fn(&Distribution) -> Option<f64> = |d| d.mean;
        figures.extend(slowdown_by_size("published-sizes", &title, &last.summaries, of));
    }
    figures
}

/// The most and the mean that reordering pools held.
fn pools(web: &[&Found]) -> String {
    let mut rows = Vec::new();
    for found in web {
        let place = found.summaries.iter().position(|s| s.scheme == Scheme::LR2_PAPER);
        let Some(place) = place else { continue };
        let peak = |scheme| {
            found.scheme(scheme).map_or("–".to_owned(), |s| bytes(s.pools.reorder_bytes))
        };
        let mut row = vec![found.setting.label.clone()];
        row.push(bytes(found.mean_reorder[place] as u64));
        row.extend([Scheme::LR2_PAPER, Scheme::LR2, Scheme::CACHED].map(peak));
        rows.push(row);
    }
    let heads = ["delay, loss", "lr2-paper, mean", "lr2-paper, peak", "lr2, peak", "cached, peak"];
    table(&heads, &rows)
}

/// The results of LR2 as published with bounded pools, and without.
fn bounded(bounded: &[&Found], web: &[&Found]) -> String {
    let rows: Vec<_> = bounded.iter().filter_map(|found| bounded_row(found, web)).collect();
    let heads = ["delay, loss", "1 MB: mean / p99", "as above: mean / p99", "timeouts", "not done"];
    table(&heads, &rows)
}

/// The effect of the bound, in words.
fn bound(bounded: &[&Found], web: &[&Found]) -> String {
    let of = |found: &&Found| -> Option<String> {
        let free = web.iter().find(|free| free.setting.label == found.setting.label)?;
        let (tight, free) = (found.scheme(Scheme::LR2_PAPER)?, free.scheme(Scheme::LR2_PAPER)?);
        let fct = &tight.main().fct_us;
        let (at, whole) = (loss(found.setting.x), mean(free)?);
        Some(match mean(tight) {
            Some(mean) => format!("at {at} the mean is {} times as long", number(mean / whole)),
            None => {
                format!("at {at} {} of {} messages are not complete", fct.unfinished, fct.count)
            }
        })
    };
    let all: Vec<String> = bounded.iter().filter_map(of).collect();
    format!("With the bound {}", all.join(", "))
}

fn bounded_row(found: &Found, web: &[&Found]) -> Option<Vec<String>> {
    let free = web.iter().find(|free| free.setting.label == found.setting.label)?;
    let times = |summary: &Summary| {
        let time = |us: Option<f64>| us.map_or("–".to_owned(), micros);
        format!("{} / {}", time(mean(summary)), time(p99(summary)))
    };
    let (tight, free) = (found.scheme(Scheme::LR2_PAPER)?, free.scheme(Scheme::LR2_PAPER)?);
    let fct = &tight.main().fct_us;
    Some(vec![
        found.setting.label.clone(),
        times(tight),
        times(free),
        tight.hosts.timeouts.to_string(),
        format!("{} of {} in 2 s", fct.unfinished, fct.count),
    ])
}
