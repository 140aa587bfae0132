//! The product's gateway.

use common::time::Span;
use switch::{Config, Recovery, Tuning};

use super::model::Place;
use crate::frame::SimFrame;
use crate::node::Middlebox;

/// A gateway of that configuration.
pub(super) fn gateway(place: &Place<'_>, recovery: Recovery) -> Box<dyn Middlebox> {
    Box::new(switch::Switch::<SimFrame>::new(config(place, recovery)))
}

/// The configuration with the pools of the scenario. Its budget is divided as the default pools
/// of the product are: 64 MiB for reordering, 32 for backup, 64 for the cache, in which `lr2`
/// keeps filtered repeats.
pub(super) fn config(place: &Place<'_>, recovery: Recovery) -> Config {
    let Place { scenario, number, .. } = *place;
    let pools = &scenario.gateway;
    let part = pools.budget / 5;
    let bytes = [(pools.reorder, 2 * part), (pools.backup, part), (pools.cache, 2 * part)];
    // As the gateway does, which has an mbuf for each frame.
    let [reorder_pool_frames, backup_pool_frames, resend_cache_frames] =
        bytes.map(|(own, part)| own.unwrap_or(part) / u64::from(scenario.nic.pmtu));
    Config {
        reorder_pool_frames,
        backup_pool_frames,
        resend_cache_frames,
        pacing: scenario.gateway.pacing,
        cnp_interval: scenario.gateway.cnp.then_some(Span::from_micros(50)),
        tuning: Tuning { rtt_guess: place.rtt(), ..Tuning::default() },
        ..Config::lab(recovery, number + 1, 1)
    }
}
