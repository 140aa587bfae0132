//! Reads keys out of a TOML document and remembers where each one stands, so
//! that every complaint names its line.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use common::time::Span;
use common::wire::Vlans;
use switch::IpNet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Problem;
use super::units;

/// A document under examination. Problems are collected, never thrown.
pub(super) struct Document<'d> {
    text: &'d str,
    problems: RefCell<Vec<Problem>>,
    /// Where each key that was read stands: offset of its value.
    positions: RefCell<BTreeMap<String, usize>>,
    /// Lines that are no TOML. What was meant there is anyone's guess.
    broken: BTreeSet<usize>,
}

impl<'d> Document<'d> {
    /// `syntax` are the errors that the parser recovered from: each becomes a
    /// problem.
    pub(super) fn new(text: &'d str, syntax: &[toml::de::Error]) -> Self {
        let mut doc = Self {
            text,
            problems: RefCell::default(),
            positions: RefCell::default(),
            broken: BTreeSet::new(),
        };
        for error in syntax {
            let message = format!("bad TOML: {}", error.message().replace('\n', " "));
            doc.problem_at(error.span().map(|s| s.start), "", message, "");
        }
        let lines = doc.problems.borrow().iter().filter_map(|p| Some(p.at?.0)).collect();
        doc.broken = lines;
        doc
    }

    /// Adds the problem that `key` is missing from the section at `offset`.
    /// Not where the file is no TOML: the key may be there and not be seen.
    pub(super) fn missing(&self, offset: Option<usize>, key: &str, allowed: &str) {
        if self.broken.is_empty() {
            self.problem_at(offset, key, "nothing", allowed);
        }
    }

    /// Adds a problem with the value of `key` (with its section), wherever it
    /// was read.
    pub(super) fn problem(&self, key: &str, found: impl Into<String>, allowed: impl Into<String>) {
        let at = self.positions.borrow().get(key).copied();
        self.problem_at(at, key, found, allowed);
    }

    /// Adds a problem at a byte offset.
    pub(super) fn problem_at(
        &self,
        offset: Option<usize>,
        key: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let at = offset.map(|o| self.line_and_column(o));
        if at.is_some_and(|(line, _)| self.broken.contains(&line)) {
            return;
        }
        self.problems.borrow_mut().push(Problem {
            at,
            key: key.to_owned(),
            found: found.into(),
            allowed: allowed.into(),
        });
    }

    /// Whether the file sets `key` (with its section).
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.positions.borrow().contains_key(key)
    }

    /// The problems so far.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_and_column(offset).0
    }

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    /// A value as the author wrote it, shortened if it is long.
    fn source(&self, value: &Spanned<DeValue<'_>>) -> String {
        const MAX: usize = 60;
        let text = self.text.get(value.span()).unwrap_or_default().trim();
        let first = text.lines().next().unwrap_or_default();
        match first.char_indices().nth(MAX) {
            Some((cut, _)) => format!("{}…", &first[..cut]),
            None if first.len() < text.len() => format!("{first}…"),
            None => first.to_owned(),
        }
    }
}

/// One table of a document; [`finish`](Self::finish) complains of the keys
/// that nobody asked for.
pub(super) struct Section<'d> {
    doc: &'d Document<'d>,
    name: Cow<'static, str>,
    table: Option<&'d DeTable<'d>>,
    at: Option<usize>,
    known: Vec<&'static str>,
}

impl<'d> Section<'d> {
    /// The document's top level.
    pub(super) fn root(doc: &'d Document<'d>, table: &'d DeTable<'d>) -> Self {
        Self { doc, name: "".into(), table: Some(table), at: None, known: Vec::new() }
    }

    /// The table `[name]`, empty if the file has none.
    pub(super) fn section(&mut self, name: &'static str) -> Section<'d> {
        self.known.push(name);
        let entry = self.table.and_then(|t| t.get_key_value(name));
        let mut child =
            Section { doc: self.doc, name: name.into(), table: None, at: None, known: Vec::new() };
        if let Some((key, value)) = entry {
            child.at = Some(key.span().start);
            match value.get_ref() {
                DeValue::Table(table) => child.table = Some(table),
                _ => self.doc.problem_at(
                    Some(value.span().start),
                    name,
                    self.doc.source(value),
                    format!("a section, [{name}]"),
                ),
            }
        }
        child
    }

    /// The tables `[[name]]`, each called by its place, counted from 1.
    pub(super) fn sections(&mut self, name: &'static str) -> Vec<Section<'d>> {
        self.known.push(name);
        let Some((key, value)) = self.table.and_then(|t| t.get_key_value(name)) else {
            return Vec::new();
        };
        let tables = value.get_ref().as_array().and_then(|list| {
            let tables =
                list.iter().map(|item| Some((item.span().start, item.get_ref().as_table()?)));
            tables.collect::<Option<Vec<_>>>()
        });
        let Some(tables) = tables else {
            let found = self.doc.source(value);
            self.doc.problem_at(Some(key.span().start), name, found, format!("tables, [[{name}]]"));
            return Vec::new();
        };
        let tables = tables.into_iter().enumerate().map(|(n, (at, table))| Section {
            doc: self.doc,
            name: format!("{name}[{}]", n + 1).into(),
            table: Some(table),
            at: Some(at),
            known: Vec::new(),
        });
        tables.collect()
    }

    /// The section's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the section has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Where the section begins, if the file has it.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// The name of `key` with its section.
    pub(super) fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Reads `key` with `parse`, which gives `None` for what is not `allowed`.
    fn read<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(key);
        let value = self.table?.get(key)?;
        let path = self.path(key);
        self.doc.positions.borrow_mut().insert(path.clone(), value.span().start);
        let parsed = parse(value.get_ref());
        if parsed.is_none() {
            self.doc.problem(&path, self.doc.source(value), allowed);
        }
        parsed
    }

    /// A string that is not empty.
    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        self.read(key, "a string that is not empty", |v| {
            v.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
        })
    }

    /// A problem if `key` is missing.
    pub(super) fn require(&self, key: &str, what: &str) {
        if !self.has(key) {
            self.doc.missing(self.at, &self.path(key), what);
        }
    }

    /// Like [`string`](Self::string), and a problem if it is missing.
    pub(super) fn required_string(&mut self, key: &'static str, what: &str) -> String {
        self.require(key, what);
        self.string(key).unwrap_or_default()
    }

    /// `true` or `false`.
    pub(super) fn bool(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", |v| v.as_bool())
    }

    /// An integer within `min ..= max`.
    pub(super) fn int(&mut self, key: &'static str, min: u32, max: u32, unit: &str) -> Option<u32> {
        let allowed = format!("{min} to {max} {unit}");
        self.read(key, allowed.trim_end(), |v| integer(v).filter(|n| (min..=max).contains(n)))
    }

    /// Like [`int`](Self::int), for what DPDK keeps in 16 bits.
    pub(super) fn short(
        &mut self,
        key: &'static str,
        min: u16,
        max: u16,
        unit: &str,
    ) -> Option<u16> {
        self.int(key, min.into(), max.into(), unit).and_then(|n| u16::try_from(n).ok())
    }

    /// Like [`int`](Self::int), for what people write in hexadecimal.
    pub(super) fn int_hex(
        &mut self,
        key: &'static str,
        min: u32,
        max: u32,
        what: &str,
    ) -> Option<u32> {
        let allowed = format!("{min:#x} to {max:#x}, {what}");
        self.read(key, &allowed, |v| integer(v).filter(|n| (min..=max).contains(n)))
    }

    /// One of a few integers.
    pub(super) fn int_of(&mut self, key: &'static str, choices: &[u32], unit: &str) -> Option<u32> {
        let words: Vec<_> = choices.iter().map(u32::to_string).collect();
        let allowed = format!("{} {unit}", words.join(", "));
        self.read(key, &allowed, |v| integer(v).filter(|n| choices.contains(n)))
    }

    /// A list of integers up to `max`.
    pub(super) fn ints(&mut self, key: &'static str, max: u32) -> Option<Vec<u32>> {
        self.read(key, &format!("a list of numbers from 0 to {max}"), |v| {
            let list = v.as_array()?;
            list.iter().map(|v| integer(v.get_ref()).filter(|n| *n <= max)).collect()
        })
    }

    /// A list of strings.
    pub(super) fn strings(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.read(key, "a list of strings", |v| {
            v.as_array()?.iter().map(|v| v.get_ref().as_str().map(str::to_owned)).collect()
        })
    }

    /// VLAN ids, outermost first; none if the key is missing.
    pub(super) fn vlans(&mut self, key: &'static str) -> Option<Vlans> {
        if !self.has(key) {
            self.known.push(key);
            return Some(Vlans::NONE);
        }
        self.read(key, "at most two VLAN ids from 1 to 4094, outermost first", |v| {
            let ids = v.as_array()?.iter().map(|v| match integer(v.get_ref())? {
                id @ 1..=4094 => u16::try_from(id).ok(),
                _ => None,
            });
            match ids.collect::<Option<Vec<_>>>()?[..] {
                [] => Some(Vlans::NONE),
                [only] => Some(Vlans::new(only, 0)),
                [outer, inner] => Some(Vlans::new(outer, inner)),
                _ => None,
            }
        })
    }

    /// A list of IP prefixes. Each that is wrong is a problem of its own.
    pub(super) fn prefixes(&mut self, key: &'static str) -> Option<Vec<IpNet>> {
        /// What one looks like.
        const SYNTAX: &str = "an IP prefix, e.g. \"10.2.0.0/16\" or \"fd00:2::/32\"";
        let (doc, path) = (self.doc, self.path(key));
        self.read(key, "a list of IP prefixes", |v| {
            let mut prefixes = Vec::new();
            for item in v.as_array()? {
                let at = Some(item.span().start);
                match item.get_ref().as_str().and_then(|text| text.parse::<IpNet>().ok()) {
                    Some(net) if net == net.trunc() => prefixes.push(net),
                    Some(net) => {
                        let host = IpNet::from(net.addr());
                        let allowed = format!("\"{}\", or \"{host}\" for one host", net.trunc());
                        doc.problem_at(at, &path, format!("\"{net}\""), allowed);
                    }
                    None => doc.problem_at(at, &path, doc.source(item), SYNTAX),
                }
            }
            Some(prefixes)
        })
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.read(key, &words.join(", "), |v| {
            let word = v.as_str()?;
            choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
        })
    }

    /// A duration within `min ..= max`.
    pub(super) fn duration(&mut self, key: &'static str, min: Span, max: Span) -> Option<Span> {
        let (from, to) = (units::show_duration(min), units::show_duration(max));
        let allowed = format!("{from} to {to}, written as {}", units::DURATION_SYNTAX);
        self.read(key, &allowed, |v| {
            units::duration(v.as_str()?).filter(|d| (min..=max).contains(d))
        })
    }

    /// A size in bytes within `min ..= max`.
    pub(super) fn size(&mut self, key: &'static str, min: u64, max: u64) -> Option<u64> {
        let (from, to) = (units::show_size(min), units::show_size(max));
        let allowed = format!("{from} to {to}, written as {}", units::SIZE_SYNTAX);
        self.read(key, &allowed, |v| units::size(v.as_str()?).filter(|s| (min..=max).contains(s)))
    }

    /// Anything that a string can be parsed into.
    pub(super) fn parsed<T: std::str::FromStr>(
        &mut self,
        key: &'static str,
        allowed: &str,
    ) -> Option<T> {
        self.read(key, allowed, |v| v.as_str()?.parse().ok())
    }

    /// Complains of every key that was never asked for, and names the nearest
    /// of those that exist.
    pub(super) fn finish(self) {
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let nearest = self
                .known
                .iter()
                .map(|k| (strsim::damerau_levenshtein(k, name), *k))
                .min()
                .filter(|(distance, known)| *distance <= known.len().div_ceil(3));
            let allowed = match nearest {
                Some((_, known)) => format!("did you mean \"{known}\"?"),
                None => self.known.join(", "),
            };
            self.doc.problem_at(
                Some(key.span().start),
                &self.path(name),
                "an unknown key",
                allowed,
            );
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<u32> {
    let integer = value.as_integer()?;
    u32::from_str_radix(integer.as_str(), integer.radix()).ok()
}
