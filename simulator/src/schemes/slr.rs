//! Go-back-N, and a switch near the sender that reports loss before it and drops
//! packets that the receiver would drop anyway.

use rnic::{Dcqcn, QpConfig};

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use crate::node::Middlebox;
use crate::peers::slr;
use crate::scenario::Scenario;

pub(super) struct Slr;

impl SchemeModel for Slr {
    fn profile(&self) -> Profile {
        Profile {
            name: "slr",
            about: "A switch near the sender reports loss early and drops what the receiver would drop.",
            class: Class::Peer,
            look: Look {
                light: 0x882255,
                dark: 0xD0629A,
                dashes: "7 6",
                width: 2,
                marker: Marker::Down,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let dcqcn = place.scenario.nic.dcqcn.unwrap_or(Dcqcn::DEFAULT);
        Box::new(slr::Slr::new(dcqcn.cnp_interval))
    }

    fn queue_pair(&self, _: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig { knows_switch_nak: true, ..config }
    }
}
