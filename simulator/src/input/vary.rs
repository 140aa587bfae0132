//! Other values in place of a file's: the parameters of a sweep.

use settings::Override;

/// A key that is varied, under the name that people give it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Varied {
    /// As written on the command line: a short name or a key of the file.
    pub name: String,
    /// Its values, as written in the file.
    pub values: Vec<String>,
}

/// Short names, and the keys they stand for.
const SHORT: &[(&str, &str)] = &[
    ("rate", "long_haul.rate"),
    ("rtt", "long_haul.rtt"),
    ("delay", "long_haul.delay"),
    ("jitter", "long_haul.jitter"),
    ("loss", "long_haul.loss"),
    ("burst", "long_haul.loss.burst"),
    ("pmtu", "nic.pmtu"),
    ("window", "nic.window"),
    ("timeout", "nic.timeout"),
    ("hosts", "topology.hosts"),
    ("load", "traffic.load"),
    ("flows", "traffic.flows"),
    ("bytes", "traffic.bytes"),
    ("sizes", "traffic.sizes"),
];

/// The key of the file that `name` stands for; itself if it is no short name.
pub fn override_key(name: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, key)| key)
}

impl Varied {
    /// Reads `NAME=VALUE,VALUE,…`. A comma within braces separates nothing.
    ///
    /// # Errors
    /// The missing part.
    pub fn parse(text: &str) -> Result<Self, String> {
        const SYNTAX: &str =
            "expected KEY=VALUE,VALUE,..., e.g. loss=1e-4,1e-3 or nic.window=512,1024";
        let (name, values) = text.split_once('=').ok_or_else(|| format!("{text:?}: {SYNTAX}"))?;
        let mut depth = 0;
        let values: Vec<String> = values
            .split(|c| {
                depth += match c {
                    '{' | '[' => 1,
                    '}' | ']' => -1,
                    _ => 0,
                };
                c == ',' && depth == 0
            })
            .map(|value| value.trim().to_owned())
            .collect();
        let name = name.trim().to_owned();
        if name.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("{text:?}: {SYNTAX}"));
        }
        if let Some(twice) = values.iter().enumerate().find(|(n, v)| values[..*n].contains(v)) {
            return Err(format!("{text:?}: the value {} is there twice", twice.1));
        }
        Ok(Self { name, values })
    }

    /// The override that puts the `n`th value in place of the file's.
    pub fn overriding(&self, n: usize) -> Override {
        let value = &self.values[n];
        let key = override_key(&self.name);
        let replaces = match key {
            "long_haul.rtt" => Some("long_haul.delay".into()),
            "long_haul.delay" => Some("long_haul.rtt".into()),
            _ => None,
        };
        let single = key.starts_with("long_haul.loss").then(|| "rate".into());
        let option = format!("--over {}={value}", self.name);
        Override { key: key.into(), value: value.clone(), option, replaces, single }
    }
}
