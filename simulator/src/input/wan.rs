//! `[[long_haul.paths]]`: several paths between two gateways.

use common::time::Span;
use settings::units::show_rate;
use settings::{Document, Section};

use tunnel::Port;

use super::network::{self, RATES};
use crate::scenario::{LongHaul, WanPath};

/// Most paths.
const MOST: usize = 64;

/// Reads the tables. A key that a path does not have is as for the link, `haul`.
pub(super) fn paths(doc: &Document<'_>, tables: Vec<Section<'_>>, haul: &LongHaul) -> Vec<WanPath> {
    const KEY: &str = "long_haul.paths";
    if tables.len() > MOST {
        doc.problem(KEY, format!("{} tables", tables.len()), format!("at most {MOST}"));
    }
    let paths: Vec<_> = tables.into_iter().map(|table| path(doc, table, haul)).collect();
    if haul.has_own_ports && (paths.is_empty() || paths.iter().any(|path| path.rate.is_none())) {
        let allowed = "a rate for each of long_haul.paths: that of its ports";
        doc.problem("long_haul.ports", "\"own\" beside paths without a rate", allowed);
    }
    if haul.has_own_ports && paths.len() > usize::from(Port::COUNT_MAX) {
        let allowed = format!("at most {} paths with ports of their own", Port::COUNT_MAX);
        doc.problem("long_haul.ports", format!("\"own\" beside {} paths", paths.len()), allowed);
    }
    let lines: Option<u64> = paths.iter().map(|path| path.rate).sum();
    if let Some(sum) = lines.filter(|sum| !paths.is_empty() && *sum < haul.rate) {
        let found = format!(
            "{} altogether beside long_haul.rate = {}",
            show_rate(sum),
            show_rate(haul.rate)
        );
        doc.problem("long_haul.rate", found, "at most what the paths carry altogether");
    }
    paths
}

fn path(doc: &Document<'_>, mut s: Section<'_>, haul: &LongHaul) -> WanPath {
    let longest = Span::from_millis(10_000);
    let rate = s.rate("rate", RATES.0, RATES.1);
    let there = network::loss(doc, &mut s, "loss");
    let back = network::loss(doc, &mut s, "loss_back");
    let ecn = network::optional(&mut s, "ecn", false);
    let (key, line) = (s.path("ecn"), rate.unwrap_or(haul.rate));
    if ecn.is_some() && rate.is_none() {
        doc.problem(
            &key,
            "ecn without rate",
            "the rate of the path: its queue is what is marked by",
        );
    }
    let path = WanPath {
        rate,
        queue: s.size("queue", 1 << 14, 1 << 40).unwrap_or(16 << 20),
        ecn: ecn.map(|table| network::ecn(table, line)),
        delay: s.duration("delay", Span::from_nanos(100), longest).unwrap_or(haul.delay),
        jitter: s.duration("jitter", Span::ZERO, longest).unwrap_or(haul.jitter),
        loss: there.unwrap_or(haul.loss),
        loss_back: back.or(there).unwrap_or(haul.loss_back),
        outage: network::outage(doc, &mut s, false).or(haul.outage),
        reordering: network::reordering(&mut s).or(haul.reordering),
    };
    s.finish();
    path
}
