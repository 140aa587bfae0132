//! Configuration files and command lines, and the messages for errors in
//! them.
//!
//! [`load`] reads a TOML file: [`Section`] takes keys out of it one by one,
//! [`Document`] collects problems until the whole file is read, so
//! that a [`Report`] names every problem at once, each with its line, the value
//! found and the values allowed. [`units`] are the quantities that files and
//! command lines share, [`device`] names of DPDK devices. [`sizing`] computes the memory of kept packets.
//!
//! ```
//! let text = "[link]\nrate = \"10Gbps\"\ndelya = \"5ms\"\n";
//! let report = settings::parse("wan.toml".as_ref(), text, &[], |_, mut root| {
//!     let mut link = root.section("link");
//!     let rate = link.rate("rate", 1_000_000, 1_000_000_000_000);
//!     let delay = link.duration("delay", common::time::Span::ZERO, common::time::Span::from_millis(1000));
//!     link.finish();
//!     root.finish();
//!     (rate, delay)
//! });
//! assert_eq!(
//!     report.unwrap_err().to_string(),
//!     "wan.toml:3:1: link.delya: found an unknown key; allowed: did you mean \"delay\"?"
//! );
//! ```

pub mod device;
mod document;
mod overrides;
mod report;
mod section;
pub mod sizing;
pub mod units;

use std::path::Path;

use toml::de::DeTable;

pub use document::Document;
pub use overrides::Override;
pub use report::{Problem, Report};
pub use section::{Section, integer, number};

/// The words that stand for values, in a file or on a command line.
pub type Words<'w, T> = &'w [(&'static str, T)];

/// The word for `value`; empty if there is none.
pub fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word)
}

/// The text of `file`.
///
/// # Errors
/// A file that can't be read is a problem like others.
pub fn read(file: &Path) -> Result<String, Report> {
    std::fs::read_to_string(file).map_err(|e| {
        Report::new(
            file,
            vec![Problem {
                source: None,
                at: None,
                key: String::new(),
                found: format!("a file that can't be read: {e}"),
                allowed: "a readable file of UTF-8 text".into(),
            }],
        )
    })
}

/// Reads `file` with `read`, which is given the document and its top level.
/// `read` replaces an invalid value by a default and continues; its result
/// is then discarded.
///
/// # Errors
/// All problems at once: an unreadable file, bad syntax, and the problems that `read`
/// reported.
pub fn load<T>(
    file: &Path,
    overrides: &[Override],
    read: impl for<'d> FnOnce(&'d Document<'d>, Section<'d>) -> T,
) -> Result<T, Report> {
    parse(file, &self::read(file)?, overrides, read)
}

/// Like [`load`], of a text already in memory.
///
/// # Errors
/// As [`load`].
pub fn parse<T>(
    file: &Path,
    text: &str,
    overrides: &[Override],
    read: impl for<'d> FnOnce(&'d Document<'d>, Section<'d>) -> T,
) -> Result<T, Report> {
    let (table, syntax) = DeTable::parse_recoverable(text);
    let mut table = table.into_inner();
    let mut all = text.to_owned();
    let sources = overrides::apply(&mut table, &mut all, overrides);
    let doc = Document::new(&all, sources, &syntax);
    let result = read(&doc, Section::root(&doc, &table));
    let problems = doc.into_problems();
    if problems.is_empty() { Ok(result) } else { Err(Report::new(file, problems)) }
}
