//! Go-back-N between the RNICs, and rerouting between the gateways.

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use crate::node::{Middlebox, Wire};
use crate::peers::conweave;

/// Rerouting in the network, for scenarios in which each path has a WAN port of its own: elsewhere frames pass. It is none
/// of [`Scheme::ALL`](crate::scheme::Scheme::ALL); [`register`](super::register) it.
pub struct ConWeave;

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

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let haul = &place.scenario.long_haul;
        if !haul.has_own_ports {
            return Box::new(Wire);
        }
        let (paths, room) = (haul.paths.len(), place.scenario.gateway.budget);
        Box::new(conweave::ConWeave::new(paths, place.rtt(), room, u64::from(place.number) + 1))
    }
}
