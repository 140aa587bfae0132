//! The findings of a study, in sentences.

use super::format;
use crate::results::Summary;
use crate::scheme::Scheme;

/// A sentence or two on each mode of the product that was run beside plain
/// go-back-N; if messages did not complete, so that there is no comparison, their number
/// instead.
pub fn findings(summaries: &[Summary]) -> Vec<String> {
    let of = |scheme| summaries.iter().find(|summary| summary.scheme == scheme);
    let Some(gbn) = of(Scheme::GBN) else { return Vec::new() };
    let ours = [Scheme::LR2, Scheme::CACHED].into_iter().filter_map(of);
    ours.filter_map(|summary| finding(summary, gbn, of(Scheme::LOSSLESS))).collect()
}

fn finding(summary: &Summary, gbn: &Summary, lossless: Option<&Summary>) -> Option<String> {
    let name = summary.scheme.name();
    let (fct, base) = (&summary.main().fct_us, &gbn.main().fct_us);
    if fct.count == 0 {
        return None;
    }
    if fct.unfinished > 0 {
        let (unfinished, count) = (format::count(fct.unfinished), format::count(fct.count));
        return Some(format!(
            "Under {name}, {unfinished} of {count} messages did not complete within the time \
             simulated."
        ));
    }
    let mean = fct.mean?;
    let mut text =
        format!("Under {name} a message completes in {} on average", format::micros(mean));
    match base.mean {
        Some(base) => text += &format!(", {} gbn", compared(mean, base)),
        None => {
            text += &format!(
                "; under gbn {} of {} did not complete",
                format::count(base.unfinished),
                format::count(base.count)
            )
        }
    }
    if let Some(ideal) = lossless.and_then(|summary| summary.main().fct_us.mean) {
        text += &format!(", {} a link that loses nothing", compared(mean, ideal));
    }
    text.push('.');
    if let (true, Some(p99)) = (fct.count >= 100, fct.p99) {
        text += &format!(" One in a hundred takes at least {}", format::micros(p99));
        if let Some(base) = base.p99 {
            text += &format!(" (gbn: {})", format::micros(base));
        }
        text.push('.');
    }
    Some(text)
}

/// "74 % sooner than with", "3 % later than with", "as soon as with".
fn compared(value: f64, base: f64) -> String {
    let percent = (100.0 * (value / base - 1.0)).round();
    match percent {
        _ if percent < 0.0 => format!("{} % sooner than with", -percent),
        _ if percent > 0.0 => format!("{percent} % later than with"),
        _ => "as soon as with".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::summary::{Group, LinkSummary};
    use crate::results::{Distribution, HostUse, Pools};

    fn summary(scheme: Scheme, finished: Vec<f64>, unfinished: u64) -> Summary {
        let fct_us = Distribution::of(finished, unfinished);
        Summary {
            scheme,
            seeds: vec![1],
            all: Group { fct_us, ..Group::default() },
            long_haul: Group::default(),
            within: Group::default(),
            rounds_us: Distribution::default(),
            link: LinkSummary::default(),
            hosts: HostUse::default(),
            recovery_us: Distribution::default(),
            pools: Pools::default(),
            packet_events: 0,
        }
    }

    #[test]
    fn better_worse_and_alike_are_told_apart() {
        let gbn = summary(Scheme::GBN, vec![400.0; 100], 0);
        let summaries = [
            summary(Scheme::LOSSLESS, vec![100.0; 100], 0),
            gbn.clone(),
            summary(Scheme::LR2, vec![500.0], 0),
            summary(Scheme::CACHED, vec![100.0; 100], 0),
        ];
        assert_eq!(
            findings(&summaries),
            [
                "Under lr2 a message completes in 500 µs on average, 25 % later than with gbn, \
                 400 % later than with a link that loses nothing.",
                "Under cached a message completes in 100 µs on average, 75 % sooner than with \
                 gbn, as soon as with a link that loses nothing. One in a hundred takes at \
                 least 100 µs (gbn: 400 µs).",
            ]
        );
        assert_eq!(findings(&[gbn]), [""; 0]);
    }

    #[test]
    fn what_did_not_complete_is_said() {
        let summaries = [
            summary(Scheme::GBN, vec![1.0], 3),
            summary(Scheme::LR2, vec![1.0], 2),
            summary(Scheme::CACHED, vec![2000.0], 0),
        ];
        assert_eq!(
            findings(&summaries),
            [
                "Under lr2, 2 of 3 messages did not complete within the time simulated.",
                "Under cached a message completes in 2.00 ms on average; under gbn 3 of 4 did \
                 not complete.",
            ]
        );
    }
}
