//! Takes single keys out of a document.

use std::borrow::Cow;

use common::time::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::Document;
use crate::{Words, units};

/// One table of a document; [`finish`](Self::finish) complains of the keys
/// that nobody asked for.
pub struct Section<'d> {
    doc: &'d Document<'d>,
    name: Cow<'static, str>,
    table: Option<&'d DeTable<'d>>,
    /// Where keys are looked for that `table` lacks.
    under: Option<&'d DeTable<'d>>,
    /// It stands over another one, or is part of one that does.
    is_upper: bool,
    /// The only keys that `table` may have; otherwise all that were asked for.
    own: Option<(String, &'static [&'static str])>,
    at: Option<usize>,
    known: Vec<&'static str>,
}

/// A key and its value.
type Entry<'d> = (&'d Spanned<Cow<'d, str>>, &'d Spanned<DeValue<'d>>);

impl<'d> Section<'d> {
    fn new(
        doc: &'d Document<'d>,
        name: Cow<'static, str>,
        table: Option<&'d DeTable<'d>>,
        at: Option<usize>,
    ) -> Self {
        Self { doc, name, table, under: None, is_upper: false, own: None, at, known: Vec::new() }
    }

    /// All of `below`, in whose place stands what this section has of the keys `own`, section by section: the
    /// special case over what holds for all. Keys have the names that they have in `below`;
    /// [`Document::own`] says which of them this section has.
    pub fn over(self, below: &Self, own: &'static [&'static str]) -> Self {
        let own = Some((self.name.into_owned(), own));
        Self {
            name: below.name.clone(),
            under: below.table,
            is_upper: true,
            own,
            known: Vec::new(),
            ..self
        }
    }

    /// A key and its value, of this section or, if it lacks it, of the one under it.
    fn entry(&self, key: &str) -> Option<Entry<'d>> {
        let of_own = self.table.and_then(|table| table.get_key_value(key));
        of_own.or_else(|| self.under?.get_key_value(key))
    }

    /// Whether `key` is in this section and not in the one under it.
    fn is_own(&self, key: &str) -> bool {
        self.is_upper && self.table.is_some_and(|table| table.contains_key(key))
    }

    /// The document's top level.
    pub(crate) fn root(doc: &'d Document<'d>, table: &'d DeTable<'d>) -> Self {
        Self::new(doc, "".into(), Some(table), None)
    }

    /// The table `[name]`, empty if the file has none.
    pub fn section(&mut self, name: &'static str) -> Self {
        self.known.push(name);
        let entry = self.entry(name);
        let path = self.path(name);
        let mut child = Self::new(self.doc, path.clone().into(), None, None);
        child.is_upper = self.is_own(name);
        if child.is_upper {
            let below = self.under.and_then(|under| under.get(name));
            child.under = below.and_then(|below| below.get_ref().as_table());
        }
        // That something is missing from the upper section has to be said there.
        child.at =
            self.at.filter(|_| self.own.as_ref().is_some_and(|(_, own)| own.contains(&name)));
        if let Some((key, value)) = entry {
            child.at = Some(key.span().start);
            match value.get_ref() {
                DeValue::Table(table) => child.table = Some(table),
                // It was asked for as a list of tables before.
                _ if self.doc.has_problem(&path) => {}
                _ => self.doc.problem_at(
                    Some(value.span().start),
                    &path,
                    self.doc.source(value),
                    format!("a section, [{path}]"),
                ),
            }
        }
        child
    }

    /// Whether `key` is a table. Keys that may be more than one thing ask first.
    pub fn is_table(&self, key: &str) -> bool {
        self.entry(key).is_some_and(|(_, v)| v.get_ref().as_table().is_some())
    }

    /// Whether `key` is a list.
    pub fn is_array(&self, key: &str) -> bool {
        self.entry(key).is_some_and(|(_, v)| v.get_ref().as_array().is_some())
    }

    /// A section that the file does not have: every key has its default.
    pub fn absent(&self) -> Self {
        Self::new(self.doc, "".into(), None, None)
    }

    /// The tables `[[name]]`, each called by its place, counted from 1.
    pub fn sections(&mut self, name: &'static str) -> Vec<Self> {
        self.known.push(name);
        let Some((key, value)) = self.entry(name) else {
            return Vec::new();
        };
        let tables = value.get_ref().as_array().and_then(|list| {
            let tables =
                list.iter().map(|item| Some((item.span().start, item.get_ref().as_table()?)));
            tables.collect::<Option<Vec<_>>>()
        });
        let Some(tables) = tables else {
            let (found, path) = (self.doc.source(value), self.path(name));
            let allowed = format!("tables, [[{path}]]");
            self.doc.problem_at(Some(key.span().start), &path, found, allowed);
            return Vec::new();
        };
        let tables = (1..).zip(tables).map(|(n, (at, table))| {
            let name = format!("{}[{n}]", self.path(name));
            Self::new(self.doc, name.into(), Some(table), Some(at))
        });
        tables.collect()
    }

    /// The section's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The document that the section is part of.
    pub fn document(&self) -> &'d Document<'d> {
        self.doc
    }

    /// Whether the section has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where `key` stands, if the section has it.
    pub fn at_key(&self, key: &str) -> Option<usize> {
        self.entry(key).map(|(key, _)| key.span().start)
    }

    /// Where the section begins, if the file has it.
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// The name of `key` with its section.
    pub fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Reads `key` with `parse`, which returns `None` for a value that is not `allowed`.
    /// The other methods are built on this one; callers can build further ones.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(key);
        let path = self.path(key);
        self.doc.ask(&path, allowed);
        let (_, value) = self.entry(key)?;
        self.doc.remember(&path, value.span().start);
        if self.is_own(key) {
            self.doc.set_own(&path);
        }
        let parsed = parse(value.get_ref());
        if parsed.is_none() {
            self.doc.problem(&path, self.doc.source(value), allowed);
        }
        parsed
    }

    /// A string that is not empty.
    pub fn string(&mut self, key: &'static str) -> Option<String> {
        self.read(key, "a string that is not empty", |v| {
            v.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
        })
    }

    /// A problem if `key` is missing.
    pub fn require(&self, key: &str, what: &str) {
        if !self.has(key) {
            self.doc.missing(self.at, &self.path(key), what);
        }
    }

    /// Like [`string`](Self::string), and a problem if it is missing.
    pub fn required_string(&mut self, key: &'static str, what: &str) -> String {
        self.require(key, what);
        self.string(key).unwrap_or_default()
    }

    /// `true` or `false`.
    pub fn bool(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", |v| v.as_bool())
    }

    /// An integer within `min ..= max`.
    pub fn int(&mut self, key: &'static str, min: u32, max: u32, unit: &str) -> Option<u32> {
        let allowed = format!("{min} to {max} {unit}");
        self.read(key, allowed.trim_end(), |v| integer(v).filter(|n| (min..=max).contains(n)))
    }

    /// Like [`int`](Self::int), for values that DPDK keeps in 16 bits.
    pub fn short(&mut self, key: &'static str, min: u16, max: u16, unit: &str) -> Option<u16> {
        self.int(key, min.into(), max.into(), unit).and_then(|n| u16::try_from(n).ok())
    }

    /// Like [`int`](Self::int), for values usually written in hexadecimal.
    pub fn int_hex(&mut self, key: &'static str, min: u32, max: u32, what: &str) -> Option<u32> {
        let allowed = format!("{min:#x} to {max:#x}, {what}");
        self.read(key, &allowed, |v| integer(v).filter(|n| (min..=max).contains(n)))
    }

    /// One of a few integers.
    pub fn int_of(&mut self, key: &'static str, choices: &[u32], unit: &str) -> Option<u32> {
        let words: Vec<_> = choices.iter().map(u32::to_string).collect();
        let allowed = format!("{} {unit}", words.join(", "));
        self.read(key, &allowed, |v| integer(v).filter(|n| choices.contains(n)))
    }

    /// A list of integers up to `max`.
    pub fn ints(&mut self, key: &'static str, max: u32) -> Option<Vec<u32>> {
        self.read(key, &format!("a list of numbers from 0 to {max}"), |v| {
            let list = v.as_array()?;
            list.iter().map(|v| integer(v.get_ref()).filter(|n| *n <= max)).collect()
        })
    }

    /// A list of strings.
    pub fn strings(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.read(key, "a list of strings", |v| {
            v.as_array()?.iter().map(|v| v.get_ref().as_str().map(str::to_owned)).collect()
        })
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, key: &'static str, choices: Words<'_, T>) -> Option<T> {
        self.read(key, &quoted(choices), |v| find(choices, v.as_str()?))
    }

    /// A list of such words, each at most once. Each that is wrong is a problem
    /// of its own.
    pub fn choices<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        choices: Words<'_, T>,
    ) -> Option<Vec<T>> {
        let (doc, path, allowed) = (self.doc, self.path(key), quoted(choices));
        self.read(key, &format!("a list of {allowed}"), |v| {
            let mut values = Vec::new();
            for item in v.as_array()? {
                let at = Some(item.span().start);
                match item.get_ref().as_str().and_then(|word| find(choices, word)) {
                    Some(value) if values.contains(&value) => {
                        doc.problem_at(at, &path, doc.source(item) + " again", "each once");
                    }
                    Some(value) => values.push(value),
                    None => doc.problem_at(at, &path, doc.source(item), &*allowed),
                }
            }
            Some(values)
        })
    }

    /// A quantity within `min ..= max`: a string that `parse` reads, `shown` as in messages.
    fn quantity<T: Copy + PartialOrd>(
        &mut self,
        key: &'static str,
        (min, max): (T, T),
        (shown, syntax): (fn(T) -> String, &str),
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let allowed = format!("{} to {}, written as {syntax}", shown(min), shown(max));
        self.read(key, &allowed, |v| {
            parse(v.as_str()?).ok().filter(|value| (min..=max).contains(value))
        })
    }

    /// A duration within `min ..= max`.
    pub fn duration(&mut self, key: &'static str, min: Span, max: Span) -> Option<Span> {
        let form = (units::show_duration as fn(_) -> _, units::DURATION_SYNTAX);
        self.quantity(key, (min, max), form, units::duration)
    }

    /// A size in bytes within `min ..= max`.
    pub fn size(&mut self, key: &'static str, min: u64, max: u64) -> Option<u64> {
        let form = (units::show_size as fn(_) -> _, units::SIZE_SYNTAX);
        self.quantity(key, (min, max), form, units::size)
    }

    /// A rate in bit/s within `min ..= max`.
    pub fn rate(&mut self, key: &'static str, min: u64, max: u64) -> Option<u64> {
        let form = (units::show_rate as fn(_) -> _, units::RATE_SYNTAX);
        self.quantity(key, (min, max), form, units::rate)
    }

    /// A share within `min ..= max`: a number, or a percentage in a string.
    pub fn share(&mut self, key: &'static str, min: f64, max: f64) -> Option<f64> {
        let allowed = format!("{min} to {max}, written as {}", units::SHARE_SYNTAX);
        self.read(key, &allowed, |v| {
            let share = match v.as_str() {
                Some(text) => units::share(text).ok(),
                None => number(v),
            };
            share.filter(|s| (min..=max).contains(s))
        })
    }

    /// A number within `min ..= max`, whole or not.
    pub fn number(&mut self, key: &'static str, min: f64, max: f64, unit: &str) -> Option<f64> {
        let allowed = format!("{min} to {max} {unit}");
        self.read(key, allowed.trim_end(), |v| number(v).filter(|n| (min..=max).contains(n)))
    }

    /// Anything that a string can be parsed into.
    pub fn parsed<T: std::str::FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<T> {
        self.read(key, allowed, |v| v.as_str()?.parse().ok())
    }

    /// Complains of every key that was never asked for, and names the nearest
    /// of those that exist.
    pub fn finish(self) {
        let (known, own) = (&*self.known, self.own.as_ref());
        let (of_own, prefix) = own.map_or((known, self.name.as_ref()), |(name, own)| (*own, name));
        self.unknown(self.table, of_own, prefix);
        self.unknown(self.under, known, &self.name);
    }

    /// Complains of the keys of `table` that are not `known`.
    fn unknown(&self, table: Option<&DeTable<'_>>, known: &[&str], prefix: &str) {
        for (key, _) in table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let nearest = known
                .iter()
                .map(|k| (strsim::damerau_levenshtein(k, name), *k))
                .min()
                .filter(|(distance, known)| *distance <= known.len().div_ceil(3));
            let allowed = match nearest {
                Some((_, known)) => format!("did you mean \"{known}\"?"),
                None => known.join(", "),
            };
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            if self.own.is_none() && self.is_own(name) {
                self.doc.set_own(&path);
            }
            self.doc.problem_at(Some(key.span().start), &path, "an unknown key", allowed);
        }
    }
}

/// A value as an integer that is not negative.
pub fn integer(value: &DeValue<'_>) -> Option<u32> {
    let integer = value.as_integer()?;
    u32::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A value as a number, whole or not. TOML's `inf` and `nan` are none.
pub fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value.as_float() {
        Some(float) => float.as_str().parse().ok()?,
        None => f64::from(integer(value)?),
    };
    f64::is_finite(number).then_some(number)
}

fn find<T: Copy>(choices: Words<'_, T>, word: &str) -> Option<T> {
    choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// The words as they are written in a file.
fn quoted<T>(choices: Words<'_, T>) -> String {
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    words.join(", ")
}
