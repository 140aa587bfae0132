//! Several pairs of ports in one file: `[[pair]]`.
//!
//! A file with `[[pair]]` is read once for each: its sections stand over those that hold for all, so that each pair has a
//! [`Config`] as if it were alone, with positions in the one file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use common::control::NodeId;
use settings::sizing::pool_memory;
use settings::{Document, Problem, Section};

use super::{Config, Machine, Pool, Refusal, Report, Role, check, fit, read::read_pair, values};

/// Most pairs of a file: so many values the label `pair` has at most.
pub const PAIRS: usize = 8;

/// The keys of a `[[pair]]`.
pub(super) const OWN: &[&str] =
    &["name", "cores", "lan", "wan", "worker", "link_loss", "recovery", "congestion", "pool"];

/// The longest name: with the number of a worker it is the name of a thread.
const NAME_MAX: usize = 12;

/// Which of several pairs of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Its place in the file, from 0.
    pub n: u8,
    /// How many there are.
    pub of: u8,
    /// Its name.
    pub name: String,
    /// It stands as `[[pair]]`, and not as `[lan]` and `[wan]`.
    pub is_table: bool,
}

impl Default for Pair {
    fn default() -> Self {
        Self { n: 0, of: 1, name: "1".into(), is_table: false }
    }
}

impl Pair {
    /// Its name where there are several.
    pub fn label(&self) -> Option<&str> {
        (self.of > 1).then_some(&self.name)
    }

    /// Its section of the file, with the dot behind it; empty where it has none.
    pub fn prefix(&self) -> String {
        if self.is_table { format!("pair[{}].", self.n + 1) } else { String::new() }
    }

    /// Whether all others have been read before it.
    pub const fn is_last(&self) -> bool {
        self.n + 1 == self.of
    }

    /// The number of this pair towards its peers, which must not take two pairs for one box. The factor is odd, and
    /// far from that of the workers.
    pub const fn node(&self, first: NodeId) -> NodeId {
        NodeId(first.0.wrapping_add((self.n as u32).wrapping_mul(0x85eb_ca6b)))
    }
}

/// The memory and workers of the pairs that stand before one in the file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beside {
    pools: Vec<Pool>,
    process: u64,
    workers: u32,
}

impl Beside {
    /// Adds up the memory and workers of the pairs `before`.
    pub(super) fn of(before: &[Config]) -> Self {
        Self {
            pools: before.iter().map(|config| config.pool).collect(),
            process: before.iter().map(Config::own_process_memory).sum(),
            workers: before.iter().map(|config| u32::from(config.worker.count)).sum(),
        }
    }
}

impl Config {
    /// Memory of the pools of this pair and those before it, in pages of `page` bytes.
    pub(super) fn pools_memory(&self, page: u64) -> u64 {
        let each = self.pools().into_iter().map(|(mbufs, room)| pool_memory(mbufs, room, page));
        each.fold(0, u64::saturating_add)
    }

    /// Mbufs and room of the pools of this pair and those before it, in the order in which they are made.
    pub(super) fn pools(&self) -> Vec<(u64, u16)> {
        let all = self.beside.pools.iter().chain([&self.pool]);
        all.map(|pool| (pool.mbufs.into(), pool.data_room)).collect()
    }

    /// Memory of this pair and those before it besides DPDK's, bytes.
    pub(super) fn process_memory(&self) -> u64 {
        self.own_process_memory().saturating_add(self.beside.process)
    }

    /// Workers of this pair and those before it.
    pub(super) fn workers_so_far(&self) -> u32 {
        u32::from(self.worker.count) + self.beside.workers
    }

    /// The key that has the cores.
    pub(crate) fn cores_key(&self) -> String {
        if self.pair.is_table { self.pair.prefix() + "cores" } else { "eal.cores".into() }
    }
}

/// The effective configuration: that of each pair of ports, in the order of the file. There is at least one.
#[derive(Clone, Debug)]
pub struct Pairs(Vec<Config>);

impl Pairs {
    /// The first: keys that hold for the whole process are the same in all.
    pub fn first(&self) -> &Config {
        &self.0[0]
    }

    /// The last: it knows what those before it take.
    pub fn last(&self) -> &Config {
        &self.0[self.0.len() - 1]
    }

    /// All.
    pub fn iter(&self) -> std::slice::Iter<'_, Config> {
        self.0.iter()
    }

    /// Settings that work but are probably mistakes; one line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for config in &self.0 {
            for line in &config.warnings {
                let is_common = self.iter().all(|other| other.warnings.contains(line));
                let line = match config.pair.label().filter(|_| !is_common) {
                    Some(name) => format!("pair {name}: {line}"),
                    None => line.clone(),
                };
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first().pair.is_table {
            values::print_pairs(&self.0, f)
        } else {
            self.first().fmt(f)
        }
    }
}

/// Reads and checks a file.
pub(super) fn read(
    file: &Path,
    text: &str,
    role: Option<Role>,
    machine: Option<&Machine>,
) -> Result<Pairs, Refusal> {
    let mut count = 0;
    // The file is only counted here: the reading below finds its mistakes again.
    let _ = settings::parse(file, text, &[], |_, mut root| count = root.sections("pair").len());
    let mut all: Vec<Config> = Vec::new();
    let mut problems: Vec<Problem> = Vec::new();
    let mut is_sound = true;
    for n in 0..count.clamp(1, PAIRS) {
        let (mut own, mut config) = (BTreeSet::new(), None);
        let of = if count == 0 { None } else { Some((n, count)) };
        let read = |doc: &Document<'_>, root: Section<'_>| {
            let mut read = one(doc, root, (file, role), of, &all);
            is_sound &= doc.is_sound();
            if let Some(machine) = machine.filter(|_| is_sound) {
                fit::all(doc, &mut read, machine);
            }
            own = doc.own();
            config = Some(read);
        };
        let report = settings::parse(file, text, &[], read).err();
        all.extend(config);
        for mut problem in report.into_iter().flat_map(|report| report.problems) {
            let is_port = ["lan", "wan"].iter().any(|port| problem.key.starts_with(port));
            if count > 0 && (own.contains(&problem.key) || is_port && problem.key.contains('.')) {
                problem.key = format!("pair[{}].{}", n + 1, problem.key);
            }
            // A mistake in a section that all pairs share is found once for each pair, and reported once.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    let pairs = Pairs(all);
    if problems.is_empty() {
        return Ok(pairs);
    }
    problems.sort_by_key(|problem| problem.at.unwrap_or((usize::MAX, 0)));
    let report = Report { file: file.to_owned(), problems };
    Err(Refusal { report, unfit: is_sound.then_some(pairs) })
}

/// Reads one pair; `of` says which of how many `[[pair]]`, if there are any.
fn one(
    doc: &Document<'_>,
    mut root: Section<'_>,
    how: (&Path, Option<Role>),
    of: Option<(usize, usize)>,
    before: &[Config],
) -> Config {
    let Some((n, count)) = of else {
        return read_pair(doc, root, how, (Pair::default(), None), before);
    };
    if count > PAIRS {
        let at = root.at_key("pair");
        doc.problem_at(at, "pair", format!("{count} pairs"), format!("at most {PAIRS}"));
    }
    if let Some(key) = ["lan", "wan"].into_iter().find(|key| root.has(key)) {
        let allowed =
            "one form: [lan] and [wan] for a single pair of ports, or lan and wan in each [[pair]]";
        doc.problem_at(root.at_key(key), key, format!("[{key}] beside [[pair]]"), allowed);
    }
    let mut table = root.sections("pair").swap_remove(n);
    let name = table.read("name", NAMES, |value| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let name = value.as_str().filter(|name| (1..=NAME_MAX).contains(&name.len()));
        name.filter(|name| name.chars().all(is_allowed)).map(str::to_owned)
    });
    let cores = table.ints("cores", 1023).unwrap_or_default();
    let small = |n| u8::try_from(n).unwrap_or(u8::MAX);
    let name = name.unwrap_or_else(|| (n + 1).to_string());
    if before.iter().any(|other| other.pair.name == name) {
        let (key, at) = (table.path("name"), table.at_key("name").or(table.at()));
        doc.problem_at(
            at,
            &key,
            format!("\"{name}\", another pair's name too"),
            "a name of its own",
        );
    }
    let pair = Pair { n: small(n), of: small(count.min(PAIRS)), name, is_table: true };
    let config = read_pair(doc, table.over(&root, OWN), how, (pair, Some(cores)), before);
    check::apart(doc, &config, before);
    config
}

/// The names that a pair may have.
const NAMES: &str = "1 to 12 letters, digits, '-' and '_'";

/// The keys that are asked for, of the first `[[pair]]` of a file.
#[cfg(test)]
pub(super) fn asked(file: &Path, text: &str) -> Vec<(String, String)> {
    let read = |doc: &Document<'_>, root: Section<'_>| {
        one(doc, root, (file, None), Some((0, 1)), &[]);
        doc.asked()
    };
    settings::parse(file, text, &[], read).unwrap_or_default()
}
