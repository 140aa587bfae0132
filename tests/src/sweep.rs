//! Many seeds of a sort of scenario, in one mode and without gateways.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use switch::Recovery;

use crate::compare::Comparison;
use crate::world::Outcome;

/// The runs without gateways, which all modes of a test program are compared
/// with, by seed.
#[derive(Debug, Default)]
pub struct Plain(Mutex<BTreeMap<u64, Arc<OnceLock<Outcome>>>>);

impl Plain {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn get(&self, seed: u64, run: impl FnOnce() -> Outcome) -> Arc<OnceLock<Outcome>> {
        let cell = self
            .0
            .lock()
            .expect("nothing panics while it is locked")
            .entry(seed)
            .or_default()
            .clone();
        cell.get_or_init(run);
        cell
    }
}

/// Results of a sweep.
#[derive(Debug, Default)]
pub struct Findings {
    /// Seed by seed, of the runs in which no rule was violated.
    pub comparison: Comparison,
    /// Runs with gateways in which a rule was violated: the seed, and which.
    pub violations: Vec<(u64, String)>,
}

impl Findings {
    /// Prints a report, and returns the comparison.
    ///
    /// # Panics
    /// If a rule was violated.
    pub fn legal(self) -> Comparison {
        println!("{}", self.comparison.report());
        assert!(self.violations.is_empty(), "rules were violated: {:#?}", self.violations);
        self.comparison
    }
}

/// A number in the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Number of seeds of a test: `SEEDS` in the environment, else `long` if `LR2_LONG=1` is in the environment
/// (`scripts/test --long`), else `short`.
pub fn seeds(short: u64, long: u64) -> u64 {
    number("SEEDS").unwrap_or(if number("LR2_LONG") == Some(1) { long } else { short })
}

/// Runs the seeds from `FIRST` on (default: 0), `SEEDS` many (default: `seeds`), or only `SEED`, as the environment
/// has them, on all cores. [`seeds()`] gives a default of its own to `scripts/test --long`.
///
/// # Panics
/// If a rule is violated without gateways: the rule is wrong, or the network.
pub fn sweep(
    seeds: u64,
    plain: &Plain,
    recovery: Recovery,
    run: impl Fn(u64, Option<Recovery>) -> Outcome + Sync,
) -> Findings {
    let (first, seeds) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (number("FIRST").unwrap_or(0), number("SEEDS").unwrap_or(seeds)),
    };
    let next = AtomicU64::new(first);
    let findings = Mutex::new(Findings::default());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + seeds {
            return;
        }
        let plain = plain.get(seed, || run(seed, None));
        let with = catch_unwind(AssertUnwindSafe(|| run(seed, Some(recovery))));
        let mut findings = findings.lock().expect("nothing panics while it is locked");
        match (plain.get(), with) {
            (Some(plain), Ok(with)) => findings.comparison.add(seed, plain, &with),
            (_, Err(panic)) => findings.violations.push((seed, message(&*panic))),
            (None, Ok(_)) => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    findings.into_inner().expect("nothing panics while it is locked")
}

/// The first line of a panic's message.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => *text,
        (None, None) => "a panic",
    };
    text.lines().next().unwrap_or_default().chars().take(100).collect()
}
