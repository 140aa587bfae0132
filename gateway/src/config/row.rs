//! A row of the [table of keys](super::keys): reads its key from a file, prints it, compares it and copies it.

use std::fmt::{Display, Write};
use std::path::PathBuf;
use std::str::FromStr;

use common::time::Span;
use settings::units::{show_duration, show_rate, show_size};
use settings::{Document, Section, Words, integer, word};

use super::{Config, IpNet, Wan};

/// When a changed value of a key is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// At the next start.
    Start,
    /// At a reload of the file.
    Reload,
    /// At a reload, or at a request: any value is safe for traffic, and both boxes may have different ones.
    Request,
}

/// How the values of a key are written: their form and range.
pub trait Kind<V>: Sync {
    /// Reads `key`, if the section has it; reports a value that is not allowed.
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<V>;

    /// A value as in the file; `None` for the value of a missing key that has no words.
    fn show(&self, value: &V) -> Option<String>;

    /// The meaning of a missing key that has no value.
    fn absent(&self) -> Option<&'static str> {
        None
    }
}

/// The field that a key is read into.
enum Field<V> {
    /// The only one.
    Config(fn(&mut Config) -> &mut V),
    /// That of each WAN port.
    Wan(fn(&mut Wan) -> &mut V),
}

/// All that the program has to know of a key.
pub struct Key<V, K> {
    name: &'static str,
    applied: Applied,
    kind: K,
    field: Field<V>,
    default: fn(&Config) -> V,
}

/// A key of the whole configuration, with its section. Its default may depend on keys that stand before it in the table.
pub const fn key<V, K: Kind<V>>(
    name: &'static str,
    applied: Applied,
    kind: K,
    field: fn(&mut Config) -> &mut V,
    default: fn(&Config) -> V,
) -> Key<V, K> {
    Key { name, applied, kind, field: Field::Config(field), default }
}

/// A key that each WAN port has, with its section. It is applied at the start.
pub const fn wan<V, K: Kind<V>>(
    name: &'static str,
    kind: K,
    field: fn(&mut Wan) -> &mut V,
    default: fn(&Config) -> V,
) -> Key<V, K> {
    Key { name, applied: Applied::Start, kind, field: Field::Wan(field), default }
}

/// A row of the table, whatever the type of its values. `wan` is the index of the WAN port, for keys that each of them has.
pub trait Row: Sync {
    /// The name of the key, with its section.
    fn name(&self) -> &'static str;

    /// When a changed value is applied.
    fn applied(&self) -> Applied;

    /// Whether each WAN port has the key.
    fn is_of_each_wan(&self) -> bool;

    /// Reads the value, or the default.
    fn read(&self, section: &mut Section<'_>, config: &mut Config, wan: usize);

    /// The value as in the file, if it has words.
    fn show(&self, config: &mut Config, wan: usize) -> Option<String>;

    /// The meaning of a value without words, where it is worth a comment.
    fn absent(&self) -> Option<&'static str>;

    /// Whether both configurations have the same value.
    fn is_same(&self, one: &mut Config, other: &mut Config, wan: usize) -> bool;

    /// Copies the value from one configuration to another one.
    fn copy(&self, from: &mut Config, to: &mut Config);

    /// The section, empty for the top level, and the key in it.
    fn parts(&self) -> (&'static str, &'static str) {
        self.name().split_once('.').unwrap_or(("", self.name()))
    }
}

impl<V, K> Key<V, K> {
    fn at<'c>(&self, config: &'c mut Config, wan: usize) -> &'c mut V {
        match self.field {
            Field::Config(field) => field(config),
            Field::Wan(field) => field(&mut config.wan[wan]),
        }
    }
}

impl<V: Clone + PartialEq, K: Kind<V>> Row for Key<V, K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn applied(&self) -> Applied {
        self.applied
    }

    fn is_of_each_wan(&self) -> bool {
        matches!(self.field, Field::Wan(_))
    }

    fn read(&self, section: &mut Section<'_>, config: &mut Config, wan: usize) {
        let value = self.kind.read(section, self.parts().1);
        *self.at(config, wan) = value.unwrap_or_else(|| (self.default)(config));
    }

    fn show(&self, config: &mut Config, wan: usize) -> Option<String> {
        self.kind.show(self.at(config, wan))
    }

    fn absent(&self) -> Option<&'static str> {
        self.kind.absent()
    }

    fn is_same(&self, one: &mut Config, other: &mut Config, wan: usize) -> bool {
        self.at(one, wan) == self.at(other, wan)
    }

    fn copy(&self, from: &mut Config, to: &mut Config) {
        self.at(to, 0).clone_from(self.at(from, 0));
    }
}

/// Least and greatest integer, and the unit.
pub struct Int(pub u32, pub u32, pub &'static str);

impl<V: TryFrom<u32> + Display> Kind<V> for Int {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<V> {
        section.int(key, self.0, self.1, self.2).and_then(|n| V::try_from(n).ok())
    }

    fn show(&self, value: &V) -> Option<String> {
        Some(value.to_string())
    }
}

/// Least and greatest number of something that is not counted, and its meaning.
pub struct Id(pub u16, pub u16, pub &'static str);

impl<V: TryFrom<u32> + Display> Kind<V> for Id {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<V> {
        let &Self(min, max, what) = self;
        section.read(key, &format!("{min} to {max}, {what}"), |value| {
            let id = integer(value).filter(|id| (min.into()..=max.into()).contains(id))?;
            V::try_from(id).ok()
        })
    }

    fn show(&self, value: &V) -> Option<String> {
        Some(value.to_string())
    }
}

/// An [`Id`] in hexadecimal.
pub struct Hex(pub u16, pub u16, pub &'static str);

impl<V: TryFrom<u32> + Copy + Into<u32>> Kind<V> for Hex {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<V> {
        let id = section.int_hex(key, self.0.into(), self.1.into(), self.2);
        id.and_then(|n| V::try_from(n).ok())
    }

    fn show(&self, value: &V) -> Option<String> {
        let digits = if self.1 > 0xff { 4 } else { 2 };
        Some(format!("{:#0width$x}", (*value).into(), width = 2 + digits))
    }
}

/// The integers that there may be, and their unit.
pub struct OneOf(pub &'static [u32], pub &'static str);

impl Kind<u8> for OneOf {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<u8> {
        section.int_of(key, self.0, self.1).and_then(|n| u8::try_from(n).ok())
    }

    fn show(&self, value: &u8) -> Option<String> {
        Some(value.to_string())
    }
}

/// `true` or `false`.
pub struct Bool;

impl Kind<bool> for Bool {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<bool> {
        section.bool(key)
    }

    fn show(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// One of a few words.
pub struct Word<T: 'static>(pub Words<'static, T>);

impl<T: Copy + PartialEq + Sync> Kind<T> for Word<T> {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<T> {
        section.choice(key, self.0)
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(quoted(word(self.0, value)))
    }
}

/// Shortest and longest time.
pub struct Time(pub Span, pub Span);

impl Kind<Span> for Time {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Span> {
        section.duration(key, self.0, self.1)
    }

    fn show(&self, value: &Span) -> Option<String> {
        Some(quoted(&show_duration(*value)))
    }
}

/// A [`Time`] that follows from the measured round trip where the file has none.
pub struct Derived(pub Time);

impl Kind<Option<Span>> for Derived {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Option<Span>> {
        self.0.read(section, key).map(Some)
    }

    fn show(&self, value: &Option<Span>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.show(value))
    }

    fn absent(&self) -> Option<&'static str> {
        Some("derived from the measured round trip")
    }
}

/// Fewest and most bytes.
pub struct Size(pub u64, pub u64);

impl Kind<u64> for Size {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<u64> {
        section.size(key, self.0, self.1)
    }

    fn show(&self, value: &u64) -> Option<String> {
        Some(quoted(&show_size(*value)))
    }
}

/// Lowest and highest rate, bit/s.
pub struct Rate(pub u64, pub u64);

impl Kind<u64> for Rate {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<u64> {
        section.rate(key, self.0, self.1)
    }

    fn show(&self, value: &u64) -> Option<String> {
        Some(quoted(&show_rate(*value)))
    }
}

/// A text that is not empty.
pub struct Text;

impl Kind<String> for Text {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<String> {
        section.string(key)
    }

    fn show(&self, value: &String) -> Option<String> {
        Some(quoted(value))
    }
}

impl Kind<PathBuf> for Text {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<PathBuf> {
        section.string(key).map(Into::into)
    }

    fn show(&self, value: &PathBuf) -> Option<String> {
        Some(quoted(&value.to_string_lossy()))
    }
}

/// A text that the file must have, and its meaning.
pub struct Required(pub &'static str);

impl Kind<String> for Required {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<String> {
        Some(section.required_string(key, self.0))
    }

    fn show(&self, value: &String) -> Option<String> {
        Some(quoted(value))
    }
}

/// Anything that is written as a string, such as an address, and its meaning.
pub struct Parsed(pub &'static str);

impl<V: FromStr + Display> Kind<V> for Parsed {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<V> {
        section.parsed(key, self.0)
    }

    fn show(&self, value: &V) -> Option<String> {
        Some(quoted(&value.to_string()))
    }
}

/// Values of a kind, or none.
pub struct Maybe<K>(pub K);

impl<V, K: Kind<V>> Kind<Option<V>> for Maybe<K> {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Option<V>> {
        self.0.read(section, key).map(Some)
    }

    fn show(&self, value: &Option<V>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.show(value))
    }
}

/// A list of integers up to this one.
pub struct Ints(pub u32);

impl Kind<Vec<u32>> for Ints {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Vec<u32>> {
        section.ints(key, self.0)
    }

    fn show(&self, value: &Vec<u32>) -> Option<String> {
        Some(format!("{value:?}"))
    }
}

/// A list of texts.
pub struct Texts;

impl Kind<Vec<String>> for Texts {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Vec<String>> {
        section.strings(key)
    }

    fn show(&self, value: &Vec<String>) -> Option<String> {
        Some(list(value))
    }
}

/// A list of IP prefixes. Each that is wrong is a problem of its own.
pub struct Prefixes;

impl Kind<Vec<IpNet>> for Prefixes {
    fn read(&self, section: &mut Section<'_>, key: &'static str) -> Option<Vec<IpNet>> {
        /// The syntax of a prefix.
        const SYNTAX: &str = "an IP prefix, e.g. \"10.2.0.0/16\" or \"fd00:2::/32\"";
        let (doc, path): (&Document<'_>, _) = (section.document(), section.path(key));
        section.read(key, "a list of IP prefixes", |v| {
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

    fn show(&self, value: &Vec<IpNet>) -> Option<String> {
        Some(list(value))
    }
}

/// A TOML list of basic strings.
fn list<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(|value| quoted(&value.to_string())).collect();
    format!("[{}]", values.join(", "))
}

/// A TOML basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
