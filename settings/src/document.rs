//! The state of a file that is being read: its problems, and the line of each
//! key, so that every complaint names its line.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::DeValue;

use crate::report::Problem;

/// A document under examination. Problems are collected, never thrown.
pub struct Document<'d> {
    /// The file, then the values that options put in place of its own.
    text: &'d str,
    /// Where each line begins, in ascending order.
    lines: Vec<usize>,
    /// Where the text of each option begins, and the option.
    options: Vec<(usize, String)>,
    problems: RefCell<Vec<Problem>>,
    /// Where each key that was read stands: offset of its value.
    positions: RefCell<BTreeMap<String, usize>>,
    /// Lines that are no TOML, whose intended keys are unknown.
    broken: BTreeSet<usize>,
    /// Every key that was asked for, set or not, and the values that it takes.
    asked: RefCell<Vec<(String, String)>>,
    /// Keys that were found in the upper one of two sections.
    own: RefCell<BTreeSet<String>>,
}

impl<'d> Document<'d> {
    /// `syntax` are the errors that the parser recovered from: each becomes a
    /// problem.
    pub(crate) fn new(
        text: &'d str,
        options: Vec<(usize, String)>,
        syntax: &[toml::de::Error],
    ) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let mut doc = Self {
            text,
            lines: std::iter::once(0).chain(ends).collect(),
            options,
            problems: RefCell::default(),
            positions: RefCell::default(),
            broken: BTreeSet::new(),
            asked: RefCell::default(),
            own: RefCell::default(),
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
    /// Not where the file is no TOML: the key may be there and not be seen. Not where something else stands in the
    /// section's place: that is the mistake.
    pub fn missing(&self, offset: Option<usize>, key: &str, allowed: &str) {
        let mut sections = key.match_indices('.').map(|(dot, _)| &key[..dot]);
        if self.broken.is_empty() && !sections.any(|section| self.has_problem(section)) {
            self.problem_at(offset, key, "nothing", allowed);
        }
    }

    /// Adds a problem with the value of `key` (with its section), wherever it
    /// was read.
    pub fn problem(&self, key: &str, found: impl Into<String>, allowed: impl Into<String>) {
        let at = self.positions.borrow().get(key).copied();
        self.problem_at(at, key, found, allowed);
    }

    /// Adds a problem at a byte offset.
    pub fn problem_at(
        &self,
        offset: Option<usize>,
        key: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let option = offset.and_then(|o| self.options.iter().rfind(|(start, _)| *start <= o));
        let at = offset.filter(|_| option.is_none()).map(|o| self.line_and_column(o));
        if at.is_some_and(|(line, _)| self.broken.contains(&line)) {
            return;
        }
        self.problems.borrow_mut().push(Problem {
            source: option.map(|(_, option)| option.clone()),
            at,
            key: key.to_owned(),
            found: found.into(),
            allowed: allowed.into(),
        });
    }

    /// Whether the file sets `key` (with its section).
    pub fn is_set(&self, key: &str) -> bool {
        self.positions.borrow().contains_key(key)
    }

    /// Whether something is wrong with `key` (with its section): the value read
    /// for it is then a stand-in, which proves nothing.
    pub fn has_problem(&self, key: &str) -> bool {
        self.problems.borrow().iter().any(|problem| problem.key == key)
    }

    /// Whether nothing is wrong so far.
    pub fn is_sound(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// The keys that the reader asked for so far, in its order, each with its
    /// section and the values that it takes: the reference of a file's keys.
    pub fn asked(&self) -> Vec<(String, String)> {
        self.asked.borrow().clone()
    }

    /// The keys (with their sections) that were found in a section that stands [over](crate::Section::over) another one.
    pub fn own(&self) -> BTreeSet<String> {
        self.own.borrow().clone()
    }

    /// Remembers that `key` (with its section) was found in the upper one of two sections.
    pub(crate) fn set_own(&self, key: &str) {
        self.own.borrow_mut().insert(key.to_owned());
    }

    /// The problems so far.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// The line of a byte offset, from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.line_and_column(offset).0
    }

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        (line, self.text[start..offset].chars().count() + 1)
    }

    /// Remembers that the reader asked for `key` (with its section).
    pub(crate) fn ask(&self, key: &str, allowed: &str) {
        self.asked.borrow_mut().push((key.to_owned(), allowed.to_owned()));
    }

    /// Remembers where the value of `key` (with its section) stands.
    pub(crate) fn remember(&self, key: &str, offset: usize) {
        self.positions.borrow_mut().insert(key.to_owned(), offset);
    }

    /// A value as the author wrote it, shortened if it is long.
    pub fn source(&self, value: &Spanned<DeValue<'_>>) -> String {
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
