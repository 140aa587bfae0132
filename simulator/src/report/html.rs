//! The report: one HTML file without scripts and without links to the network.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures::{self, Figure};
use super::{Part, Report, Study, Sweep, tables, theme, words};
use crate::scheme::Scheme;

/// The page.
pub fn html(report: &Report) -> String {
    let css = include_str!("report.css").to_owned() + &theme::plot_css() + &theme::swatch_css();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (report.title) }
                style { (PreEscaped(css)) }
            }
            body {
                header {
                    h1 { (report.title) }
                    p { (report.about) }
                    @if report.parts.len() > 1 { (contents(report)) }
                    (tables::schemes(&schemes(report)))
                }
                main {
                    @for (i, part) in report.parts.iter().enumerate() {
                        section id=(anchor(i)) { (section(part)) }
                    }
                }
                footer { (notes(report)) }
            }
        }
    };
    page.into_string()
}

fn anchor(part: usize) -> String {
    format!("part-{}", part + 1)
}

fn title(part: &Part) -> &str {
    match part {
        Part::Study(study) => &study.scenario,
        Part::Sweep(sweep) => &sweep.name,
    }
}

fn contents(report: &Report) -> Markup {
    html! {
        nav { ul {
            @for (i, part) in report.parts.iter().enumerate() {
                li { a href={ "#" (anchor(i)) } { (title(part)) } }
            }
        } }
    }
}

/// All schemes of the report.
fn schemes(report: &Report) -> Vec<Scheme> {
    let of_part = |part: &Part| -> Vec<Scheme> {
        match part {
            Part::Study(study) => study.results.iter().map(|run| run.scheme).collect(),
            Part::Sweep(sweep) => sweep.schemes(),
        }
    };
    let mut schemes: Vec<Scheme> = report.parts.iter().flat_map(of_part).collect();
    schemes.sort_unstable();
    schemes.dedup();
    schemes
}

fn section(part: &Part) -> Markup {
    html! {
        h2 { (title(part)) }
        @match part {
            Part::Study(part) => (study(part)),
            Part::Sweep(part) => (sweep(part)),
        }
    }
}

fn study(study: &Study) -> Markup {
    let summaries = study.summaries();
    html! {
        p { (study.about) }
        (tables::parameters(&study.parameters))
        @if summaries.is_empty() {
            p { "Nothing was run." }
        } @else {
            @let findings = words::findings(&summaries);
            @if !findings.is_empty() {
                ul.findings { @for finding in findings { li { (finding) } } }
            }
            (tables::speed(&summaries))
            (tables::effort(&summaries))
            (plots(&figures::of_study(study)))
            details {
                summary { "By message size" }
                (tables::details(&summaries))
            }
        }
    }
}

fn sweep(sweep: &Sweep) -> Markup {
    html! {
        p { (sweep.about) }
        (tables::parameters(&sweep.parameters))
        (plots(&figures::of_sweep(sweep)))
        details {
            summary { "As tables" }
            (tables::sweep(sweep))
        }
    }
}

fn plots(figures: &[Figure]) -> Markup {
    html! {
        div.figures {
            @for Figure { title, caption, svg, .. } in figures {
                figure {
                    h3 { (title) }
                    (PreEscaped(svg))
                    figcaption { (caption) }
                }
            }
        }
    }
}

/// How the figures are to be read.
fn notes(report: &Report) -> Markup {
    let is_study = |part: &Part| matches!(part, Part::Study(_));
    html! {
        @if report.parts.iter().any(is_study) {
            p {
                "Figures are over all runs of a scheme; counters are their sums. Messages over the \
                 long haul, or all if there are none. Percentiles are values that occurred \
                 (nearest rank); messages that did not complete count as slower than all others, \
                 and “unfinished” stands where a figure falls among them. Highlighted: the best, \
                 “lossless” apart."
            }
        }
        p { "Made by lr2-sim " (env!("CARGO_PKG_VERSION")) "." }
    }
}
