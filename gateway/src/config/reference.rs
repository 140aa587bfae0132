//! Keeps `docs/configuration.md` true to the parser.
//!
//! The page has a row for each key, in the parser's order. The words about a key are
//! written there; the values that it takes, its default and when it is applied are the table's.

use std::collections::BTreeMap;
use std::path::Path;

use super::keys::KEYS;
use super::{Applied, Config, alone as parse, parameters, port_pairs};

/// Two ports and no secret.
const LEAST: &str = "[lan]\ndevice = \"0000:3b:00.0\"\n[wan]\ndevice = \"0000:3b:00.1\"\n\
                     [peer]\nlab_unkeyed = true\n";

fn read(text: &str) -> Config {
    parse(Path::new("gw.toml"), text, None, None).expect("the least configuration")
}

/// Every key of the reference, in the order of the table, with the values it takes.
fn asked() -> Vec<(String, String)> {
    let pair = "[[queue_pair]]\na = \"10.0.0.1\"\na_qpn = 17\nb = \"10.0.0.2\"\nb_qpn = 18\n";
    let all = parameters(&read(&format!("{LEAST}{pair}"))).into_iter();
    let all = all.map(|it| (it.name.replace("queue_pair[1]", "queue_pair"), it.allowed));
    all.chain(of_pair()).collect()
}

/// The keys that only a `[[pair]]` has.
fn of_pair() -> Vec<(String, String)> {
    let least = LEAST.replace("[lan]\ndevice", "[[pair]]\nlan.device");
    let least = least.replace("[wan]\ndevice", "wan.device");
    let asked = port_pairs::asked(Path::new("gw.toml"), &least);
    let short = |(path, allowed): (String, String)| {
        Some((path.strip_prefix("pair[1].")?.to_owned(), allowed))
    };
    asked.into_iter().filter_map(short).map(|(key, it)| (format!("pair.{key}"), it)).collect()
}

/// The default of each key that has a fixed one: that of the effective configuration, or `required`.
fn defaults() -> BTreeMap<String, String> {
    let mut section = String::new();
    let mut all = BTreeMap::new();
    for line in read(LEAST).to_string().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((name, value)) = line.split_once(" = ") {
            all.insert(format!("{section}{name}"), format!("`{value}`"));
        }
    }
    all.remove("peer.lab_unkeyed"); // set by LEAST
    let refusal = parse(Path::new("gw.toml"), "", None, None).expect_err("an empty file");
    all.extend(
        refusal.report.problems.into_iter().map(|problem| (problem.key, "required".to_owned())),
    );
    all
}

/// Values as the page has them: the notation of quantities stands at its beginning.
fn values(allowed: &str) -> String {
    let short = allowed.split(", written as ").next().unwrap_or_default();
    let quoted = |(n, part): (usize, &str)| {
        if n % 2 == 0 { part.to_owned() } else { format!("`\"{part}\"`") }
    };
    short.split('"').enumerate().map(quoted).collect()
}

/// Whether a default is in words, since it depends on the machine or on other keys.
fn is_in_words(default: &str) -> bool {
    let code = default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    default != "required" && code.is_none_or(|code| code.contains('`'))
}

/// When a changed value of a key is applied. Queue pairs and pairs of ports are those of the start.
fn applied(key: &str) -> &'static str {
    let row = KEYS.iter().find(|row| row.name() == key);
    match row.map_or(Applied::Start, |row| row.applied()) {
        Applied::Start => "start",
        Applied::Reload => "reload",
        Applied::Request => "request",
    }
}

/// `page` with the cells that follow from the table, and the keys of its rows.
fn renew(page: &str) -> (String, Vec<String>) {
    let (asked, defaults): (BTreeMap<_, _>, _) = (asked().into_iter().collect(), defaults());
    let (mut section, mut keys, mut new) = (String::new(), Vec::new(), String::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let name = title.trim_start_matches(['`', '[']).split_once(']');
            section = name.map_or(String::new(), |(name, _)| format!("{name}."));
        }
        let cells: Vec<_> = line.splitn(6, " | ").collect();
        if let [name, _, default, _, effect, change] = cells[..]
            && let Some(key) = name.strip_prefix("| `").and_then(|name| name.strip_suffix('`'))
        {
            let key = format!("{section}{key}");
            let values = asked.get(&key).map_or(String::new(), |allowed| values(allowed));
            let fixed = defaults.get(&key).filter(|_| !is_in_words(default));
            let default = fixed.map_or(default, |fixed| fixed);
            new += &[name, &values, default, applied(&key), effect, change].join(" | ");
            keys.push(key);
        } else {
            new += line;
        }
        new.push('\n');
    }
    (new, keys)
}

/// `LR2_RENEW_SNAPSHOTS=1` writes the cells that follow from the table into the page.
#[test]
fn the_page_has_every_key_as_the_parser_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (new, keys) = renew(&page);
    let asked: Vec<_> = asked().into_iter().map(|(key, _)| key).collect();
    // A port's keys are the same for both; the WAN has more.
    let is_of_lan = |key: &str| asked.contains(&format!("lan.{key}"));
    let is_twice = |key: &str| key.strip_prefix("wan.").is_some_and(is_of_lan);
    let once: Vec<_> = asked.iter().filter(|key| !is_twice(key)).cloned().collect();
    assert_eq!(keys, once, "a row for each key, in the parser's order");
    if std::env::var_os("LR2_RENEW_SNAPSHOTS").is_some() {
        std::fs::write(&path, &new).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == new,
        "docs/configuration.md is out of date: \
         LR2_RENEW_SNAPSHOTS=1 cargo test -p gateway --lib reference"
    );
}
