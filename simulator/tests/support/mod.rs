//! Scenarios for tests.
#![allow(dead_code, reason = "not every test uses all of it")]

use common::time::{Span, Time};
use link::LossModel;
use simulator::scenario::{
    Connections, Ecn, GatewayModel, LongHaul, NicModel, Pfc, Scenario, Site, Topology,
};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

/// 10 Gbit/s everywhere, 1 ms there and back, no loss, no congestion control.
pub fn scenario(topology: Topology) -> Scenario {
    let rate = 10_000_000_000;
    Scenario {
        name: "test".into(),
        about: "a test".into(),
        schemes: Scheme::ALL.to_vec(),
        seeds: vec![1],
        limit: Span::from_millis(60_000),
        sample_every: Span::from_millis(1),
        topology,
        long_haul: LongHaul {
            rate,
            delay: Span::from_micros(500),
            jitter: Span::ZERO,
            loss: LossModel::None,
            loss_back: LossModel::None,
            outage: None,
        },
        site: Site {
            host_rate: rate,
            fabric_rate: rate,
            delay: Span::from_micros(1),
            loss: 0.0,
            buffer: 64 << 20,
            shared_buffer: true,
            ecn: None,
            pfc: None,
        },
        nic: NicModel {
            pmtu: 1024,
            window: None,
            ack_req_every: 16,
            timeout: None,
            retries: None,
            re_nak: Span::from_micros(4),
            dcqcn: None,
            irn_cap: None,
            content: true,
            connections: Connections::Known,
        },
        gateway: GatewayModel {
            pacing: true,
            cnp: true,
            reorder: None,
            backup: None,
            cache: None,
            paper_reorder: 1 << 20,
            paper_backup: 50_000,
            netrt_buffer: 1 << 20,
            queue: 64 << 20,
        },
        traffic: Vec::new(),
    }
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
