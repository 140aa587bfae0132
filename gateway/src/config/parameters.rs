//! The parameters by name, as the API shows and sets them: names, ranges and messages are those of the file.

use std::path::Path;

use super::{Config, TunnelMode, schema};
use api::Parameter;
use serde_json::Value;
use settings::{Document, Override, Section};

/// Keys of those that can be set while the gateway runs: any of their values is safe for traffic, and both boxes may have
/// different ones.
pub const SETTABLE: [&str; 6] = [
    "wan.spray",
    "wan.resend_copies",
    "recovery.tolerance",
    "recovery.tolerance_depth",
    "recovery.tolerance_wait",
    "recovery.tolerance_stall",
];

/// Whether a parameter can be set while the gateway runs, with a tunnel if it is one of the tunnel.
pub fn is_settable(name: &str) -> bool {
    SETTABLE.contains(&name)
}

/// Copies the value of a parameter that can be set while the gateway runs.
pub fn take_settable(name: &str, to: &mut Config, from: &Config) {
    let (tolerance, other) = (&mut to.recovery.tuning.tolerance, from.recovery.tuning.tolerance);
    match name {
        "wan.spray" => to.tunnel.spray = from.tunnel.spray,
        "wan.resend_copies" => to.tunnel.resend_copies = from.tunnel.resend_copies,
        "recovery.tolerance" => tolerance.mode = other.mode,
        "recovery.tolerance_depth" => tolerance.limits.depth = other.limits.depth,
        "recovery.tolerance_wait" => tolerance.limits.loss_wait = other.limits.loss_wait,
        "recovery.tolerance_stall" => tolerance.limits.stall = other.limits.stall,
        _ => {}
    }
}

/// The configuration with another value of a parameter that can be set while the gateway runs. It is written as in the
/// file; a string may stand without quotes.
///
/// # Errors
/// In one line: the value found, and those allowed.
pub fn with(config: &Config, name: &str, value: &str) -> Result<Config, String> {
    let value = Override {
        key: name.into(),
        value: value.trim().into(),
        option: name.into(),
        ..Override::default()
    };
    let read = |_: &Document<'_>, mut root: Section<'_>| {
        let mut read = config.clone();
        match name.split_once('.')? {
            ("wan", key) => {
                let mut section = root.section("wan");
                match key {
                    "spray" => read.tunnel.spray = schema::spray(&mut section)?,
                    "resend_copies" => {
                        read.tunnel.resend_copies = schema::resend_copies(&mut section)?;
                    }
                    _ => return None,
                }
            }
            ("recovery", _) if is_settable(name) => {
                read.recovery.tuning.tolerance = schema::tolerance(&mut root.section("recovery"));
            }
            _ => return None,
        }
        let mut new = config.clone();
        // The section's other keys have their defaults in `read`.
        take_settable(name, &mut new, &read);
        Some(new)
    };
    let unfit = |found: &str, allowed: &str| format!("{name}: found {found}; allowed: {allowed}");
    match settings::parse(Path::new(name), "", std::slice::from_ref(&value), read) {
        Ok(new) => new.ok_or_else(|| unfit("a value", "none while the gateway runs")),
        Err(report) => Err(report.problems.first().map_or_else(
            || unfit(&value.value, "another value"),
            |problem| unfit(&problem.found, &problem.allowed),
        )),
    }
}

/// All parameters of the effective configuration, in the order of the file's reference.
pub fn all(config: &Config) -> Vec<Parameter> {
    let text = config.to_string();
    let values: Value = toml::from_str(&text).unwrap_or_default();
    let mut asked = Vec::new();
    // Problems were found before; a file that a key names may be gone since.
    let _ = settings::parse(&config.file, &text, &[], |doc, root| {
        schema::read(doc, root, &config.file, None);
        asked = doc.asked();
    });
    let has_tunnel = config.tunnel.mode != TunnelMode::Off;
    let parameter = |(name, allowed): (String, String)| Parameter {
        value: find(&values, &name).cloned().unwrap_or_default(),
        settable: is_settable(one(&name)) && (has_tunnel || !name.starts_with("wan")),
        name: one(&name).to_owned(),
        allowed,
    };
    asked.into_iter().map(parameter).collect()
}

/// The keys of the tunnel stand in the first of several `[[wan]]` and hold for all: those that can be set have one
/// name.
fn one(name: &str) -> &str {
    let key = name.strip_prefix("wan[1].");
    let settable =
        key.and_then(|key| SETTABLE.into_iter().find(|it| it.strip_prefix("wan.") == Some(key)));
    settable.unwrap_or(name)
}

/// The value of a key with its section, of which those of a list are counted from 1.
fn find<'v>(values: &'v Value, name: &str) -> Option<&'v Value> {
    name.split('.').try_fold(values, |value, part| match part.split_once('[') {
        None => value.get(part),
        Some((list, at)) => {
            let at: usize = at.strip_suffix(']')?.parse().ok()?;
            value.get(list)?.get(at.checked_sub(1)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{good, lab};
    use super::*;

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
        let all = all(&config);
        assert_eq!(one(&all, "wan.resend_copies").value, 2);
        assert_eq!(one(&all, "lan.mtu").allowed, "576 to 9600 bytes");
        assert_eq!(one(&all, "recovery.rtt_guess").value, "10ms");
        assert_eq!(
            one(&all, "recovery.give_up").value,
            Value::Null,
            "it follows from the round trip"
        );
        let settable: Vec<_> = all.iter().filter(|it| it.settable).map(|it| &*it.name).collect();
        assert_eq!(settable, SETTABLE[2..], "there is no tunnel");
    }

    #[test]
    fn with_a_tunnel_some_can_be_set() {
        let (all, settable) = {
            let text = lab("")
                .replace("[wan]\n", "[[wan]]\ntunnel = \"ethernet\"\nspray = \"reps\"\n")
                + "[[wan]]\ndevice = \"net_null7\"\n";
            let all = all(&good(&text));
            let names = all.iter().filter(|parameter| parameter.settable);
            let names: Vec<_> = names.map(|parameter| parameter.name.clone()).collect();
            (all, names)
        };
        assert_eq!(settable, SETTABLE);
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
            let (before, after) = (all(&config), all(&new));
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
