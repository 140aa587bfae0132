//! Switches that keep every packet until the next hop has it, and resend it themselves.

use crate::node::Middlebox;
use crate::peers::netrt;
use crate::scheme::{Class, Look, Marker, Place, SchemeModel};

pub(super) struct NetRt;

impl SchemeModel for NetRt {
    fn name(&self) -> &'static str {
        "netrt"
    }

    fn about(&self) -> &'static str {
        "Switches keep every packet until the next hop has it, and resend it themselves."
    }

    fn class(&self) -> Class {
        Class::Peer
    }

    fn look(&self) -> Look {
        Look {
            light: 0x3B3B3B,
            dark: 0xF4F4F4,
            dashes: "18 6 4 6",
            width: 2,
            marker: Marker::Square,
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pools = &place.scenario.gateway;
        let bytes = pools.netrt_buffer.unwrap_or(pools.budget);
        Box::new(netrt::NetRt::new(bytes, place.scenario.long_haul.rtt()))
    }
}
