//! The schemes, a file each, and those that a user of this library adds.

mod auto;
mod cached;
mod gbn;
mod gbn_renak;
mod irn;
mod lossless;
mod lr2;
mod lr2_paper;
mod netrt;
mod product;
mod slr;
mod tunnel;
mod uet;

use std::sync::{PoisonError, RwLock};

use common::time::Span;
use rnic::{QpConfig, RetryLimit, local_ack_timeout};

use crate::path::Path;
use crate::scenario::Scenario;
use crate::scheme::{Scheme, SchemeModel};

impl Scheme {
    /// The same hosts on a link that loses nothing: the yardstick.
    pub const LOSSLESS: Self = Self::of(&lossless::Lossless);
    /// Go-back-N between the RNICs, one NAK per gap, as real ones do.
    pub const GBN: Self = Self::of(&gbn::Gbn);
    /// Go-back-N with a NAK every few microseconds.
    pub const GBN_RENAK: Self = Self::of(&gbn_renak::GbnReNak);
    /// Selective repeat in the RNIC.
    pub const IRN: Self = Self::of(&irn::Irn);
    /// Selective repeat with direct placement in the RNIC: an upper bound.
    pub const UET: Self = Self::of(&uet::Uet);
    /// Feedback near the sender.
    pub const SLR: Self = Self::of(&slr::Slr);
    /// Resends from buffers in the network.
    pub const NETRT: Self = Self::of(&netrt::NetRt);
    /// LR2 as published.
    pub const LR2_PAPER: Self = Self::of(&lr2_paper::Lr2Paper);
    /// This product, the source resends.
    pub const LR2: Self = Self::of(&lr2::Lr2);
    /// This product, the Sentry resends.
    pub const CACHED: Self = Self::of(&cached::Cached);
    /// This product as it is set up by default.
    pub const AUTO: Self = Self::of(&auto::Auto);

    /// This product's tunnel.
    pub const TUNNEL: Self = Self::of(&tunnel::Tunnel);

    /// Those that come with the simulator, in the order of tables and plots.
    pub const ALL: [Self; 12] = [
        Self::LOSSLESS,
        Self::GBN,
        Self::GBN_RENAK,
        Self::IRN,
        Self::UET,
        Self::SLR,
        Self::NETRT,
        Self::LR2_PAPER,
        Self::LR2,
        Self::CACHED,
        Self::AUTO,
        Self::TUNNEL,
    ];
}

/// Schemes that were added.
static ADDED: RwLock<Vec<Scheme>> = RwLock::new(Vec::new());

/// Every scheme: [`Scheme::ALL`], and those [registered](register), in that order.
pub fn all() -> Vec<Scheme> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    Scheme::ALL.iter().chain(added.iter()).copied().collect()
}

/// Adds a scheme. From now on scenarios, the command line, tables and plots
/// know it by its name.
///
/// # Panics
/// If there is one of that name.
pub fn register(model: &'static dyn SchemeModel) -> Scheme {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let scheme = Scheme::of(model);
    let is_new = !Scheme::ALL.contains(&scheme) && !added.contains(&scheme);
    assert!(is_new, "there is a scheme {} already", scheme.name());
    added.push(scheme);
    scheme
}

/// How long a host waits for an answer before it sends again.
pub(crate) fn timeout(scenario: &Scenario) -> Span {
    let rtt = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
    scenario.nic.timeout.unwrap_or((rtt * 4).max(local_ack_timeout(12)))
}

/// Packets that a queue pair may have unacknowledged.
pub(crate) fn window(scenario: &Scenario) -> u32 {
    let nic = &scenario.nic;
    let packets = Path::longest(scenario, true).packets(nic.pmtu);
    nic.window.unwrap_or((3 * packets).clamp(64, 1 << 22) as u32)
}

/// The configuration of both ends of a queue pair, besides its numbers.
pub(crate) fn queue_pair(scenario: &Scenario, scheme: Scheme, base: QpConfig) -> QpConfig {
    let nic = &scenario.nic;
    let window = window(scenario);
    let config = QpConfig {
        pmtu: nic.pmtu,
        window,
        ack_req_every: nic.ack_req_every.min(window.div_ceil(2)),
        timeout: timeout(scenario),
        dcqcn: nic.dcqcn,
        cnp_with_nak: nic.cnp_with_nak,
        content: nic.content,
        retry: nic.retries.map_or(RetryLimit::Infinite, RetryLimit::Count),
        ..base
    };
    scheme.model().queue_pair(scenario, config)
}
