//! The values of a configuration by the [table of keys](super::keys): printed as TOML, listed for the API, compared, and set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use api::Parameter;
use serde_json::{Map, Value};
use settings::Override;

use super::keys::{KEYS, sections};
use super::row::{Applied, Row, quoted};
use super::{Config, pairs, port_pairs};

/// A key of a configuration, whose section may be that of one of several WAN ports.
struct Place {
    row: &'static dyn Row,
    /// The WAN port, for a key that each has.
    wan: usize,
    /// The key with its section in the file. The keys of the tunnel, which hold for all WAN ports, are those of `wan`.
    name: String,
}

/// All keys of a configuration, in the order of the table, those of each WAN port together.
fn places(config: &Config) -> Vec<Place> {
    let mut all = Vec::new();
    for (section, rows) in sections() {
        let count = if section == "wan" { config.wan.len() } else { 1 };
        for wan in 0..count {
            for row in rows.iter().filter(|row| wan == 0 || row.is_of_each_wan()) {
                let name = match row.parts() {
                    (_, key) if row.is_of_each_wan() => {
                        format!("{}.{key}", config.wan[wan].section)
                    }
                    _ => row.name().to_owned(),
                };
                all.push(Place { row: *row, wan, name });
            }
        }
    }
    all
}

/// Whether a key is in effect: without a tunnel there is no repair of the LANs beside it.
fn is_in_effect(row: &dyn Row, config: &Config) -> bool {
    row.name() != "recovery.lan" || config.has_tunnel()
}

/// Prints a pair of ports as if it were alone.
pub(super) fn print(config: &Config, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    print_sections(config, f, "", |_| true)?;
    pairs::print(&config.queue_pairs, f)
}

/// Prints several pairs: the sections that all have in common, then each pair.
pub(super) fn print_pairs(all: &[Config], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(first) = all.first() else { return Ok(()) };
    let is_own = |row: &dyn Row| port_pairs::OWN.contains(&row.parts().0);
    print_sections(first, f, "", |row| !is_own(row) && row.name() != "eal.cores")?;
    pairs::print(&first.queue_pairs, f)?;
    for config in all {
        writeln!(f, "\n[[pair]]\nname = {}", quoted(&config.pair.name))?;
        writeln!(f, "cores = {:?}", config.eal.cores)?;
        print_sections(config, f, "pair.", is_own)?;
    }
    Ok(())
}

/// Prints the sections of some rows, with `before` before their names.
fn print_sections(
    config: &Config,
    f: &mut fmt::Formatter<'_>,
    before: &str,
    is_wanted: impl Fn(&dyn Row) -> bool,
) -> fmt::Result {
    let mut values = config.clone();
    let mut last = ("", 0);
    for Place { row, wan, .. } in places(config) {
        if !is_wanted(row) || !is_in_effect(row, config) {
            continue;
        }
        let (section, key) = row.parts();
        if (section, wan) != last {
            last = (section, wan);
            if section == "wan" && config.wan.len() > 1 {
                writeln!(f, "\n[[{before}wan]]")?;
            } else {
                writeln!(f, "\n[{before}{section}]")?;
            }
        }
        match (row.show(&mut values, wan), row.absent()) {
            (Some(value), _) => writeln!(f, "{key} = {value}")?,
            (None, Some(words)) => writeln!(f, "# {key}: {words}")?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// The values that each key takes, by its name in the table.
static ALLOWED: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut asked = Vec::new();
    // Problems of an empty file are of no interest.
    let _ = settings::parse(Path::new(""), "", &[], |doc, mut root| {
        let mut config = Config::empty_with_wan();
        for (name, rows) in sections() {
            let mut section = if name.is_empty() { root.absent() } else { root.section(name) };
            rows.iter().for_each(|row| row.read(&mut section, &mut config, 0));
        }
        asked = doc.asked();
    });
    asked.into_iter().collect()
});

/// The values that a key takes, in words.
pub(super) fn allowed(row: &dyn Row) -> String {
    ALLOWED.get(row.name()).cloned().unwrap_or_default()
}

/// All parameters of the effective configuration, in the order of the file's reference.
pub fn parameters(config: &Config) -> Vec<Parameter> {
    let mut values = config.clone();
    let has_tunnel = config.has_tunnel();
    let parameter = |Place { row, wan, name }: Place| Parameter {
        value: row
            .show(&mut values, wan)
            .filter(|_| is_in_effect(row, config))
            .map(|text| json(&text))
            .unwrap_or_default(),
        settable: row.applied() == Applied::Request && (has_tunnel || row.parts().0 != "wan"),
        allowed: allowed(row),
        name,
    };
    let mut all: Vec<_> = places(config).into_iter().map(parameter).collect();
    all.extend(pairs::values(&config.queue_pairs).into_iter().map(|(name, allowed, text)| {
        Parameter { name, allowed: allowed.to_owned(), value: json(&text), settable: false }
    }));
    all
}

/// A value of a file.
fn json(text: &str) -> Value {
    let table: Option<Map<String, Value>> = toml::from_str(&format!("value = {text}")).ok();
    table.and_then(|mut table| table.remove("value")).unwrap_or_default()
}

/// A key with another value in one configuration than in another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The key with its section.
    pub name: String,
    /// When it is applied.
    pub applied: Applied,
}

/// The keys whose values differ. Secrets are not compared, only the names of their files.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let at_start = |name: &str| Difference { name: name.to_owned(), applied: Applied::Start };
    if old.wan.len() != new.wan.len() {
        return vec![at_start("wan")];
    }
    let (mut one, mut other) = (old.clone(), new.clone());
    let differs = |place: Place| {
        let Place { row, wan, name } = place;
        let differs = !row.is_same(&mut one, &mut other, wan);
        differs.then(|| Difference { name, applied: row.applied() })
    };
    let mut all: Vec<_> = places(new).into_iter().filter_map(differs).collect();
    if old.queue_pairs != new.queue_pairs {
        all.push(at_start("queue_pair"));
    }
    all
}

/// The keys that are applied while the gateway runs.
#[cfg(test)]
pub(crate) fn applied_running() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|row| row.applied() != Applied::Start).map(|row| row.name())
}

/// The row of a key that a request can set.
fn settable(name: &str) -> Option<&'static dyn Row> {
    KEYS.iter().copied().find(|row| row.name() == name && row.applied() == Applied::Request)
}

/// Whether a request can set a parameter while the gateway runs, with a tunnel if it is one of the tunnel.
pub fn is_settable(name: &str) -> bool {
    settable(name).is_some()
}

/// Keeps the values that requests have `set` in a new configuration, `config`, except where the file's own value has
/// changed from `before`.
pub fn keep_requested(config: &mut Config, set: &Config, before: &Config) {
    let (mut set, mut before, mut now) = (set.clone(), before.clone(), config.clone());
    for row in KEYS.iter().filter(|row| row.applied() == Applied::Request) {
        if row.is_same(&mut before, &mut now, 0) {
            row.copy(&mut set, config);
        }
    }
}

/// The configuration with another value of a parameter that can be set while the gateway runs. It is written as in the
/// file; a string may stand without quotes.
///
/// # Errors
/// In one line: the value found, and those allowed.
pub fn with(config: &Config, name: &str, value: &str) -> Result<Config, String> {
    let unfit = |found: &str, allowed: &str| format!("{name}: found {found}; allowed: {allowed}");
    let row = settable(name).ok_or_else(|| unfit("a value", "none while the gateway runs"))?;
    let value = Override {
        key: name.into(),
        value: value.trim().into(),
        option: name.into(),
        ..Override::default()
    };
    let mut new = config.clone();
    let read = settings::parse(Path::new(name), "", std::slice::from_ref(&value), |_, mut root| {
        row.read(&mut root.section(row.parts().0), &mut new, 0);
    });
    match read {
        Ok(()) => Ok(new),
        Err(report) => Err(report.problems.first().map_or_else(
            || unfit(&value.value, "another value"),
            |problem| unfit(&problem.found, &problem.allowed),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{good, lab};
    use super::*;

    /// The keys that a request can set.
    fn requested() -> Vec<&'static str> {
        let rows = KEYS.iter().filter(|row| row.applied() == Applied::Request);
        rows.map(|row| row.name()).collect()
    }

    fn one<'p>(all: &'p [Parameter], name: &str) -> &'p Parameter {
        let mut found = all.iter().filter(|parameter| parameter.name == name);
        let first = found.next().unwrap_or_else(|| panic!("no {name} in {all:?}"));
        assert!(found.next().is_none(), "{name} twice");
        first
    }

    // R-TUN-54
    #[test]
    fn every_key_has_its_value_and_range() {
        let config = good(&lab(""));
        let all = parameters(&config);
        assert_eq!(one(&all, "wan.resend_copies").value, 2);
        assert_eq!(one(&all, "lan.mtu").allowed, "576 to 9600 bytes");
        assert_eq!(one(&all, "recovery.rtt_guess").value, "10ms");
        assert_eq!(
            one(&all, "recovery.give_up").value,
            Value::Null,
            "it follows from the round trip"
        );
        let settable: Vec<_> = all.iter().filter(|it| it.settable).map(|it| &*it.name).collect();
        assert_eq!(settable, requested()[2..], "there is no tunnel");
    }

    #[test]
    fn with_a_tunnel_some_can_be_set() {
        let (all, settable) = {
            let text = lab("")
                .replace("[wan]\n", "[[wan]]\ntunnel = \"ethernet\"\nspray = \"reps\"\n")
                + "[[wan]]\ndevice = \"net_null7\"\n";
            let all = parameters(&good(&text));
            let names = all.iter().filter(|parameter| parameter.settable);
            let names: Vec<_> = names.map(|parameter| parameter.name.clone()).collect();
            (all, names)
        };
        // Decision 107.
        let decided = [
            "wan.spray",
            "wan.resend_copies",
            "recovery.tolerance",
            "recovery.tolerance_depth",
            "recovery.tolerance_wait",
            "recovery.tolerance_stall",
        ];
        assert_eq!(settable, decided);
        assert_eq!(requested(), decided);
        assert_eq!(one(&all, "wan.spray").value, "reps");
        assert_eq!(one(&all, "wan[2].device").value, "net_null7");
    }

    #[test]
    fn a_value_is_read_as_in_the_file_or_refused_in_words() {
        // No key has its default, so that one that is reset shows.
        let config = good(&lab(
            "[recovery]\ntolerance = \"off\"\ntolerance_depth = 9\ntolerance_wait = \"90us\"\ntolerance_stall = \"900us\"\n",
        ));
        for (name, text, value) in [
            ("wan.spray", "pinned", Value::from("pinned")),
            ("wan.spray", " \"reps\"\n", "reps".into()),
            ("wan.resend_copies", "1", 1.into()),
            ("recovery.tolerance", "fixed", "fixed".into()),
            ("recovery.tolerance_depth", "77", 77.into()),
            ("recovery.tolerance_wait", "77us", "77us".into()),
            ("recovery.tolerance_stall", "\"770us\"", "770us".into()),
        ] {
            let new = with(&config, name, text).unwrap();
            let (before, after) = (parameters(&config), parameters(&new));
            assert_eq!(one(&after, name).value, value);
            let again = with(&config, name, &value.to_string()).unwrap();
            assert_eq!(again.to_string(), new.to_string());
            // And no other one.
            let changed = after.iter().zip(&before).filter(|(new, old)| new.value != old.value);
            assert_eq!(changed.map(|(new, _)| &*new.name).collect::<Vec<_>>(), [name]);
        }
        for (name, text, parts) in [
            ("wan.spray", "random", ["found random", "allowed: \"earliest\""]),
            ("wan.resend_copies", "3", ["found 3", "1 to 2"]),
            ("wan.resend_copies", "", ["found", "1 to 2"]),
            ("lan.mtu", "1500", ["lan.mtu", "none while the gateway runs"]),
            ("recovery.give_up", "\"1s\"", ["recovery.give_up", "none while the gateway runs"]),
            ("recovery.tolerance_depth", "0", ["found 0", "1 to 8192"]),
            ("recovery.tolerance_wait", "soon", ["found soon", "1us"]),
            ("wan.spray", "\"reps\"\nlanes = 3", ["found", "allowed"]),
        ] {
            let error = with(&config, name, text).unwrap_err();
            assert!(
                parts.iter().all(|part| error.contains(part)) && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
