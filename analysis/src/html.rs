//! A report as one HTML page, with a timeline per flow. It needs nothing from elsewhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::{FlowReport, Report};
use crate::text;
use crate::timeline::{Bin, Timeline};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
h2{font-size:1rem;margin:2rem 0 .2rem}table{border-collapse:collapse}td{padding:0 .8rem 0 0}td:first-child{text-align:right}\
svg{width:100%;height:auto;background:#fafafa}ul{margin:.2rem 0}.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}\
.new{fill:#4b8bbe;background:#4b8bbe}.resent{fill:#d9822b;background:#d9822b}.nak{fill:#b3261e;background:#b3261e}\
.timeout{fill:#111;background:#111}.missing{fill:#8e44ad;background:#8e44ad}.warnings{color:#b3261e}text{font:11px system-ui,sans-serif;fill:#555}";

const WIDTH: u32 = 960;
const BARS: f64 = 90.0;
const HEIGHT: u32 = 150;

/// The page, with the `most` worst flows.
pub fn page(report: &Report, title: &str, most: usize) -> String {
    let totals = &report.totals;
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p {
                    (totals.records) " records, " (text::bytes(totals.bytes)) ", " (text::time(report.duration_ns)) ". LR2 would have saved at most "
                    (text::bytes(report.lr2_saves.bytes)) " of repeats, and " (text::time(report.lr2_saves.time_ns)) " of flows' time."
                }
                @if !report.warnings.is_empty() {
                    ul.warnings { @for warning in &report.warnings { li { "The file " (warning) } } }
                }
                table {
                    @for (what, count) in text::totals(report) { tr { td { (count) } td { (what) } } }
                }
                p.key {
                    "In each interval:" span.new {} "new bytes" span.resent {} "bytes sent again" span.missing {} "packets missing"
                    span.nak {} "NAKs" span.timeout {} "timeouts"
                }
                @for flow in report.flows.iter().take(most) { (section(flow)) }
                @if report.flows.len() > most { p { (report.flows.len() - most) " more flows" } }
            }
        }
    };
    body.into_string()
}

fn section(flow: &FlowReport) -> Markup {
    let requests = &flow.requests;
    html! {
        h2 { (text::name(flow)) }
        p {
            (requests.packets) " requests, " (text::bytes(requests.bytes)) " (" (text::bytes(requests.new_bytes)) " new), " (flow.responses.acks)
            " ACKs, " (flow.reads.packets) " READ responses, " (text::time(flow.duration_ns))
        }
        @let sentences = text::sentences(flow);
        @if sentences.is_empty() { p { "Nothing lost, late or sent again." } }
        @else { ul { @for sentence in sentences { li { (sentence) } } } }
        @if let Some(timeline) = &flow.timeline { (drawing(timeline)) }
    }
}

/// Bytes as bars; below them a row of marks for each kind of event.
fn drawing(timeline: &Timeline) -> Markup {
    let most =
        timeline.bins.iter().map(|bin| bin.new_bytes + bin.resent_bytes).max().unwrap_or(0).max(1);
    let width = f64::from(WIDTH) / timeline.bins.len().max(1) as f64;
    let height = |bytes: u64| bytes as f64 / most as f64 * BARS;
    let marks =
        |bin: &Bin| [("missing", bin.missing), ("nak", bin.naks), ("timeout", bin.timeouts)];
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
            @for (at, bin) in timeline.bins.iter().enumerate() {
                @let x = format!("{:.2}", at as f64 * width);
                @let w = format!("{:.2}", width * 0.9);
                @let (new, resent) = (height(bin.new_bytes), height(bin.resent_bytes));
                @if bin.new_bytes > 0 {
                    rect.new x=(x) y=(format!("{:.2}", BARS - new)) width=(w) height=(format!("{new:.2}")) {}
                }
                @if bin.resent_bytes > 0 {
                    rect.resent x=(x) y=(format!("{:.2}", BARS - new - resent)) width=(w) height=(format!("{resent:.2}")) {}
                }
                @for (row, (class, count)) in marks(bin).into_iter().enumerate() {
                    @if count > 0 {
                        rect class=(class) x=(x) y=(96 + 12 * row) width=(w) height="9" {
                            title { (count) " " (class) ", at " (text::time(at as u64 * timeline.bin_ns)) }
                        }
                    }
                }
            }
            text x="0" y=(HEIGHT - 6) { "0" }
            text x=(WIDTH) y=(HEIGHT - 6) text-anchor="end" {
                (text::time(timeline.bins.len() as u64 * timeline.bin_ns)) "; " (text::time(timeline.bin_ns)) " each, up to " (text::bytes(most))
            }
        }
    }
}
