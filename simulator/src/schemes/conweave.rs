//! Go-back-N between the RNICs, and rerouting between the gateways.

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use crate::node::Middlebox;
use crate::peers::conweave;
use crate::scenario::Scenario;

/// Rerouting in the network, for scenarios in which each path has a WAN port of its own.
pub(super) struct ConWeave;

impl SchemeModel for ConWeave {
    fn profile(&self) -> Profile {
        Profile {
            name: "conweave",
            about: "The gateways move a flow to another path when its echo is late, and hide the reordering.",
            class: Class::Peer,
            look: Look {
                light: 0x7A5195,
                dark: 0xB78AD0,
                dashes: "3 3",
                width: 2,
                marker: Marker::Diamond,
            },
        }
    }

    fn fits(&self, scenario: &Scenario) -> Result<(), String> {
        let has_own_ports = scenario.long_haul.has_own_ports;
        let reason = || "conweave needs a WAN port for each path: long_haul.ports = \"own\"".into();
        has_own_ports.then_some(()).ok_or_else(reason)
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let haul = &place.scenario.long_haul;
        let (paths, room) = (haul.paths.len(), place.scenario.gateway.budget);
        Box::new(conweave::ConWeave::new(paths, place.rtt(), room, u64::from(place.number) + 1))
    }
}
