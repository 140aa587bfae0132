//! The tables of the report.

use maud::{Markup, html};

use super::{Parameter, Sweep, format, theme};
use crate::results::Distribution;
use crate::results::summary::{Group, SIZE_LABELS, SizeBucket, Summary};
use crate::scheme::Scheme;
use crate::schemes::{Class, profile};

/// A scheme's name, with its colour.
fn name(scheme: Scheme) -> Markup {
    let colour = theme::class(scheme);
    html! { span.swatch.(colour) {} (scheme.name()) }
}

/// Names and values.
pub fn parameters(parameters: &[Parameter]) -> Markup {
    html! {
        @if !parameters.is_empty() {
            dl.parameters {
                @for Parameter { name, value } in parameters {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

/// A description of each scheme.
pub fn schemes(schemes: &[Scheme]) -> Markup {
    html! {
        dl.schemes {
            @for &scheme in schemes {
                div { dt { (name(scheme)) } dd { (profile(scheme).about) } }
            }
        }
    }
}

/// A row per scheme, a column per figure.
struct Table<'a> {
    summaries: &'a [Summary],
    columns: Vec<Column>,
}

struct Column {
    head: String,
    /// Its meaning, shown as a tooltip of the heading.
    note: &'static str,
    cells: Vec<Cell>,
}

struct Cell {
    text: String,
    /// The smaller the better; `None`: there is no better and worse.
    rank: Option<f64>,
}

impl<'a> Table<'a> {
    fn of(summaries: &'a [Summary]) -> Self {
        Self { summaries, columns: Vec::new() }
    }

    fn column(
        &mut self,
        head: impl Into<String>,
        note: &'static str,
        cell: impl Fn(&'a Summary) -> (String, Option<f64>),
    ) {
        let cells = self.summaries.iter().map(|summary| {
            let (text, rank) = cell(summary);
            Cell { text, rank }
        });
        self.columns.push(Column { head: head.into(), note, cells: cells.collect() });
    }

    /// Not to be compared.
    fn plain(&mut self, head: &str, note: &'static str, text: impl Fn(&Summary) -> String) {
        self.column(head, note, |summary| (text(summary), None));
    }

    /// A number of something unwanted.
    fn unwanted(&mut self, head: &str, note: &'static str, of: impl Fn(&Summary) -> u64) {
        self.column(head, note, |summary| (format::count(of(summary)), Some(of(summary) as f64)));
    }

    /// A figure of a distribution of times or sizes that should be small.
    fn figure(
        &mut self,
        head: impl Into<String>,
        note: &'static str,
        of: impl Fn(&'a Summary) -> Option<&'a Distribution>,
        figure: impl Fn(&Distribution) -> Option<f64>,
        text: impl Fn(f64) -> String,
    ) {
        self.column(head, note, |summary| match of(summary) {
            None => ("–".to_owned(), None),
            Some(d) => (or_unfinished(d, figure(d).map(&text)), figure(d)),
        });
    }

    fn html(&self, caption: &str) -> Markup {
        let best: Vec<Option<f64>> = self.columns.iter().map(|c| self.best(c)).collect();
        html! {
            div.scroll { table {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "scheme" }
                    @for column in &self.columns {
                        th scope="col" title=(column.note) { (column.head) }
                    }
                } }
                tbody { @for (row, summary) in self.summaries.iter().enumerate() { tr {
                    th scope="row" { (name(summary.scheme)) }
                    @for (column, best) in self.columns.iter().zip(&best) {
                        @let cell = &column.cells[row];
                        td.best[best.is_some() && cell.rank == *best && profile(summary.scheme).class != Class::Yardstick] { (cell.text) }
                    }
                } } }
            } }
        }
    }

    /// The best rank of a column, if less than half of the schemes have it, not counting the
    /// yardstick.
    fn best(&self, column: &Column) -> Option<f64> {
        let rivals = self.summaries.iter().zip(&column.cells);
        let rivals =
            rivals.filter(|(summary, _)| profile(summary.scheme).class != Class::Yardstick);
        let ranks: Vec<Option<f64>> = rivals.map(|(_, cell)| cell.rank).collect();
        let best = ranks.iter().flatten().copied().min_by(f64::total_cmp)?;
        let holders = ranks.iter().filter(|rank| **rank == Some(best)).count();
        (2 * holders < ranks.len() || (holders == 1 && ranks.len() == 2)).then_some(best)
    }
}

/// `text`, or why there is none.
fn or_unfinished(of: &Distribution, text: Option<String>) -> String {
    text.unwrap_or_else(|| if of.unfinished > 0 { "unfinished" } else { "–" }.to_owned())
}

fn times(value: f64) -> String {
    format!("{value:.2} ×")
}

/// How fast messages were.
pub fn speed(summaries: &[Summary]) -> Markup {
    const FCT: &str = "Flow completion time: from posted to complete at the sender.";
    const SLOWDOWN: &str = "Completion time; 1 is alone and without loss.";
    let mut table = Table::of(summaries);
    table.plain("messages", "In all runs.", |s| format::count(s.main().fct_us.count));
    table.unwanted(
        "unfinished",
        "Not completed within the time simulated. They count as slower than all others.",
        |s| s.main().fct_us.unfinished,
    );
    for (head, figure) in FIGURES {
        table.figure(head, FCT, |s| Some(&s.main().fct_us), figure, format::micros);
    }
    if summaries.iter().any(|s| s.main().fct_with_setup_us.mean != s.main().fct_us.mean) {
        let note = "From when a message was to be sent: with its queue pair's connection.";
        table.figure(
            "mean with set-up",
            note,
            |s| Some(&s.main().fct_with_setup_us),
            |d| d.mean,
            format::micros,
        );
    }
    let lossless = summaries.iter().find(|summary| summary.scheme == Scheme::LOSSLESS);
    if let Some(ideal) = lossless.and_then(|s| s.main().fct_us.mean).filter(|mean| *mean > 0.0) {
        let note = "Mean completion time as a multiple of that without loss.";
        table.figure(
            "mean ÷ lossless",
            note,
            |s| Some(&s.main().fct_us),
            |d| d.mean,
            |us| times(us / ideal),
        );
    }
    if let Some(gbn) = summaries.iter().find(|summary| summary.scheme == Scheme::GBN) {
        for (head, figure) in [FIGURES[0], FIGURES[2]] {
            let Some(base) = figure(&gbn.main().fct_us).filter(|us| *us > 0.0) else { continue };
            let head = format!("{head} against gbn");
            let change = |us: f64| format::change(us / base);
            table.figure(head, FCT, |s| Some(&s.main().fct_us), figure, change);
        }
    }
    for (head, figure) in [FIGURES[0], FIGURES[2]] {
        let head = format!("slowdown {head}");
        table.figure(head, SLOWDOWN, |s| Some(&s.main().slowdown), figure, times);
    }
    table.column("goodput", "Payload of completed messages per time.", |s| {
        (format::rate(s.main().goodput_bps), Some(-s.main().goodput_bps))
    });
    if summaries.iter().any(|summary| summary.rounds_us.count > 0) {
        let note = "From the first message of a round posted to the last one complete.";
        for (head, figure) in [("round, mean", FIGURES[0].1), ("round, p99", FIGURES[2].1)] {
            table.figure(head, note, |s| Some(&s.rounds_us), figure, format::micros);
        }
    }
    table.html("Completion times")
}

type Figure = fn(&Distribution) -> Option<f64>;

const FIGURES: [(&str, Figure); 4] =
    [("mean", |d| d.mean), ("p50", |d| d.p50), ("p99", |d| d.p99), ("p99.9", |d| d.p999)];

/// The effort of the runs.
pub fn effort(summaries: &[Summary]) -> Markup {
    const RECOVERY: &str = "From a packet's loss on the long haul to its arrival at the host.";
    const PEAK: &str = "The most found in the fullest gateway.";
    let held = |bytes: u64| if bytes == 0 { "–".to_owned() } else { format::bytes(bytes) };
    let mut table = Table::of(summaries);
    table.plain(
        "useful share",
        "Data packets that crossed the long haul for the first time, of what it could carry.",
        |s| format::share(s.link.useful_share),
    );
    table.column("sent again", "Bytes that had crossed the long haul before, of all.", |s| {
        (format::share(s.link.sent_twice_share), Some(s.link.sent_twice_share))
    });
    table.plain("lost", "Packets lost on the long haul.", |s| format::count(s.link.lost_packets));
    table.unwanted("queue drops", "Packets lost before it.", |s| s.link.queue_drops);
    table.unwanted("timeouts", "Of RNICs.", |s| s.hosts.timeouts);
    table.plain("NAKs", "Received by RNICs.", |s| format::count(s.hosts.naks));
    table.unwanted("failed QPs", "Queue pairs given up.", |s| s.hosts.failed_qps);
    for (head, figure) in [("recovery p50", FIGURES[1].1), ("recovery p99", FIGURES[2].1)] {
        table.figure(head, RECOVERY, |s| Some(&s.recovery_us), figure, format::micros);
    }
    table.plain("reordering pool", PEAK, |s| held(s.pools.reorder_bytes));
    table.plain("backup pool", PEAK, |s| held(s.pools.backup_bytes));
    table.plain("resend cache", PEAK, |s| held(s.pools.cache_bytes));
    table.html("What it took")
}

/// Messages of each size, and those within a site if there are any beside those
/// between them.
pub fn details(summaries: &[Summary]) -> Markup {
    let within =
        summaries.iter().any(|s| s.within.fct_us.count > 0 && s.long_haul.fct_us.count > 0);
    html! {
        (by_size("Completion times by message size", summaries, Summary::main))
        @if within {
            (by_size("Within a site, by message size", summaries, |s| &s.within))
        }
    }
}

fn by_size(
    caption: &str,
    summaries: &[Summary],
    group: impl Fn(&Summary) -> &Group + Copy,
) -> Markup {
    let mut table = Table::of(summaries);
    for (i, label) in SIZE_LABELS.iter().enumerate() {
        let used = |bucket: &SizeBucket| bucket.fct_us.count > 0;
        if !summaries.iter().any(|s| group(s).sizes.get(i).is_some_and(used)) {
            continue;
        }
        for (head, figure) in [FIGURES[0], FIGURES[2]] {
            let head = format!("{label}, {head}");
            let of_size = |s| group(s).sizes.get(i).map(|bucket| &bucket.fct_us);
            table.figure(head, "", of_size, figure, format::micros);
        }
    }
    table.html(caption)
}

/// A sweep: a row per point, a column per scheme.
pub fn sweep(sweep: &Sweep) -> Markup {
    let goodput = |s: &Summary| format::rate(s.main().goodput_bps);
    let slowdown = |figure: Figure| {
        move |s: &Summary| {
            let d = &s.main().slowdown;
            or_unfinished(d, figure(d).map(times))
        }
    };
    html! {
        (matrix("Goodput", sweep, &goodput))
        (matrix("Mean slowdown", sweep, &slowdown(|d| d.mean)))
        (matrix("99th percentile of slowdown", sweep, &slowdown(|d| d.p99)))
        (matrix("Sent more than once", sweep, &|s| format::share(s.link.sent_twice_share)))
        (matrix("Timeouts", sweep, &|s| format::count(s.hosts.timeouts)))
    }
}

fn matrix(caption: &str, sweep: &Sweep, text: &dyn Fn(&Summary) -> String) -> Markup {
    let schemes = sweep.schemes();
    html! {
        div.scroll { table {
            caption { (caption) }
            thead { tr {
                th scope="col" { (sweep.axis) }
                @for &scheme in &schemes { th scope="col" { (name(scheme)) } }
            } }
            tbody { @for point in &sweep.points { tr {
                th scope="row" { (point.label) }
                @for &scheme in &schemes {
                    td { (point.of(scheme).map_or("–".to_owned(), text)) }
                }
            } } }
        } }
    }
}
