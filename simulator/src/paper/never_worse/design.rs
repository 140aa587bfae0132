//! Which cells there are: for each traffic a base, each other value of each
//! factor by itself, and the combinations that matter.

use std::path::Path;

use crate::input::{self, Varied};
use crate::paper::Effort;
use crate::scenario::Scenario;

/// The traffic: a scenario file, and values set in it.
pub(super) struct Traffic {
    /// In tables.
    pub name: &'static str,
    /// Below `simulator/scenarios/never-worse`.
    pub file: &'static str,
    text: &'static str,
    /// As `--set` takes it.
    pub set: &'static [&'static str],
}

const INCAST: &str = include_str!("../../../scenarios/never-worse/incast.toml");
const WEBSEARCH: &str = include_str!("../../../scenarios/never-worse/websearch.toml");

const fn incast(name: &'static str, set: &'static [&'static str]) -> Traffic {
    Traffic { name, file: "incast.toml", text: INCAST, set }
}

const fn web(name: &'static str, set: &'static [&'static str]) -> Traffic {
    Traffic { name, file: "websearch.toml", text: WEBSEARCH, set }
}

pub(super) const TRAFFIC: [Traffic; 6] = [
    incast("incast 8 x 4 MB", &["bytes=4MB"]),
    incast("incast 8 x 8 MB", &[]),
    incast("incast 64 x 0.5 MB", &["flows=64", "bytes=500kB"]),
    web("WebSearch 0.3", &["load=0.3"]),
    web("WebSearch 0.5", &[]),
    web("WebSearch 0.8", &["load=0.8"]),
];

/// A value of a factor other than that of the base.
pub(super) struct Level {
    pub factor: &'static str,
    /// In the names of cells.
    pub name: &'static str,
    /// As `--set` takes it.
    pub set: &'static [&'static str],
}

const fn level(factor: &'static str, name: &'static str, set: &'static [&'static str]) -> Level {
    Level { factor, name, set }
}

/// The values of the factors in the scenario files.
pub(super) const BASE: [(&str, &str); 7] = [
    ("priority flow control", "off"),
    ("buffer of a switch", "4 MiB"),
    ("ECN marks", "from 400 kB"),
    ("loss", "1e-4"),
    ("long haul, hosts", "100 Gbit/s, 25 Gbit/s"),
    ("round trip", "10 ms"),
    ("DCQCN", "on"),
];

const PFC: Level = level(BASE[0].0, "PFC", &["site.pfc=true"]);
const DEEP: Level = level(BASE[1].0, "32 MiB", &["site.buffer=32MiB"]);
const MARKS_40K: Level =
    level(BASE[2].0, "marks from 40 kB", &["site.ecn={kmin=\"40kB\",kmax=\"160kB\"}"]);
const MARKS_1M: Level =
    level(BASE[2].0, "marks from 1 MB", &["site.ecn={kmin=\"1MB\",kmax=\"4MB\"}"]);
const NO_MARKS: Level = level(BASE[2].0, "no marks", &["site.ecn=false"]);
const LOSS_0: Level = level(BASE[3].0, "loss 0", &["loss=0"]);
const LOSS_1E3: Level = level(BASE[3].0, "loss 1e-3", &["loss=1e-3"]);
const SLOW: Level = level(BASE[4].0, "10G", &["rate=10Gbps", "site.host_rate=10Gbps"]);
const NEAR: Level = level(BASE[5].0, "0.8 ms", &["rtt=800us"]);
const NO_DCQCN: Level = level(BASE[6].0, "no DCQCN", &["nic.dcqcn=false"]);

/// All but those of the base.
pub(super) const LEVELS: [&Level; 10] =
    [&PFC, &DEEP, &MARKS_40K, &MARKS_1M, &NO_MARKS, &LOSS_0, &LOSS_1E3, &SLOW, &NEAR, &NO_DCQCN];

/// Combinations: congestion alone, congestion and loss together,
/// traffic without congestion control.
const COMBINED: [&[&Level]; 8] = [
    &[&LOSS_0, &PFC],
    &[&LOSS_0, &NO_MARKS],
    &[&LOSS_0, &NO_DCQCN],
    &[&LOSS_1E3, &PFC],
    &[&LOSS_1E3, &NEAR],
    &[&LOSS_1E3, &NEAR, &SLOW, &MARKS_1M],
    &[&NO_MARKS, &DEEP],
    &[&NO_DCQCN, &PFC],
];

/// A point of the matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The traffic.
    pub traffic: &'static str,
    /// The difference from the base, or "base".
    pub name: String,
    /// The scenario file with the options that make it this cell.
    pub command: String,
    /// The simulated scenario.
    pub scenario: Scenario,
}

/// All cells, with `effort.cell_seeds` seeds counted from `seed`.
///
/// # Errors
/// If one is no scenario: a mistake here.
pub fn cells(effort: &Effort, seed: u64) -> Result<Vec<Cell>, String> {
    let alone = LEVELS.chunks(1);
    let all: Vec<&[&Level]> = [&[][..]].into_iter().chain(alone).chain(COMBINED).collect();
    let pairs = TRAFFIC.iter().flat_map(|traffic| all.iter().map(move |levels| (traffic, levels)));
    pairs.map(|(traffic, levels)| build(traffic, levels, effort.cell_seeds, seed)).collect()
}

/// The cell of that traffic and name, with so many seeds counted from 1.
///
/// # Errors
/// If there is none.
pub fn cell(traffic: &str, name: &str, seeds: u64) -> Result<Cell, String> {
    let effort = Effort { cell_seeds: seeds, ..Effort::full() };
    let mut all = cells(&effort, 1)?.into_iter();
    all.find(|cell| cell.traffic == traffic && cell.name == name)
        .ok_or_else(|| format!("there is no cell {traffic:?}, {name:?}"))
}

fn build(traffic: &Traffic, levels: &[&Level], seeds: u64, seed: u64) -> Result<Cell, String> {
    let set = levels.iter().flat_map(|level| level.set).chain(traffic.set);
    let set = set.map(|set| Varied::parse(set)).collect::<Result<Vec<_>, _>>()?;
    let overrides: Vec<_> = set.iter().map(|varied| varied.overriding(0)).collect();
    let mut scenario = input::parse(Path::new(traffic.file), traffic.text, &overrides)
        .map_err(|report| report.to_string())?;
    let names: Vec<_> = levels.iter().map(|level| level.name).collect();
    let name = if names.is_empty() { "base".to_owned() } else { names.join(", ") };
    scenario.name = format!("{}, {name}", traffic.name);
    scenario.seeds = (seed..seed + seeds).collect();
    let set = set.iter().map(|set| format!(" --set '{}={}'", set.name, set.values[0]));
    let command = format!("{}{}", traffic.file, set.collect::<String>());
    Ok(Cell { traffic: traffic.name, name, command, scenario })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_factor_occurs_with_every_traffic() {
        let cells = cells(&Effort::full(), 1).expect("all are scenarios");
        assert_eq!(cells.len(), TRAFFIC.len() * (1 + LEVELS.len() + COMBINED.len()));
        for traffic in &TRAFFIC {
            let of: Vec<_> = cells.iter().filter(|cell| cell.traffic == traffic.name).collect();
            let values = |value: fn(&Scenario) -> String| {
                let mut values: Vec<_> = of.iter().map(|cell| value(&cell.scenario)).collect();
                values.sort();
                values.dedup();
                values.join(" ")
            };
            assert_eq!(values(|s| s.site.pfc.is_some().to_string()), "false true");
            assert_eq!(values(|s| s.nic.dcqcn.is_some().to_string()), "false true");
            assert_eq!(values(|s| (s.site.buffer >> 20).to_string()), "32 4");
            assert_eq!(values(|s| (s.long_haul.rate / 1_000_000_000).to_string()), "10 100");
            assert_eq!(values(|s| s.long_haul.rtt().as_micros().to_string()), "10000 800");
            assert_eq!(values(|s| format!("{:e}", s.long_haul.loss.mean())), "0e0 1e-3 1e-4");
            let marks = |s: &Scenario| s.site.ecn.map_or("none".into(), |ecn| ecn.kmin.to_string());
            assert_eq!(values(marks), "1000000 40000 400000 none");
        }
    }

    #[test]
    fn names_are_those_of_one_cell() {
        let mut names: Vec<_> = cells(&Effort::quick(), 1)
            .expect("all are scenarios")
            .into_iter()
            .map(|cell| cell.scenario.name)
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(cell("WebSearch 0.5", "loss 0, PFC", 3).is_ok());
        assert!(cell("WebSearch 0.5", "loss 2", 3).is_err());
    }

    /// The page describes the base as its files do.
    #[test]
    fn the_base_is_that_of_the_files() {
        for traffic in &TRAFFIC {
            let s = build(traffic, &[], 1, 1).expect("a scenario").scenario;
            assert_eq!((s.site.pfc, s.site.buffer), (None, 4 << 20));
            assert_eq!(s.site.ecn.map(|ecn| (ecn.kmin, ecn.kmax)), Some((400_000, 1_600_000)));
            assert_eq!((s.long_haul.rate, s.site.host_rate), (100_000_000_000, 25_000_000_000));
            assert_eq!((s.long_haul.loss.mean(), s.long_haul.rtt().as_micros()), (1e-4, 10_000));
            assert!(s.nic.dcqcn.is_some() && s.nic.retries == Some(7) && s.nic.content);
        }
    }
}
