//! The goodput of one long flow, simulated, against the closed forms.

use std::fmt::Write;
use std::path::Path;

use rayon::prelude::*;
use simulator::paper::forms::{self, Cell, Outcome, TOLERANCE};
use simulator::scheme::Scheme;

use crate::support::is_long;

/// Packets sent per cell.
const BUDGET: u64 = 600_000;
/// Cells of which that budget does not show this many round trips are left out:
/// go-back-N where it delivers next to nothing.
const ROUND_TRIPS: f64 = 40.0;
/// If set, the results become the snapshot.
const RENEW: &str = "LR2_RENEW_SNAPSHOTS";

/// Every `every`th cell.
fn simulate(every: usize) -> Vec<Outcome> {
    let cells = forms::cells().filter(|cell| cell.round_trips(BUDGET) >= ROUND_TRIPS);
    let cells: Vec<_> = cells.step_by(every).collect();
    cells.par_iter().map(|cell| cell.simulate(BUDGET)).collect()
}

fn rows(outcomes: &[Outcome]) -> String {
    let mut text =
        String::from("scheme      W     p     packets  simulated form   ratio timeouts\n");
    for found in outcomes {
        let Cell { scheme, window, loss } = found.cell;
        writeln!(
            text,
            "{:10} {window:4} {loss:5e} {:8} {:.4}    {:.4} {:.3} {:4}",
            scheme.name(),
            found.packets,
            found.simulated,
            found.form,
            found.ratio(),
            found.timeouts
        )
        .expect("memory");
    }
    text
}

/// Runs are the same on every machine, and the forms need little of the mathematics library. Without
/// `LR2_LONG=1` every ninth cell is run.
#[test]
fn a_long_flow_gets_what_the_forms_say() {
    let renews = std::env::var_os(RENEW).is_some();
    let every = if renews || is_long() { 1 } else { 9 };
    let outcomes = simulate(every);
    let found = rows(&outcomes);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/closed_forms.txt");
    if renews {
        std::fs::write(&path, &found).expect("the snapshot can be written");
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    let header = snapshot.lines().take(1);
    let expected: Vec<_> = header.chain(snapshot.lines().skip(1).step_by(every)).collect();
    for (found, expected) in found.lines().zip(&expected) {
        assert_eq!(found, *expected, "{RENEW}=1 cargo test -p simulator renews {}", path.display());
    }
    assert_eq!(found.lines().count(), expected.len(), "{RENEW}=1 renews it");
    let off: Vec<_> = outcomes.iter().filter(|o| (o.ratio() - 1.0).abs() > TOLERANCE).collect();
    assert!(off.is_empty(), "further than {TOLERANCE} from its form: {off:#?}");
}

/// The seed formula for finite flows: 1 + N·p / ((1+δ)(1+pW)), δ = N/W. It is
/// that of messages that are not shorter than a round trip. Without `LR2_LONG=1` two of four windows and losses are run.
#[test]
fn finite_flows_slow_down_as_the_paper_says() {
    let cells = [(50, 1e-2), (1_000, 1e-3), (200, 1e-3), (200, 1e-2)];
    for (window, loss) in &cells[..if is_long() { 4 } else { 2 }] {
        let (window, loss) = (*window, *loss);
        let cell = Cell { scheme: Scheme::LR2, window, loss };
        let w = f64::from(window);
        for round_trips in [1, 2, 5, 20] {
            let packets = round_trips * u64::from(window);
            let (n, delta) = (packets as f64, round_trips as f64);
            let by_hand = 1.0 + n * loss / ((1.0 + delta) * (1.0 + loss * w));
            let messages = (200_000 / packets).min(400) as u32;
            let (formula, simulated) = forms::slowdown(cell, packets, messages);
            println!("W {window} p {loss} N {packets}: {simulated:.3}, formula {formula:.3}");
            assert!((formula / by_hand - 1.0).abs() < 1e-12);
            let off = simulated / formula - 1.0;
            assert!(off.abs() <= TOLERANCE, "{cell:?}, {packets} packets: {simulated}, {formula}");
        }
        // Of a flow without end it is 1/η.
        let long = cell.path().paper_slowdown(1e9);
        let eta = (1.0 + loss * w) / (1.0 + 2.0 * loss * w);
        assert!((long * eta - 1.0).abs() < 1e-3, "{long}, {eta}");
    }
}
