//! Scenarios for tests.
use std::path::Path;

use common::time::{Span, Time};
use simulator::input::parse;
use simulator::results::{FlowResult, HostUse, LongHaulUse, RunResult};
use simulator::scenario::{Ecn, Pfc, Scenario, Site, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

/// True if `LR2_LONG=1` is in the environment: `scripts/test --long`.
pub fn is_long() -> bool {
    std::env::var("LR2_LONG").is_ok_and(|value| value == "1")
}

/// 10 Gbit/s everywhere, 1 ms there and back, no loss, no congestion control.
pub fn scenario(topology: Topology) -> Scenario {
    let text = r#"
        schemes = "all"
        sample_every = "1ms"
        [long_haul]
        rate = "10Gbps"
        rtt = "1ms"
        loss = 0
        [site]
        buffer = "64MiB"
        ecn = false
        pfc = false
        [nic]
        pmtu = 1024
        dcqcn = false
        connections = "known"
        [gateway]
        paper_reorder = "1MiB"
        netrt_buffer = "1MiB"
        queue = "64MiB"
    "#;
    let scenario = parse(Path::new("test.toml"), text, &[]).expect("a scenario");
    Scenario { topology, traffic: Vec::new(), ..scenario }
}

/// Marks and pauses, as they are usually set at 10 Gbit/s.
pub fn with_flow_control(scenario: Scenario) -> Scenario {
    let site = Site {
        buffer: 4 << 20,
        ecn: Some(Ecn { kmin: 40_000, kmax: 160_000, pmax: 0.2 }),
        pfc: Some(Pfc { xoff: 200_000, xon: 150_000 }),
        ..scenario.site
    };
    Scenario { site, ..scenario }
}

/// A message from `src` to `dst` that is posted `start_us` after the beginning.
pub fn flow(start_us: u64, src: u32, dst: u32, bytes: u64) -> FlowSpec {
    let start = Time::ZERO + Span::from_micros(start_us);
    FlowSpec { start, src, dst, bytes, round: 0, traffic: 0 }
}

/// The result of a message that is posted at its start, in microseconds, and takes
/// `fct_us`; `None`: it is not complete.
pub fn result(spec: FlowSpec, fct_us: Option<u64>, ideal_us: u64) -> FlowResult {
    FlowResult {
        spec,
        due: spec.start,
        posted: spec.start,
        completed: fct_us.map(|us| spec.start + Span::from_micros(us)),
        ideal: Span::from_micros(ideal_us),
        is_long_haul: true,
    }
}

/// A run of these messages in which nothing else is told.
pub fn run_of(scheme: Scheme, seed: u64, end_us: u64, flows: Vec<FlowResult>) -> RunResult {
    RunResult {
        scheme,
        seed,
        end: Time::ZERO + Span::from_micros(end_us),
        packet_events: 10,
        flows,
        long_haul: LongHaulUse::default(),
        hosts: HostUse::default(),
        tunnel: Default::default(),
        counters: Vec::new(),
        pools: Vec::new(),
        recoveries: Vec::new(),
    }
}
