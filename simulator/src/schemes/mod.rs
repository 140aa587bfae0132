//! The schemes, a file each, and those that a user of this library adds.

mod auto;
mod cached;
mod conweave;
mod gbn;
mod gbn_renak;
mod irn;
mod lossless;
mod lr2;
mod lr2_paper;
mod model;
mod netrt;
mod product;
mod slr;
mod tunnel;
mod uet;

use parking_lot::RwLock;
use rnic::{QpConfig, RetryLimit};

use crate::path::{timeout, window};
use crate::scenario::Scenario;
use crate::scheme::Scheme;

pub use model::{Class, Form, Look, Marker, Place, Profile, SchemeModel};
pub use tunnel::overhead as tunnel_overhead;

/// The models of [`Scheme::ALL`], in that order.
static BUILT_IN: [&dyn SchemeModel; Scheme::ALL.len()] = [
    &lossless::Lossless,
    &gbn::Gbn,
    &gbn_renak::GbnReNak,
    &irn::Irn,
    &uet::Uet,
    &slr::Slr,
    &netrt::NetRt,
    &lr2_paper::Lr2Paper,
    &lr2::Lr2,
    &cached::Cached,
    &auto::Auto,
    &tunnel::Tunnel,
];

/// Those that are for some scenarios only.
static FOR_SOME: [&dyn SchemeModel; 1] = [&conweave::ConWeave];

/// Models that were added.
static ADDED: RwLock<Vec<&'static dyn SchemeModel>> = RwLock::new(Vec::new());

fn models() -> Vec<&'static dyn SchemeModel> {
    let added = ADDED.read();
    BUILT_IN.iter().chain(&FOR_SOME).chain(added.iter()).copied().collect()
}

/// Every scheme: [`Scheme::ALL`], those for some scenarios only, and those [registered](register), in that order.
pub fn all() -> Vec<Scheme> {
    models().iter().map(|model| Scheme::of(model.profile().name)).collect()
}

/// Those that are for any scenario.
pub fn for_any_scenario() -> Vec<Scheme> {
    let is_for_some =
        |scheme: &Scheme| FOR_SOME.iter().any(|model| model.profile().name == scheme.name());
    all().into_iter().filter(|scheme| !is_for_some(scheme)).collect()
}

/// The scheme of that name.
pub fn named(name: &str) -> Option<Scheme> {
    all().into_iter().find(|scheme| scheme.name() == name)
}

/// The model of a scheme.
pub fn model(scheme: Scheme) -> &'static dyn SchemeModel {
    let mut models = models().into_iter();
    models.find(|model| model.profile().name == scheme.name()).expect("each scheme has a model")
}

/// The description of a scheme.
pub fn profile(scheme: Scheme) -> Profile {
    model(scheme).profile()
}

/// Adds a scheme. From now on scenarios, the command line, tables and plots
/// know it by its name.
///
/// # Panics
/// If there is one of that name.
pub fn register(model: &'static dyn SchemeModel) -> Scheme {
    let name = model.profile().name;
    let mut added = ADDED.write();
    let mut known = BUILT_IN.iter().chain(&FOR_SOME).chain(added.iter());
    let is_new = known.all(|other| other.profile().name != name);
    assert!(is_new, "there is a scheme {name} already");
    added.push(model);
    Scheme::of(name)
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
    model(scheme).queue_pair(scenario, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_bear_the_names_of_their_schemes() {
        assert_eq!(BUILT_IN.map(|model| model.profile().name), Scheme::ALL.map(Scheme::name));
    }
}
