//! The page: its files and their content.

use super::embed::{FOLDER, svg};
use super::markdown::{bullet, page};
use super::{Closed, Effort, Found, beyond, data, published};

/// All that is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// Files by their names relative to the given folder, with their content.
    pub files: Vec<(String, String)>,
}

impl Page {
    /// The folder, within the one given, that some files are in.
    pub const FOLDER: &str = FOLDER;

    /// The page on these results; `command` is the command that gives the reader
    /// the same.
    pub fn of(effort: &Effort, command: &str, closed: &Closed, found: &[Found]) -> Self {
        let mut text = head(effort, command, closed, found);
        let mut figures = Vec::new();
        for (section, more) in
            [closed.section(), published::section(found, effort), beyond::section(found, effort)]
        {
            text += &section;
            figures.extend(more);
        }
        let text = format!("{}\n", text.trim_end());
        let mut files = vec![("evaluation.md".to_owned(), text)];
        let in_folder = |name: &str| format!("{FOLDER}/{name}");
        files.extend(figures.iter().map(|f| (in_folder(&svg(f)), f.standalone())));
        if !closed.long.is_empty() {
            files.push((in_folder("forms.csv"), data::forms_csv(closed)));
        }
        if !found.is_empty() {
            files.push((in_folder("results.csv"), data::results_csv(found)));
        }
        files.push((in_folder("results.json"), data::json(effort, command, closed, found)));
        Self { files }
    }
}

/// The summary.
fn in_short(closed: &Closed, found: &[Found]) -> String {
    let mut points: Vec<String> = closed.in_short().into_iter().collect();
    points.extend(published::in_short(found));
    if points.is_empty() {
        return String::new();
    }
    let points = points.iter().map(|point| bullet(point));
    format!("## In short\n\n{}", points.collect::<String>())
}

fn head(effort: &Effort, command: &str, closed: &Closed, found: &[Found]) -> String {
    let summaries = || found.iter().flat_map(|found| &found.summaries);
    let runs: usize = summaries().map(|summary| summary.seeds.len()).sum();
    let data = [
        ("results.csv", !found.is_empty()),
        ("forms.csv", !closed.long.is_empty()),
        ("results.json", true),
    ];
    let data = data.into_iter().filter(|(_, is_written)| *is_written);
    let data: Vec<_> = data.map(|(name, _)| format!("[{name}]({FOLDER}/{name})")).collect();
    let version = match effort.is_quick {
        true => "This is the short version (`--quick`), with few messages per run.",
        false => "This is the full version; `--quick` makes a shorter one.",
    };
    let values = [
        ("command", command.to_owned()),
        ("version", version.to_owned()),
        ("runs", runs.to_string()),
        ("cells", closed.long.len().to_string()),
        ("data", data.join(", ")),
        ("summary", in_short(closed, found)),
    ];
    page(include_str!("pages/evaluation.md"), &values)
}
