//! The product's gateway.

use common::time::Span;
use switch::{Config, Recovery, Tuning};

use crate::frame::SimFrame;
use crate::node::Middlebox;
use crate::scheme::Place;

/// A budget that is never spent.
const PLENTY: u64 = 1 << 40;

/// A gateway with the pools of the scenario.
pub(super) fn gateway(place: &Place<'_>, recovery: Recovery) -> Box<dyn Middlebox> {
    let pools = &place.scenario.gateway;
    let bytes = [pools.reorder, pools.backup, pools.cache].map(|pool| pool.unwrap_or(PLENTY));
    with_pools(place, recovery, bytes)
}

/// A gateway with a reordering pool, a backup pool and a resend cache of so many bytes.
pub(super) fn with_pools(
    place: &Place<'_>,
    recovery: Recovery,
    bytes: [u64; 3],
) -> Box<dyn Middlebox> {
    let Place { scenario, number, .. } = *place;
    // As the gateway does, which has an mbuf for each frame.
    let [reorder_pool_frames, backup_pool_frames, resend_cache_frames] =
        bytes.map(|bytes| bytes / u64::from(scenario.nic.pmtu));
    Box::new(switch::Switch::<SimFrame>::new(Config {
        reorder_pool_frames,
        backup_pool_frames,
        resend_cache_frames,
        pacing: scenario.gateway.pacing,
        cnp_interval: scenario.gateway.cnp.then_some(Span::from_micros(50)),
        tuning: Tuning { rtt_guess: place.rtt(), ..Tuning::default() },
        ..Config::lab(recovery, number + 1, 1)
    }))
}
