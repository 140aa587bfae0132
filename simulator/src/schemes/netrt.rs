//! Switches that keep every packet until the next hop has it, and resend it themselves.

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use crate::node::Middlebox;
use crate::peers::netrt;

pub(super) struct NetRt;

impl SchemeModel for NetRt {
    fn profile(&self) -> Profile {
        Profile {
            name: "netrt",
            about: "Switches keep every packet until the next hop has it, and resend it themselves.",
            class: Class::Peer,
            look: Look {
                light: 0x3B3B3B,
                dark: 0xF4F4F4,
                dashes: "18 6 4 6",
                width: 2,
                marker: Marker::Square,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pools = &place.scenario.gateway;
        let bytes = pools.netrt_buffer.unwrap_or(pools.budget);
        Box::new(netrt::NetRt::new(bytes, place.scenario.long_haul.rtt()))
    }
}
