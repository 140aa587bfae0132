//! Switches that resend from a bounded buffer in the network.

use switch::Recovery;

use super::product;
use crate::node::Middlebox;
use crate::scheme::{Class, Look, Marker, Place, SchemeModel};

pub(super) struct NetRt;

impl SchemeModel for NetRt {
    fn name(&self) -> &'static str {
        "netrt"
    }

    fn about(&self) -> &'static str {
        "Switches that resend from a bounded buffer in the network."
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
        product::with_pools(place, Recovery::Cached, [place.scenario.gateway.netrt_buffer; 3])
    }
}
