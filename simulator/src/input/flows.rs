//! `[[traffic]]`: the load of the hosts.

use std::path::Path;

use common::time::Span;
use settings::{Document, Section};

use crate::scenario::{LongHaul, Scope, SizeDistribution, Topology, Traffic};
use crate::traffic::{FlowSpec, MAX_BYTES, sizes, trace};

/// Most messages of one kind in a run.
const MOST_FLOWS: u32 = 10_000_000;
/// Longest gap or spread.
const LONGEST: Span = Span::from_millis(600_000);

/// Reads the rest of a table.
type Reader = fn(&Context<'_>, &mut Section<'_>) -> Traffic;

/// The kinds of traffic.
const KINDS: &[(&str, Reader)] = &[
    ("long", |context, s| Traffic::Long { bytes: bytes(s, context.long), flows: flows(s, 1) }),
    ("poisson", |context, s| Traffic::Poisson {
        sizes: context.distribution(s),
        load: s.share("load", 1e-4, 1.0).unwrap_or(0.5),
        flows: flows(s, 1000),
        scope: s.choice("scope", SCOPES).unwrap_or(Scope::Forward),
    }),
    ("rounds", |context, s| Traffic::Rounds {
        flows: flows(s, context.hosts),
        bytes: bytes(s, 16 << 20),
        rounds: s.int("rounds", 1, 1_000_000, "rounds").unwrap_or(10),
        gap: s.duration("gap", Span::ZERO, LONGEST).unwrap_or_default(),
    }),
    ("incast", |context, s| Traffic::Incast {
        flows: flows(s, context.hosts),
        bytes: bytes(s, 8_000_000),
        spread: s.duration("spread", Span::ZERO, LONGEST).unwrap_or_default(),
    }),
    ("trace", |context, s| Traffic::Trace(context.trace(s))),
];

/// How many messages.
fn flows(s: &mut Section<'_>, default: u32) -> u32 {
    s.int("flows", 1, MOST_FLOWS, "messages").unwrap_or(default)
}

/// Bytes of each.
fn bytes(s: &mut Section<'_>, default: u64) -> u64 {
    s.size("bytes", 1, MAX_BYTES).unwrap_or(default)
}

/// The words for [`Scope`].
const SCOPES: &[(&str, Scope)] =
    &[("forward", Scope::Forward), ("between", Scope::Between), ("within", Scope::Within)];

/// Reads all tables; without any, one long message is sent.
pub(super) fn read(
    doc: &Document<'_>,
    tables: Vec<Section<'_>>,
    file: &Path,
    long_haul: &LongHaul,
    topology: Topology,
) -> Vec<Traffic> {
    // Long enough that its beginning and its end don't count for much.
    let long = long_haul.bdp().saturating_mul(10).clamp(16_000_000, MAX_BYTES);
    if tables.is_empty() {
        return vec![Traffic::Long { bytes: long, flows: 1 }];
    }
    let hosts = topology.hosts_per_site();
    let context = Context { doc, file, long, hosts };
    tables.into_iter().map(|table| context.one(table)).collect()
}

/// The values that defaults depend on.
struct Context<'c> {
    doc: &'c Document<'c>,
    file: &'c Path,
    /// Bytes of a long message.
    long: u64,
    /// Per site.
    hosts: u32,
}

impl Context<'_> {
    fn one(&self, mut s: Section<'_>) -> Traffic {
        let words: Vec<_> = KINDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        s.require("kind", &words.join(", "));
        // The kind decides which keys are allowed.
        let Some(read) = s.choice("kind", KINDS) else { return Traffic::Trace(Vec::new()) };
        let traffic = read(self, &mut s);
        s.finish();
        traffic
    }

    /// One of the program's own, or a file beside the scenario.
    fn distribution(&self, s: &mut Section<'_>) -> SizeDistribution {
        const KEY: &str = "sizes";
        const ALLOWED: &str = "\"websearch\", \"hadoop\", \"alistorage\", or a file: a line per \
                               point, bytes and cumulative percent";
        let none = || SizeDistribution { name: String::new(), points: vec![(1.0, 1.0)] };
        s.require(KEY, ALLOWED);
        let Some(word) = s.string(KEY) else { return none() };
        if let Some(sizes) = sizes::named(&word) {
            return sizes;
        }
        let path = s.path(KEY);
        let Some(text) = self.text(&path, &word, ALLOWED) else { return none() };
        let name = Path::new(&word).file_stem().unwrap_or_default().to_string_lossy();
        sizes::parse(&name, &text).unwrap_or_else(|errors| {
            self.in_file(&path, &word, errors.lines(), ALLOWED);
            none()
        })
    }

    fn trace(&self, s: &mut Section<'_>) -> Vec<FlowSpec> {
        const KEY: &str = "file";
        const ALLOWED: &str = "a file: a line per message, start in microseconds, numbers of the \
                               source and destination host, bytes";
        s.require(KEY, ALLOWED);
        let Some(word) = s.string(KEY) else { return Vec::new() };
        let path = s.path(KEY);
        let Some(text) = self.text(&path, &word, ALLOWED) else { return Vec::new() };
        match trace::parse_for(&text, 2 * self.hosts) {
            Ok(flows) if flows.is_empty() => {
                self.in_file(&path, &word, ["no messages"].into_iter(), ALLOWED);
                flows
            }
            Ok(flows) => flows,
            Err(errors) => {
                let errors: Vec<_> =
                    errors.iter().map(|(line, error)| format!("line {line}: {error}")).collect();
                self.in_file(&path, &word, errors.iter().map(String::as_str), ALLOWED);
                Vec::new()
            }
        }
    }

    /// A problem in a file that `key` names. After the first few the rest
    /// is likely of the same kind.
    fn in_file<'e>(
        &self,
        key: &str,
        name: &str,
        mut errors: impl Iterator<Item = &'e str>,
        allowed: &str,
    ) {
        for error in errors.by_ref().take(10) {
            self.doc.problem(key, format!("\"{name}\", {error}"), allowed);
        }
        let more = errors.count();
        if more > 0 {
            self.doc.problem(key, format!("\"{name}\", {more} more such lines"), allowed);
        }
    }

    /// The text of a file that stands in the folder of the scenario.
    fn text(&self, key: &str, name: &str, allowed: &str) -> Option<String> {
        let file = self.file.parent().unwrap_or(Path::new("")).join(name);
        std::fs::read_to_string(file)
            .map_err(|error| {
                self.doc.problem(key, format!("\"{name}\", which can't be read: {error}"), allowed);
            })
            .ok()
    }
}
