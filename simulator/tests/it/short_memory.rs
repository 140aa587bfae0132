//! Gateways with less memory than their link has bytes in flight.

use std::path::Path;

use rayon::prelude::*;
use simulator::input::parse;
use simulator::results::FlowResult;
use simulator::run::run;
use simulator::scenario::Scenario;
use simulator::scheme::Scheme;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
/// Memory of a gateway, in bandwidth-delay products.
const PRODUCTS: [f64; 3] = [0.25, 0.5, 1.0];
/// A mean completion time against that of go-back-N.
const LIMIT: f64 = 1.05;

/// WebSearch over 10 Gbit/s and 400 us one way, 0.3 % of the packets lost.
fn scenario(products: f64) -> Scenario {
    let text = format!(
        "limit = \"5s\"\n\
         [topology]\nkind = \"dumbbell\"\nhosts = 4\n\
         [long_haul]\nrate = \"10Gbps\"\ndelay = \"400us\"\nloss = 3e-3\n\
         [site]\nfabric_rate = \"40Gbps\"\necn = {{ kmin = \"250000B\", kmax = \"1000000B\" }}\n\
         [nic]\npmtu = 1024\ncontent = false\ndcqcn = {{ cnp_interval = \"50us\" }}\n\
         [gateway]\nbudget = {products:?}\n\
         [[traffic]]\nkind = \"poisson\"\nsizes = \"websearch\"\nload = 0.6\nflows = 16\n"
    );
    parse(Path::new("short-memory.toml"), &text, &[]).expect("a scenario")
}

/// Mean completion time over the seeds, in milliseconds.
fn mean(scenario: &Scenario, scheme: Scheme) -> f64 {
    let runs = SEEDS.map(|seed| run(scenario, scheme, seed).expect("it can be set up"));
    let flows: Vec<_> = runs.flat_map(|run| run.flows).collect();
    let took =
        |flow: &FlowResult| flow.completed.expect("it ends").since(flow.posted).as_secs_f64() * 1e3;
    flows.iter().map(took).sum::<f64>() / flows.len() as f64
}

#[test]
fn a_gateway_short_of_memory_is_no_worse_than_none() {
    let gbn = mean(&scenario(1.0), Scheme::GBN);
    let cases = PRODUCTS.map(|products| {
        [Scheme::LR2, Scheme::CACHED, Scheme::AUTO].map(|scheme| (products, scheme))
    });
    let ratio = |(products, scheme): &(f64, Scheme)| mean(&scenario(*products), *scheme) / gbn;
    let ratios: Vec<f64> = cases.as_flattened().par_iter().map(ratio).collect();
    for ((products, scheme), ratio) in cases.as_flattened().iter().zip(&ratios) {
        println!("{products} products, {}: {ratio:.2} times go-back-N", scheme.name());
    }
    assert!(ratios.iter().all(|ratio| *ratio <= LIMIT), "{ratios:?}");
}
