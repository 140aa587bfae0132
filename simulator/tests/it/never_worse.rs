//! Never worse than go-back-N on congested LANs: a few cells of the matrix that
//! `lr2-sim paper --part never-worse` runs as a whole, with few seeds; and how
//! they are judged.

use std::path::Path;

use crate::support::{flow, is_long, result, run_of};
use clap::Parser;
use common::time::Span;
use rayon::prelude::*;
use simulator::cli::Cli;
use simulator::paper::never_worse::{Cell, Judged, LIMIT, OURS, cell};
use simulator::results::{HostUse, LongHaulUse, RunResult};
use simulator::run::run;
use simulator::scenario::{Scenario, Traffic};
use simulator::scheme::Scheme;

/// Seeds per cell.
const SEEDS: u64 = 4;

/// So few seeds leave a mean uncertain by some per cent, and any change of the
/// code throws other dice: a value above [`LIMIT`] by less than this decides
/// nothing.
const MARGIN: f64 = 0.05;

/// Cells that are run, a traffic and a name each.
const FAST: [(&str, &str); 8] = [
    ("incast 8 x 4 MB", "base"),
    ("incast 8 x 8 MB", "loss 0"),
    ("incast 64 x 0.5 MB", "PFC"),
    ("WebSearch 0.5", "base"),
    ("WebSearch 0.5", "loss 0"),
    ("WebSearch 0.5", "10G"),
    ("WebSearch 0.5", "loss 1e-3, 0.8 ms, 10G, marks from 1 MB"),
    ("WebSearch 0.8", "no DCQCN"),
];

/// Those of them in which a mode's mean is known to be longer than it may be.
/// One that no longer is must go from the list.
const KNOWN: [(&str, &str, Scheme); 0] = [];

fn judge(cell: Cell, schemes: &[Scheme]) -> Judged {
    let runs = schemes.iter().flat_map(|scheme| cell.scenario.seeds.iter().map(|s| (*scheme, *s)));
    let runs: Vec<_> = runs.collect();
    let one = |(scheme, seed): &_| run(&cell.scenario, *scheme, *seed).expect("it can be set up");
    let results: Vec<RunResult> = runs.par_iter().with_max_len(1).map(one).collect();
    Judged::of(cell, &results)
}

#[test]
fn no_mode_is_slower_than_go_back_n_on_congested_lans() {
    let schemes = [Scheme::GBN, Scheme::AUTO, Scheme::CACHED];
    // Without `LR2_LONG=1` every second cell is run.
    let every = if is_long() { 1 } else { 2 };
    let cells = FAST.iter().step_by(every);
    let cells: Vec<_> =
        cells.map(|(traffic, name)| cell(traffic, name, SEEDS).expect("a cell")).collect();
    let judged: Vec<_> = cells.into_par_iter().map(|cell| judge(cell, &schemes)).collect();
    let mut wrong = Vec::new();
    for judged in &judged {
        for scheme in &schemes[1..] {
            let mean = judged.verdict(*scheme).expect("it ran").ratio.mean;
            let cell = &judged.cell;
            println!("{}, {}: {mean:.3}", cell.scenario.name, scheme.name());
            let key = (cell.traffic, cell.name.as_str(), *scheme);
            match KNOWN.contains(&key) {
                false if mean > LIMIT + MARGIN => {
                    wrong.push(format!("{key:?} takes {mean:.3} times as long as go-back-N"));
                }
                true if mean <= LIMIT => {
                    wrong.push(format!("{key:?} takes {mean:.3}: remove it from KNOWN"));
                }
                _ => {}
            }
        }
    }
    for (traffic, name, _) in KNOWN {
        assert!(FAST.contains(&(traffic, name)), "{traffic}, {name} is not run");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A run whose messages take so many milliseconds; `None`: not complete.
fn made_up(scheme: Scheme, seed: u64, fcts: &[Option<u64>]) -> RunResult {
    let message = |fct: &Option<u64>| result(flow(0, 0, 8, 1), fct.map(|ms| 1_000 * ms), 1_000);
    RunResult {
        long_haul: LongHaulUse { queue_drops: 2, ..LongHaulUse::default() },
        hosts: HostUse { timeouts: 3, ..HostUse::default() },
        tunnel: Default::default(),
        counters: vec![
            ("lr2_depot_local_resent_total{cause=\"nak\"}".into(), 5),
            ("lr2_depot_local_resent_total{cause=\"timeout\"}".into(), 6),
        ],
        ..run_of(scheme, seed, 0, fcts.iter().map(message).collect())
    }
}

/// Two seeds of go-back-N, and of all others `ours` twice.
fn judged(plain: &[Option<u64>], ours: &[Option<u64>]) -> Judged {
    let of = |scheme, fcts| [1, 2].map(|seed| made_up(scheme, seed, fcts));
    let ours = OURS.iter().flat_map(|scheme| of(*scheme, ours));
    let results: Vec<_> = of(Scheme::GBN, plain).into_iter().chain(ours).collect();
    Judged::of(cell("WebSearch 0.5", "base", 2).expect("a cell"), &results)
}

#[test]
fn messages_complete_under_both_are_compared_and_the_others_counted() {
    let [a, b, c] = [10, 20, 60].map(Some);
    let judged = judged(&[a, b, None, a], &[b, b, c, None]);
    let verdict = judged.verdict(Scheme::AUTO).expect("it ran");
    // Of each seed the first two: 20 and 20 against 10 and 20.
    assert_eq!((verdict.ratio.mean, verdict.ratio.p99), (40.0 / 30.0, 1.0));
    assert_eq!((verdict.dead, judged.plain_dead), (2, 2));
    assert!((judged.plain.mean - 40.0 / 3.0).abs() < 1e-9, "all of its own: {:?}", judged.plain);
    assert_eq!((verdict.queue_drops, verdict.local_resends, verdict.timeouts), (4, 22, 6));
    assert_eq!(verdict.slow_seeds, 2);
    assert_eq!(verdict.error.mean, 0.0, "the seeds are alike");
}

/// The cost of a lost REQ counts; the round trip of making a connection doesn't.
#[test]
fn a_late_connection_counts() {
    let cell = cell("WebSearch 0.5", "base", 1).expect("a cell");
    let of = |scheme, late_ms| {
        let mut run = made_up(scheme, 1, &[Some(100)]);
        let late = Span::from_millis(late_ms);
        run.flows[0].posted += late;
        run.flows[0].completed = run.flows[0].completed.map(|at| at + late);
        run
    };
    let mut results = vec![of(Scheme::GBN, 10)];
    results.extend(OURS.map(|scheme| of(scheme, 60)));
    let judged = Judged::of(cell, &results);
    let verdict = judged.verdict(Scheme::AUTO).expect("it ran");
    assert_eq!(judged.plain.mean, 100.0, "within a round trip of 10 ms");
    assert!((1.49..1.5).contains(&verdict.ratio.mean), "{}", verdict.ratio.mean);
}

#[test]
fn a_cell_is_missed_by_its_mean_its_tail_or_a_death() {
    let is_met = |plain: &[Option<u64>], ours: &[Option<u64>]| {
        let judged = judged(plain, ours);
        judged.is_met(judged.verdict(Scheme::CACHED).expect("it ran"))
    };
    let [short, long] = [100, 200].map(Some);
    assert!(is_met(&[short, long], &[short, Some(208)]), "4 % is allowed");
    assert!(!is_met(&[short, long], &[Some(130), long]), "mean");
    // A mean as before, and a tail of 300 in place of 200.
    let [plain, ours] = [[short, short, long], [Some(50), Some(50), Some(300)]];
    assert!(!is_met(&plain, &ours), "tail");
    assert!(!is_met(&[short, long], &[short, None]), "death");
    assert!(is_met(&[short, None], &[None, long]), "one for one");
}

#[test]
fn the_error_is_that_of_a_jackknife() {
    let cell = cell("WebSearch 0.5", "base", 2).expect("a cell");
    let of = |scheme, ms: [u64; 2]| {
        [1, 2].map(|seed| made_up(scheme, seed, &[Some(ms[seed as usize - 1])]))
    };
    let ours = OURS.iter().flat_map(|scheme| of(*scheme, [10, 30]));
    let results: Vec<_> = of(Scheme::GBN, [10, 10]).into_iter().chain(ours).collect();
    let judged = Judged::of(cell, &results);
    let verdict = judged.verdict(Scheme::LR2).expect("it ran");
    // Without either seed 3 and 1, so sqrt(1/2 · (1 + 1)).
    assert_eq!((verdict.ratio.mean, verdict.error.mean, verdict.slow_seeds), (2.0, 1.0, 1));
}

/// The page of the whole matrix, of a few small messages.
#[test]
fn the_page_has_every_cell() {
    let few = |scenario: &Scenario, scheme: Scheme, seed: u64| {
        let mut scenario = scenario.clone();
        for traffic in &mut scenario.traffic {
            match traffic {
                Traffic::Poisson { flows, .. } => *flows = 1,
                Traffic::Incast { flows, bytes, .. } => (*flows, *bytes) = (2, 10_000),
                _ => {}
            }
        }
        run(&scenario, scheme, seed)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    let line = ["lr2-sim", "paper", "--quick", "--part", "never-worse", "--out", out];
    let said = Cli::try_parse_from(line).expect("a line").execute(&few).expect("it runs");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("written");
    let (page, csv) = (read("never-worse.md"), read("evaluation/never-worse.csv"));
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(!Path::new(out).join("evaluation.md").exists(), "that is another part");
    assert!(page.contains("-- paper --out docs --quick --part never-worse`"), "{page}");
    let cells: Vec<_> = page.lines().filter(|line| line.starts_with("| loss 0, PFC |")).collect();
    assert_eq!(cells.len(), 6, "one of each traffic");
    assert!(page.contains("`auto`: ") && page.contains(" of 114 cells met"), "{page}");
    assert_eq!(csv.lines().count(), 1 + 114 * OURS.len());
    let command = "lr2-sim run websearch.toml --set 'site.pfc=true'";
    assert!(csv.lines().any(|line| line.contains(command)), "{csv}");
    for wrong in ["NaN", "inf ", "{:"] {
        assert!(!page.contains(wrong), "{wrong} in {page}");
    }
}
