//! What each scheme puts into the gateways, and how its RNICs are set up.

use common::time::Span;
use rnic::{QpConfig, RetryLimit, SecondNak};
use switch::{Config, Recovery, Tuning};

use crate::node::Inside;
use crate::scenario::Scenario;
use crate::scheme::Scheme;
use crate::topology::Path;

/// A budget that is never spent.
const PLENTY: u64 = 1 << 40;

/// What is in gateway `number`.
pub fn inside(scenario: &Scenario, scheme: Scheme, number: u32) -> Inside {
    let recovery = match scheme {
        Scheme::Lr2 => Recovery::Lr2,
        Scheme::Cached => Recovery::Cached,
        _ => return Inside::Wire,
    };
    let gateway = &scenario.gateway;
    let rtt = Path::longest(scenario, true).rtt;
    Inside::Product(Box::new(switch::Switch::new(Config {
        reorder_pool_bytes: gateway.reorder.unwrap_or(PLENTY),
        reorder_pool_frames: PLENTY,
        backup_pool_bytes: gateway.backup.unwrap_or(PLENTY),
        backup_pool_frames: PLENTY,
        resend_cache_bytes: gateway.cache.unwrap_or(PLENTY),
        resend_cache_frames: PLENTY,
        tuning: Tuning { rtt_guess: rtt, ..Tuning::default() },
        ..Config::lab(recovery, number + 1, 1)
    })))
}

/// What both ends of a queue pair are set up with, besides its numbers.
pub fn queue_pair(scenario: &Scenario, scheme: Scheme, base: QpConfig) -> QpConfig {
    let nic = &scenario.nic;
    let path = Path::longest(scenario, true);
    let window = match nic.window {
        Some(window) => window,
        None => (3 * path.packets(nic.pmtu)).clamp(64, 1 << 22) as u32,
    };
    let qp = QpConfig {
        pmtu: nic.pmtu,
        window,
        ack_req_every: nic.ack_req_every.min(window.div_ceil(2)),
        timeout: nic.timeout.unwrap_or((path.rtt * 4).max(Span::from_millis(1))),
        retry: nic.retries.map_or(RetryLimit::Infinite, RetryLimit::Count),
        ..base
    };
    match scheme {
        Scheme::GbnReNak => QpConfig {
            re_nak: Some(nic.re_nak),
            second_nak: SecondNak::Obey,
            retry: RetryLimit::Infinite,
            ..qp
        },
        _ => qp,
    }
}
