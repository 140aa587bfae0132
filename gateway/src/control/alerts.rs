//! Every metric that the alert rules and the README name is exported, with the labels that they name.

use std::collections::BTreeSet;

use super::{Sample, State, WorkerHealth, metrics, station, tunnel};

const RULES: &str = include_str!("../../../configs/alerts.yml");
const README: &str = include_str!("../../../README.md");

/// The samples of a gateway with a tunnel over UDP, without their values.
fn exported() -> BTreeSet<String> {
    let expected = tunnel::Expected {
        tunnels: 1,
        ports: 1,
        lanes: 1,
        is_udp: true,
        headers: 66,
        port: 4288,
        needed: 4288,
    };
    let state = State::new("both", 1, Some(expected));
    let [next_hop, peer] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
    state.put(Sample {
        ports: vec![Default::default(); 2],
        up: vec![true; 2],
        mbufs_free: 1,
        mbufs: 1,
        workers: vec![WorkerHealth::default()],
        stopping: false,
        ways: vec![station::Way {
            next_hop,
            mac: None,
            peer,
            is_answered: false,
            has_stranger: false,
        }],
    });
    let text = String::from_utf8(metrics::render(&[std::sync::Arc::new(state)]).unwrap()).unwrap();
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
fn alert_rules_and_readme_name_metrics_that_exist() {
    let exported = exported();
    let has = |name: &str, label: &str| {
        exported.iter().any(|sample| {
            let rest = sample.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
                && sample.contains(label)
        })
    };
    let table = README.split_once("## Metrics worth an alert").unwrap().1;
    let table = table.split_once("\n## ").unwrap().0;
    let mut count = 0;
    for (name, labels) in named(RULES).into_iter().chain(named(table)) {
        count += 1;
        assert!(has(&name, ""), "no metric {name}");
        for label in labels {
            assert!(has(&name, &label), "no {name} with {label}");
        }
    }
    assert!(count > 30, "{count}");
}
