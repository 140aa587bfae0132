//! The results of `plan` without simulating, against simulation.

use common::time::{Span, Time};
use rayon::prelude::*;
use simulator::paper::forms::{self, Cell};
use simulator::path::packet_wire_bytes;
use simulator::plan::forms::Path;
use simulator::run::run_flows;
use simulator::scenario::{NicModel, Scenario};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

/// Agreement asked for.
const TOLERANCE: f64 = 0.05;

/// Of 100,000 packets of one flow with go-back-N, an ACK for each `m`-th: the share
/// of the time that it would take without loss.
fn gbn(cell: Cell, m: u32, seed: u64) -> f64 {
    let base = cell.scenario();
    let pmtu = u64::from(base.nic.pmtu);
    let scenario = Scenario { nic: NicModel { ack_req_every: m, ..base.nic }, ..base };
    let packets = 100_000;
    let flow =
        FlowSpec { start: Time::ZERO, src: 0, dst: 1, bytes: packets * pmtu, round: 0, traffic: 0 };
    let result = run_flows(&scenario, cell.scheme, seed, &[flow]).expect("it can be set up");
    let took = result.flows[0].fct().expect("it ends");
    let bits = packets * packet_wire_bytes(pmtu) * 8;
    bits as f64 / scenario.long_haul.rate as f64 / (took - Span::from_millis(10)).as_secs_f64()
}

#[test]
fn coalesced_acks_cost_go_back_n_timeouts() {
    let cells = [(200, 1e-3), (200, 1e-2), (1_000, 1e-3), (50, 1e-2)];
    cells.par_iter().for_each(|&(window, loss)| {
        let cell = Cell { scheme: Scheme::GBN, window, loss };
        for m in [1, 16] {
            let seeds = [1, 2, 3];
            let mean = seeds.iter().map(|seed| gbn(cell, m, *seed)).sum::<f64>() / 3.0;
            let form = cell.path().gbn(m.into());
            println!("gbn W {window} p {loss} m {m}: {mean:.4}, form {form:.4}");
            assert!((mean / form - 1.0).abs() <= TOLERANCE, "{cell:?}, {m}: {mean}, {form}");
        }
    });
}

/// Mean completion time of messages of so many packets by that without loss, as it
/// is simulated and by `form`.
fn agree(scheme: Scheme, lengths: fn(u32) -> [u32; 3], form: fn(&Cell, &Path, f64) -> f64) {
    let cells = [(200, 1e-3), (200, 1e-2), (1_000, 1e-3), (1_000, 1e-2)];
    cells.par_iter().for_each(|&(window, loss)| {
        let cell = Cell { scheme, window, loss };
        let path = cell.path();
        for packets in lengths(window) {
            let n = f64::from(packets);
            let form = form(&cell, &path, n) / path.fct_lossless(n);
            let messages = (150_000 / packets).clamp(200, 500);
            let (_, simulated) = forms::slowdown(cell, packets.into(), messages);
            println!(
                "{} W {window} p {loss} N {packets}: {simulated:.3}, {form:.3}",
                scheme.name()
            );
            let off = simulated / form - 1.0;
            assert!(off.abs() <= TOLERANCE, "{cell:?}, {packets}: {simulated}, {form}");
        }
    });
}

/// Shorter than a round trip, down to some packets.
#[test]
fn short_messages_take_lr2_as_long_as_the_form_says() {
    agree(Scheme::LR2, |w| [w / 20, w / 5, w / 2], |_, path, n| path.fct_lr2(n));
}

/// In-order delivery costs a round trip, and no more than one.
#[test]
fn messages_from_a_cache_are_a_round_trip_late_if_anything_is_lost() {
    agree(Scheme::CACHED, |w| [w / 5, w, 4 * w], |_, path, n| path.fct_cached(n));
}

/// As from a cache; headers and messages take their part of the link.
#[test]
fn messages_through_the_tunnel_are_a_round_trip_late_if_anything_is_lost() {
    agree(Scheme::TUNNEL, |w| [w / 5, w, 4 * w], |cell, path, n| path.fct_tunnel(n, &cell.nic()));
}
