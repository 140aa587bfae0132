//! What `run` and `sweep` are told alike: what to simulate, and how much at a time.

use std::path::PathBuf;

use clap::Args;
use settings::{Override, Report};

use crate::scenario::{self, Scenario};
use crate::scheme::Scheme;

/// Which scenario, and what stands in place of some of it.
#[derive(Args, Clone, Debug)]
pub(super) struct Choice {
    /// The scenario (TOML)
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Seed of a run, whatever the scenario says; may be repeated
    #[arg(long, value_name = "N")]
    seed: Vec<u64>,
    /// Scheme to run, whatever the scenario says; may be repeated
    #[arg(long, value_name = "NAME", value_parser = super::scheme)]
    scheme: Vec<Scheme>,
    /// Runs at a time [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(super) jobs: usize,
}

impl Choice {
    /// The scenario with the command line's schemes and seeds.
    pub(super) fn load(&self, overrides: &[Override]) -> Result<Scenario, Report> {
        let mut scenario = scenario::load(&self.scenario, overrides)?;
        replace(&mut scenario.schemes, &self.scheme);
        replace(&mut scenario.seeds, &self.seed);
        Ok(scenario)
    }
}

/// Puts what the command line says, each once, in place of `values`.
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
