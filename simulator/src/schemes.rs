//! The gateways of each scheme, and the configuration of its RNICs.

use common::time::Span;
use rnic::{Nic, NicConfig, QpConfig, RetryLimit, SecondNak, local_ack_timeout};
use switch::{Config, Recovery, Tuning};

use crate::node::{Inside, Rnic};
use crate::path::Path;
use crate::peers::irn::{Irn, IrnNic};
use crate::peers::paper::Paper;
use crate::scenario::{Scenario, Topology};
use crate::scheme::Scheme;

/// A budget that is never spent.
const PLENTY: u64 = 1 << 40;

/// The box in gateway `number`.
pub fn inside(scenario: &Scenario, scheme: Scheme, number: u32) -> Inside {
    let gateway = &scenario.gateway;
    let pools = [gateway.reorder, gateway.backup, gateway.cache].map(|p| p.unwrap_or(PLENTY));
    match scheme {
        Scheme::Lr2 => product(scenario, Recovery::Lr2, pools, number),
        Scheme::Cached => product(scenario, Recovery::Cached, pools, number),
        Scheme::Auto => product(scenario, Recovery::Auto, pools, number),
        // A switch that caches its frames and one that puts them in order are
        // the same as `cached`, but for the size of their memory.
        Scheme::NetRt => product(scenario, Recovery::Cached, [gateway.netrt_buffer; 3], number),
        Scheme::Lr2Paper => {
            let all = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
            let between = scenario.long_haul.delay * 2;
            // Half of the rest lies at either end.
            let local = (all - between).scale(1, 2);
            let (reorder, backup) = (gateway.paper_reorder, gateway.paper_backup);
            let lan_rate = match scenario.topology {
                Topology::Pair => scenario.site.host_rate,
                _ => scenario.long_haul.rate,
            };
            Inside::Paper(Box::new(Paper::new(reorder, backup, local, lan_rate)))
        }
        Scheme::Slr => Inside::Slr(Box::default()),
        _ => Inside::Wire,
    }
}

fn product(scenario: &Scenario, recovery: Recovery, pools: [u64; 3], number: u32) -> Inside {
    // As the gateway does, which has an mbuf for each frame.
    let [reorder_pool_frames, backup_pool_frames, resend_cache_frames] =
        pools.map(|bytes| bytes / u64::from(scenario.nic.pmtu));
    let rtt_guess = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
    Inside::Product(Box::new(switch::Switch::new(Config {
        reorder_pool_frames,
        backup_pool_frames,
        resend_cache_frames,
        pacing: scenario.gateway.pacing,
        cnp_interval: scenario.gateway.cnp.then_some(Span::from_micros(50)),
        tuning: Tuning { rtt_guess, ..Tuning::default() },
        ..Config::lab(recovery, number + 1, 1)
    })))
}

/// The hosts' RNIC.
pub fn rnic(scenario: &Scenario, scheme: Scheme, config: NicConfig) -> Rnic {
    if scheme != Scheme::Irn {
        return Rnic::GoBackN(Box::new(Nic::new(config)));
    }
    let path = Path::longest(scenario, true);
    let pmtu = scenario.nic.pmtu;
    let cap = scenario.nic.irn_cap.unwrap_or(path.packets(pmtu).min(1 << 22) as u32);
    Rnic::SelectiveRepeat(Box::new(IrnNic::new(config)), Irn::for_path(cap, path.rtt(pmtu)))
}

/// How long a host waits for an answer before it sends again.
pub fn timeout(scenario: &Scenario) -> Span {
    let rtt = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
    scenario.nic.timeout.unwrap_or((rtt * 4).max(local_ack_timeout(12)))
}

/// The configuration of both ends of a queue pair, besides its numbers.
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
        timeout: timeout(scenario),
        dcqcn: nic.dcqcn,
        content: nic.content,
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
        // IRN acknowledges each packet.
        Scheme::Irn => QpConfig { ack_req_every: 1, ..qp },
        Scheme::Lr2Paper | Scheme::Slr => QpConfig { knows_switch_nak: true, ..qp },
        _ => qp,
    }
}
