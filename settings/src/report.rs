//! The problems of a file, all at once.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that must be changed before the file can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The option of the command line that it stands in, if not in the file.
    pub source: Option<String>,
    /// Where: line and column, both from 1. `None` where a whole section, or
    /// the file itself, is missing, and in an option.
    pub at: Option<(usize, usize)>,
    /// The key with its section (`lan.mtu`); empty for a syntax error.
    pub key: String,
    /// The value found.
    pub found: String,
    /// The allowed values, or the remedy.
    pub allowed: String,
}

/// Every problem of one file, in the order of its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// Never empty.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Sorts the problems by line; those without a line come last.
    pub(crate) fn new(file: &Path, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|p| p.at.unwrap_or((usize::MAX, 0)));
        Self { file: file.to_owned(), problems }
    }
}

impl fmt::Display for Report {
    /// One line per problem, `file:line:column: key: found …; allowed: …`,
    /// which editors and people both follow; an option stands for itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            match &problem.source {
                Some(option) => write!(f, "{option}:")?,
                None => write!(f, "{}:", self.file.display())?,
            }
            if let Some((line, column)) = problem.at {
                write!(f, "{line}:{column}:")?;
            }
            if !problem.key.is_empty() {
                write!(f, " {}:", problem.key)?;
            }
            write!(f, " found {}", problem.found)?;
            if !problem.allowed.is_empty() {
                write!(f, "; allowed: {}", problem.allowed)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Report {}
