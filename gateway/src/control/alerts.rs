//! Every metric that the alert rules and the manual name is exported, with the labels that they name.

use std::collections::BTreeSet;
use std::time::SystemTime;

use common::ids::{BootId, NodeId};
use common::time::{Span, Time};

use super::{Sample, State, WorkerHealth, metrics, station, tunnel};
use crate::peer::{News, Report, Seen, Standing, Via};

const RULES: &str = include_str!("../../../configs/alerts.yml");
const ALERTS: &str = include_str!("../../../docs/guide/alerts.md");

/// The metrics of a gateway with this number of tunnels over UDP; `None`: a gateway without a tunnel.
pub(super) fn rendered(tunnels: Option<u8>) -> String {
    let expected = tunnels.map(|tunnels| tunnel::Expected {
        tunnels,
        ports: 1,
        lanes: 1,
        is_udp: true,
        headers: 66,
        port: 4288,
        needed: 4288,
    });
    let state = State::new("both", 1, expected);
    let [next_hop, peer] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
    let way = station::Way { next_hop, mac: None, peer, is_answered: false, has_stranger: false };
    let ways = tunnels.map(|_| way).into_iter().collect();
    state.put(Sample {
        ports: vec![Default::default(); 2],
        up: vec![true; 2],
        mbufs_free: 1,
        mbufs: 1,
        workers: vec![WorkerHealth::default()],
        stopping: false,
        ways,
    });
    let now = Time::from_nanos(1_000_000_000);
    let seen = Seen {
        node: NodeId(2),
        boot: BootId(1),
        via: Via::Host([10, 2, 0, 1].into()),
        standing: Standing::Knows,
        version: 1,
        heard: now,
        reported: Some(now),
        round_trip: Some(Span::from_millis(10)),
        told: None,
    };
    let tunnel = tunnels.filter(|tunnels| *tunnels > 1).map(|_| 0);
    state.peers.note(Report { tunnel, news: News::Seen(seen) }, now, SystemTime::now());
    String::from_utf8(metrics::render(&[std::sync::Arc::new(state)]).unwrap()).unwrap()
}

/// The samples of a gateway with a tunnel, without their values.
fn exported() -> BTreeSet<String> {
    let text = rendered(Some(1));
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

/// Each metric in `text`, and the labels that it is chosen by: `name="value"`, or `name=~"one|other"`.
fn named(text: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let starts = text.match_indices("lr2_").map(|(at, _)| &text[at..]);
    let each = starts.map(|rest| {
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels = labels.map_or(vec![], |(labels, _)| {
            let each = labels.split(',').flat_map(|label| match label.split_once("=~") {
                Some((name, values)) => {
                    let values = values.trim_matches('"').split('|');
                    values.map(|value| format!("{name}=\"{value}\"")).collect()
                }
                None => vec![label.to_owned()],
            });
            each.collect()
        });
        (name.to_owned(), labels)
    });
    each.collect()
}

#[test]
fn alert_rules_and_their_page_name_metrics_that_exist() {
    let exported = exported();
    let has = |name: &str, label: &str| {
        exported.iter().any(|sample| {
            let rest = sample.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
                && sample.contains(label)
        })
    };
    let mut count = 0;
    for (name, labels) in named(RULES).into_iter().chain(named(ALERTS)) {
        count += 1;
        assert!(has(&name, ""), "no metric {name}");
        for label in labels {
            assert!(has(&name, &label), "no {name} with {label}");
        }
    }
    assert!(count > 30, "{count}");
}

/// The manual's pages.
fn pages() -> Vec<(String, String)> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let folders = [docs.join("guide"), docs].into_iter();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|it| it == "md"));
    pages.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// A function of C.
pub(super) const OTHERS: [&str; 1] = ["lr2_rx_burst"];

/// `lr2_peer_*` names all that begin so.
#[test]
fn the_manual_names_metrics_that_exist() {
    let exported = exported();
    let has = |name: &str, is_whole: bool| {
        exported.iter().any(|sample| {
            let rest = sample.strip_prefix(name);
            rest.is_some_and(|rest| {
                !is_whole
                    || rest.is_empty()
                    || ["{", "_bucket{"].iter().any(|it| rest.starts_with(it))
            })
        })
    };
    let (mut count, mut unknown) = (0, BTreeSet::new());
    for (page, text) in pages() {
        for (name, _) in named(&text) {
            count += 1;
            if !has(&name, !name.ends_with('_')) && !OTHERS.contains(&&*name) {
                unknown.insert((page.clone(), name));
            }
        }
    }
    assert!(unknown.is_empty(), "no such metrics: {unknown:#?}");
    assert!(count > 60, "{count}");
}
