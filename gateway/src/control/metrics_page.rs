//! Keeps `docs/metrics.md` true to what `/metrics` has.
//!
//! The page has a row for each metric, in the order of the answer. Rows are made here, all else is written there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use common::metrics::Metric;

use super::alerts::{OTHERS, rendered};

/// What stands above the rows of a section.
const BEGINS: &str = "| --- | --- | --- | --- | --- |";

/// Labels whose values depend on the configuration and the peers. The page describes these values in words.
const OF_THE_BOX: [&str; 8] =
    ["pair", "worker", "port", "tunnel", "lane", "peer", "version", "role"];

/// A family of metrics.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    help: String,
    /// Labels in their order, each with its values.
    labels: Vec<(String, Vec<String>)>,
}

/// The families of an answer, in its order.
fn families(text: &str) -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(" ")) {
            all.push(Family { name: name.into(), help: help.into(), ..Family::default() });
            continue;
        }
        let family = all.last_mut().expect("HELP comes first");
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            family.kind = kind.into();
        } else if let Some((labels, _)) =
            line.split_once('{').and_then(|(_, it)| it.split_once('}'))
        {
            for (label, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
                family.add(label, value.trim_matches('"'));
            }
        }
    }
    all
}

impl Family {
    fn add(&mut self, label: &str, value: &str) {
        // That of the buckets of a histogram.
        if label == "le" {
            return;
        }
        let values = match self.labels.iter_mut().find(|(name, _)| name == label) {
            Some((_, values)) => values,
            None => {
                self.labels.push((label.to_owned(), Vec::new()));
                &mut self.labels.last_mut().expect("just pushed").1
            }
        };
        if !values.iter().any(|it| it == value) {
            values.push(value.to_owned());
        }
    }

    fn unit(&self) -> &str {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        match name.rsplit('_').next() {
            Some(unit @ ("seconds" | "bytes" | "frames" | "packets" | "messages")) => unit,
            Some("ratio") => "0 to 1",
            _ => "",
        }
    }

    fn row(&self) -> String {
        let label = |(name, values): &(String, Vec<String>)| {
            if OF_THE_BOX.contains(&&**name) {
                return format!("`{name}`");
            }
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("`{name}`: {}", values.join(", "))
        };
        let labels: Vec<_> = self.labels.iter().map(label).collect();
        let Self { name, kind, help, .. } = self;
        format!("| `{name}` | {kind} | {} | {} | {help} |\n", labels.join("; "), self.unit())
    }
}

/// The rows of each section, in the page's order.
fn sections() -> [String; 3] {
    let of_flows: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.desc().name).collect();
    let plain = families(&rendered(None));
    let is_plain = |name: &str| plain.iter().any(|family| family.name == name);
    let mut all = <[String; 3]>::default();
    for family in families(&rendered(Some(2))) {
        let section = match &*family.name {
            name if of_flows.contains(name) => 1,
            name if is_plain(name) => 0,
            _ => 2,
        };
        all[section] += &family.row();
    }
    all
}

/// `page` with the rows of the code.
fn renew(page: &str) -> String {
    let (mut sections, mut new) = (sections().into_iter(), String::new());
    for line in page.lines().filter(|line| !line.starts_with("| `lr2_")) {
        new += line;
        new.push('\n');
        if line == BEGINS {
            new += &sections.next().expect("as many sections as the page has tables");
        }
    }
    assert!(sections.next().is_none(), "docs/metrics.md lacks a table for a section");
    new
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `LR2_RENEW_SNAPSHOTS=1` writes the rows into the page.
#[test]
fn the_page_has_every_metric_as_it_is_exported() {
    let path = root().join("docs/metrics.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let new = renew(&page);
    if std::env::var_os("LR2_RENEW_SNAPSHOTS").is_some() {
        std::fs::write(&path, &new).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == new,
        "docs/metrics.md is out of date: LR2_RENEW_SNAPSHOTS=1 cargo test -p gateway --lib metrics_page"
    );
}

/// Some metrics are exported only in some states of a gateway. This test finds them by name: each string literal of the code that is the name of
/// a metric has a row on the page.
#[test]
fn no_metric_of_the_code_lacks_a_row() {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).expect("the page");
    let mut folders = vec![root().join("gateway/src"), root().join("common/src")];
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the code") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let code = std::fs::read_to_string(&path).unwrap_or_default();
            for name in code.split('"').filter(|text| text.starts_with("lr2_")) {
                named.insert(name.to_owned(), path.clone());
            }
        }
    }
    let is_name =
        |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '0'..='9'));
    named.retain(|name, _| is_name(name) && !name.ends_with('_') && !OTHERS.contains(&&**name));
    assert!(named.len() > 100, "{}", named.len());
    named.retain(|name, _| !page.contains(&format!("| `{name}` | ")));
    assert!(named.is_empty(), "not in docs/metrics.md: {named:#?}");
}
