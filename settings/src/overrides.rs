//! Values from the command line in place of a file's.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value that takes the place of a file's.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Override {
    /// The key with its section, `long_haul.rate`. Where the section is a list
    /// of tables (`[[traffic]]`), it holds for those that have the key already,
    /// or for all of them if none has.
    pub key: String,
    /// The value, as in the file; a string may stand without quotes.
    pub value: String,
    /// The option that it comes from, for the report.
    pub option: String,
    /// A key of the file that must go, since it says the same in other words.
    pub replaces: Option<String>,
    /// Where the file may have a single value in place of a table: the key of
    /// the table that the value stands for. `loss = 1e-3` means the same as
    /// `loss = { rate = 1e-3 }`; with `rate` here, a new `loss` leaves
    /// `loss.burst` as it is, and a new `loss.burst` the share.
    pub single: Option<String>,
}

/// Puts `overrides` into `table` and their text behind that of the file. Gives
/// where in the text each begins, and its option.
pub(crate) fn apply<'v>(
    table: &mut DeTable<'v>,
    text: &mut String,
    overrides: &'v [Override],
) -> Vec<(usize, String)> {
    let mut options = Vec::new();
    for Override { key, value, option, replaces, single } in overrides {
        text.push('\n');
        let start = text.len();
        let span = start..start + value.len();
        text.push_str(value);
        options.push((start, option.clone()));
        if let Some(other) = replaces {
            remove(table, &other.split('.').collect::<Vec<_>>());
        }
        let keys: Vec<&str> = key.split('.').collect();
        set(table, &keys, &Spanned::new(span, parse(value)), single.as_deref());
    }
    options
}

/// `text` parsed as TOML, or as the string that it is.
fn parse(text: &str) -> DeValue<'_> {
    DeValue::parse(text).map_or_else(|_| DeValue::String(text.into()), |value| value.into_inner())
}

fn remove(table: &mut DeTable<'_>, keys: &[&str]) {
    match keys {
        [] => {}
        [key] => {
            table.remove(*key);
        }
        [key, rest @ ..] => {
            if let Some(DeValue::Table(inner)) = table.get_mut(*key).map(Spanned::get_mut) {
                remove(inner, rest);
            }
        }
    }
}

fn set<'v>(
    table: &mut DeTable<'v>,
    keys: &[&str],
    value: &Spanned<DeValue<'v>>,
    single: Option<&'v str>,
) {
    let [key, rest @ ..] = keys else { return };
    let own_key = || Spanned::new(value.span(), (*key).to_owned().into());
    if rest.is_empty() {
        if let (Some(single), Some(DeValue::Table(inner)), false) =
            (single, table.get_mut(*key).map(Spanned::get_mut), value.get_ref().is_table())
        {
            set(inner, &[single], value, None);
            return;
        }
        // With its key, which is where an unknown one is complained of.
        table.remove(*key);
        table.insert(own_key(), value.clone());
        return;
    }
    if !table.contains_key(*key) {
        let empty = DeValue::Table(DeTable::new());
        table.insert(own_key(), Spanned::new(value.span(), empty));
    }
    if let Some(single) = single
        && let Some(old) = table.get_mut(*key)
        && !(old.get_ref().is_table() || old.get_ref().is_array())
    {
        let span = old.span();
        let whole = Spanned::new(span.clone(), old.get_ref().clone());
        let mut inner = DeTable::new();
        inner.insert(Spanned::new(span, single.into()), whole);
        *old.get_mut() = DeValue::Table(inner);
    }
    match table.get_mut(*key).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => set(inner, rest, value, single),
        Some(DeValue::Array(list)) => {
            let has = |item: &Spanned<DeValue<'v>>| {
                item.get_ref().as_table().is_some_and(|t| t.contains_key(rest[0]))
            };
            let any = list.iter().any(has);
            for item in list.iter_mut() {
                if any && !has(item) {
                    continue;
                }
                if let DeValue::Table(inner) = item.get_mut() {
                    set(inner, rest, value, single);
                }
            }
        }
        // The key is no section: the reader will say so.
        _ => {}
    }
}
