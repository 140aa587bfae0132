//! How fast the engine is on one core, in packet events per second: a packet
//! that arrives at a host, a switch or a gateway, or leaves one. divan calls
//! them items.
//!
//! `cargo bench -p simulator --bench engine`

use std::path::Path;

use divan::Bencher;
use divan::counter::ItemsCount;
use simulator::input::parse;
use simulator::run::run;
use simulator::scheme::Scheme;

fn main() {
    divan::main();
}

/// One long message: 20,000 packets.
const PAIR: &str = r#"
[[traffic]]
kind = "long"
bytes = "81920000B"
"#;

/// 16 hosts, four hops from each to the other site, ECN, PFC and DCQCN.
const LEAF_SPINE: &str = r#"
[topology]
kind = "leaf-spine"

[[traffic]]
kind = "poisson"
sizes = "websearch"
load = 0.5
flows = 60
"#;

/// The same link for all.
const LINK: &str = r#"
[long_haul]
rate = "10Gbps"
rtt = "2ms"
loss = 1e-3

[nic]
content = false
"#;

fn events(bencher: Bencher, network: &str, scheme: Scheme) {
    let text = format!("{LINK}{network}");
    let scenario = parse(Path::new("engine.toml"), &text, &[]).expect("it is right");
    let once = run(&scenario, scheme, 1).expect("it can be set up");
    bencher
        .counter(ItemsCount::new(once.packet_events))
        .bench_local(|| run(&scenario, scheme, 1).expect("it can be set up"));
}

#[divan::bench(args = [Scheme::GBN, Scheme::CACHED], sample_count = 10)]
fn pair(bencher: Bencher, scheme: Scheme) {
    events(bencher, PAIR, scheme);
}

#[divan::bench(args = [Scheme::GBN, Scheme::CACHED], sample_count = 10)]
fn leaf_spine(bencher: Bencher, scheme: Scheme) {
    events(bencher, LEAF_SPINE, scheme);
}
