//! Many runs at once.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use super::Failure;
use crate::results::RunResult;
use crate::scenario::Scenario;
use crate::scheme::Scheme;
use crate::schemes;

/// Simulates: the same result for the same scenario, scheme and seed.
pub trait Runner: Sync {
    /// One run.
    ///
    /// # Errors
    /// Why it could not be done.
    fn run(&self, scenario: &Scenario, scheme: Scheme, seed: u64) -> Result<RunResult, String>;
}

impl<F> Runner for F
where
    F: Fn(&Scenario, Scheme, u64) -> Result<RunResult, String> + Sync,
{
    fn run(&self, scenario: &Scenario, scheme: Scheme, seed: u64) -> Result<RunResult, String> {
        self(scenario, scheme, seed)
    }
}

/// Runs each of `scenarios` with each of its schemes and seeds, `jobs` at a
/// time (0: one per CPU). The results of a scenario are in the order of its
/// schemes and seeds, however long each takes.
///
/// # Errors
/// Every scheme that is not for its scenario; every run that could not be done.
pub(super) fn all(
    scenarios: &[Scenario],
    jobs: usize,
    runner: &impl Runner,
) -> Result<Vec<Vec<RunResult>>, Failure> {
    let tasks: Vec<(usize, Scheme, u64)> = scenarios
        .iter()
        .enumerate()
        .flat_map(|(n, scenario)| {
            let of_scheme = |&scheme| scenario.seeds.iter().map(move |&seed| (n, scheme, seed));
            scenario.schemes.iter().flat_map(of_scheme).collect::<Vec<_>>()
        })
        .collect();
    let unfit: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| scenario.schemes.iter().map(move |scheme| (scenario, *scheme)))
        .filter_map(|(scenario, scheme)| {
            let error = schemes::model(scheme).fits(scenario).err()?;
            Some(format!("{}: {error}", scenario.name))
        })
        .collect();
    if !unfit.is_empty() {
        return Err(Failure::usage(unfit.join("\n")));
    }
    let begin = Instant::now();
    let results = each(&tasks, jobs, "runs", |&(n, scheme, seed)| {
        runner.run(&scenarios[n], scheme, seed).map_err(|error| {
            format!("{}, {}, seed {seed}: {error}", scenarios[n].name, scheme.name())
        })
    })?;

    let mut of_scenario: Vec<Vec<RunResult>> = scenarios.iter().map(|_| Vec::new()).collect();
    let mut errors = Vec::new();
    for (result, (n, ..)) in results.into_iter().zip(tasks) {
        match result {
            Ok(result) => of_scenario[n].push(result),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(Failure::of_run(errors.join("\n")));
    }
    if std::io::stderr().is_terminal() {
        let events: u64 = of_scenario.iter().flatten().map(|run| run.packet_events).sum();
        let took = begin.elapsed().as_secs_f64();
        manual::out::complain(format_args!(
            "{:.1} million packet events in {took:.1} s",
            events as f64 / 1e6
        ));
    }
    Ok(of_scenario)
}

/// Runs each of `tasks`, `jobs` at a time (0: one per CPU), and shows the progress of
/// `what`; the results are in the order of the tasks.
///
/// # Errors
/// If there can be no threads.
pub(super) fn each<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    what: &'static str,
    one: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| Failure::of_run(format!("can't start threads: {error}")))?;
    let bar = bar(tasks.len(), what);
    let done = pool.install(|| {
        let one = |task: &T| {
            let done = one(task);
            bar.inc(1);
            done
        };
        // They differ in length by orders of magnitude: hand out one at a time.
        tasks.par_iter().with_max_len(1).map(one).collect()
    });
    bar.finish_and_clear();
    Ok(done)
}

/// On standard error; hidden if that is no terminal.
fn bar(tasks: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(tasks as u64).with_message(what);
    // The template is a constant that the tests show to be good.
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    bar
}

const TEMPLATE: &str = "{pos}/{len} {msg} {wide_bar} {elapsed}, about {eta} to go";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_a_template() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
