//! The scenario file: its top level.

use std::path::Path;

use common::time::Span;
use settings::{Document, Override, Report, Section, integer};

use super::{check, flows, network, nic};
use crate::scenario::Scenario;
use crate::scheme::Scheme;
use crate::schemes;

/// The schemes that are compared by default.
const DEFAULT_SCHEMES: [Scheme; 4] = [Scheme::LOSSLESS, Scheme::GBN, Scheme::LR2, Scheme::CACHED];

/// Longest virtual time of a run, and its default.
const LONGEST: Span = Span::from_millis(3_600_000);
const DEFAULT_LIMIT: Span = Span::from_millis(60_000);

/// Reads and checks `file`, with `overrides` in place of its values.
///
/// # Errors
/// All problems at once: an unreadable file, bad syntax, unknown keys, values
/// of the wrong type or out of range, settings that contradict each other.
pub fn load(file: &Path, overrides: &[Override]) -> Result<Scenario, Report> {
    settings::load(file, overrides, |doc, root| read(doc, root, file))
}

/// Like [`load`], of a text already in memory. Files that it names are still
/// read, from the folder of `file`.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &Path, text: &str, overrides: &[Override]) -> Result<Scenario, Report> {
    settings::parse(file, text, overrides, |doc, root| read(doc, root, file))
}

fn read(doc: &Document<'_>, mut root: Section<'_>, file: &Path) -> Scenario {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = name(&mut root).unwrap_or_else(|| stem.into_owned());
    let about = root.string("about").unwrap_or_default();
    let schemes = schemes(doc, &mut root).unwrap_or_else(|| DEFAULT_SCHEMES.to_vec());
    let seeds = seeds(&mut root).unwrap_or_else(|| vec![1]);
    let limit = root.duration("limit", Span::from_micros(1), LONGEST).unwrap_or(DEFAULT_LIMIT);
    let sample_every = root.duration("sample_every", Span::from_nanos(100), LONGEST);

    let topology = network::topology(root.section("topology"));
    let long_haul = network::long_haul(doc, root.section("long_haul"));
    let site = network::site(root.section("site"), topology, long_haul.rate);
    let nic = nic::read(root.section("nic"), topology);
    let gateway = network::gateway(root.section("gateway"), &long_haul);
    let traffic = flows::read(doc, root.sections("traffic"), file, &long_haul, topology);
    root.finish();

    // Pools fill and drain within round trips.
    let default_sample = long_haul.rtt().scale(1, 4).max(Span::from_micros(10));
    let scenario = Scenario {
        name,
        about,
        schemes,
        seeds,
        limit,
        sample_every: sample_every.unwrap_or(default_sample),
        topology,
        long_haul,
        site,
        nic,
        gateway,
        traffic,
    };
    check::all(doc, &scenario);
    scenario
}

/// It becomes part of file names.
fn name(root: &mut Section<'_>) -> Option<String> {
    root.read("name", "letters, digits, '-', '_' and '.', beginning with a letter or digit", |v| {
        let name = v.as_str()?;
        let is_fine = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        is_fine.then(|| name.to_owned())
    })
}

/// `"all"`, which are those for any scenario, or a list of names.
fn schemes(doc: &Document<'_>, root: &mut Section<'_>) -> Option<Vec<Scheme>> {
    const KEY: &str = "schemes";
    let words: Vec<_> = schemes::all().iter().map(|scheme| (scheme.name(), *scheme)).collect();
    if root.is_array(KEY) {
        let schemes = root.choices(KEY, &words);
        if schemes.as_ref().is_some_and(Vec::is_empty) {
            doc.problem(KEY, "none", "at least one, or \"all\"");
        }
        return schemes;
    }
    let names: Vec<_> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    root.read(KEY, &format!("\"all\", or a list of {}", names.join(", ")), |v| {
        (v.as_str()? == "all").then(schemes::for_any_scenario)
    })
}

/// A list of different numbers.
fn seeds(root: &mut Section<'_>) -> Option<Vec<u64>> {
    root.read("seeds", "a list of at least one number from 0 to 4294967295, each once", |v| {
        let list = v.as_array()?.iter().map(|v| integer(v.get_ref()).map(u64::from));
        let list = list.collect::<Option<Vec<_>>>()?;
        let mut sorted = list.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (!list.is_empty() && sorted.len() == list.len()).then_some(list)
    })
}
