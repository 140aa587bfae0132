//! The parameters by name, as the API shows and sets them: names, ranges and messages are those of the file.

use std::path::Path;

use api::Parameter;
use serde_json::Value;
use settings::{Document, Override, Section};
use tunnel::Setting;

use super::{Config, SPRAYS, TunnelMode, schema, word};

/// Keys of those that can be set while the gateway runs, all of them of a tunnel.
const SETTABLE: [&str; 2] = ["wan.spray", "wan.resend_copies"];

/// Whether a parameter can be set while the gateway runs, with a tunnel.
pub fn is_settable(name: &str) -> bool {
    SETTABLE.contains(&name)
}

/// Reads a value for a parameter that can be set while the gateway runs. It is written as in the file; a string may stand
/// without quotes.
///
/// # Errors
/// In one line: the value found, and those allowed.
pub fn setting(name: &str, value: &str) -> Result<Setting, String> {
    let value = Override {
        key: name.into(),
        value: value.trim().into(),
        option: name.into(),
        ..Override::default()
    };
    let read = |_: &Document<'_>, mut root: Section<'_>| {
        let mut section = root.section("wan");
        match name {
            "wan.spray" => schema::spray(&mut section).map(Setting::Spray),
            "wan.resend_copies" => schema::resend_copies(&mut section).map(Setting::ResendCopies),
            _ => None,
        }
    };
    let unfit = |found: &str, allowed: &str| format!("{name}: found {found}; allowed: {allowed}");
    match settings::parse(Path::new(name), "", std::slice::from_ref(&value), read) {
        Ok(setting) => setting.ok_or_else(|| unfit("a value", "none while the gateway runs")),
        Err(report) => Err(report.problems.first().map_or_else(
            || unfit(&value.value, "another value"),
            |problem| unfit(&problem.found, &problem.allowed),
        )),
    }
}

/// The name of a setting.
pub fn setting_name(setting: Setting) -> &'static str {
    match setting {
        Setting::Spray(_) => "wan.spray",
        Setting::ResendCopies(_) => "wan.resend_copies",
    }
}

/// The value of a setting, as in the file.
pub fn value(setting: Setting) -> Value {
    match setting {
        Setting::Spray(policy) => word(SPRAYS, &policy).into(),
        Setting::ResendCopies(copies) => copies.into(),
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
        settable: has_tunnel && SETTABLE.contains(&one(&name)),
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
        assert!(all.iter().all(|parameter| !parameter.settable), "there is no tunnel");
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
        for (name, text, parsed) in [
            ("wan.spray", "pinned", Setting::Spray(tunnel::spray::Policy::Pinned)),
            ("wan.spray", " \"reps\"\n", Setting::Spray(tunnel::spray::Policy::Reps)),
            ("wan.resend_copies", "1", Setting::ResendCopies(1)),
        ] {
            assert_eq!(setting(name, text), Ok(parsed));
            assert_eq!(setting(name, &value(parsed).to_string()), Ok(parsed));
        }
        for (name, text, parts) in [
            ("wan.spray", "random", ["found random", "allowed: \"earliest\""]),
            ("wan.resend_copies", "3", ["found 3", "1 to 2"]),
            ("wan.resend_copies", "", ["found", "1 to 2"]),
            ("lan.mtu", "1500", ["lan.mtu", "none while the gateway runs"]),
            ("wan.spray", "\"reps\"\nlanes = 3", ["found", "allowed"]),
        ] {
            let error = setting(name, text).unwrap_err();
            assert!(
                parts.iter().all(|part| error.contains(part)) && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
