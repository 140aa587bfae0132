//! Options that `run` and `sweep` share: the scenario, and the number of runs at a time.

use std::path::PathBuf;

use clap::Args;
use settings::{Override, Report};

use crate::input::{self, Varied};
use crate::scenario::Scenario;
use crate::scheme::Scheme;

/// The scenario, and replacements for some of its values.
#[derive(Args, Clone, Debug)]
pub(super) struct Choice {
    /// The scenario (TOML)
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Seed of a run, in place of the scenario's; may be repeated
    #[arg(long, value_name = "N")]
    seed: Vec<u64>,
    /// Scheme to run, in place of the scenario's; may be repeated
    #[arg(long, value_name = "NAME", value_parser = super::scheme)]
    scheme: Vec<Scheme>,
    /// A key of the scenario and its value in place of the file's, e.g. loss=1e-3
    /// or site.pfc=false; may be repeated. Short names as those of `sweep`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = single)]
    set: Vec<Varied>,
    /// Runs at a time [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(super) jobs: usize,
}

impl Choice {
    /// The scenario with the command line's schemes and seeds.
    pub(super) fn load(&self, overrides: &[Override]) -> Result<Scenario, Report> {
        let set = self.set.iter().map(|set| Override {
            option: format!("--set {}={}", set.name, set.values[0]),
            ..set.overriding(0)
        });
        let all: Vec<_> = set.chain(overrides.iter().cloned()).collect();
        let mut scenario = input::load(&self.scenario, &all)?;
        replace(&mut scenario.schemes, &self.scheme);
        replace(&mut scenario.seeds, &self.seed);
        Ok(scenario)
    }
}

/// Reads `KEY=VALUE`.
fn single(text: &str) -> Result<Varied, String> {
    let varied = Varied::parse(text)?;
    match varied.values.len() {
        1 => Ok(varied),
        n => Err(format!("{text:?}: {n} values, one is expected")),
    }
}

/// Puts the values of the command line, each once, in place of `values`.
fn replace<T: Copy + PartialEq>(values: &mut Vec<T>, given: &[T]) {
    if given.is_empty() {
        return;
    }
    values.clear();
    for value in given {
        if !values.contains(value) {
            values.push(*value);
        }
    }
}
