//! Selective repeat with direct placement in the RNIC: an upper bound.

use rnic::NicConfig;

use super::model::{Class, Form, Look, Marker, Profile, SchemeModel};
use crate::node::Rnic;
use crate::path::Path;
use crate::peers::uet;
use crate::scenario::Scenario;

pub(super) struct Uet;

impl SchemeModel for Uet {
    fn profile(&self) -> Profile {
        Profile {
            name: "uet",
            about: "RNICs as Ultra Ethernet has them: packets placed in any order, each acknowledged.",
            class: Class::Peer,
            look: Look {
                light: 0x8A6D1F,
                dark: 0xD9B95B,
                dashes: "4 4",
                width: 2,
                marker: Marker::Diamond,
            },
        }
    }

    fn rnic(&self, scenario: &Scenario, config: NicConfig) -> Box<dyn Rnic> {
        let rtt = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
        Box::new(uet::nic(config, rtt))
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "the RNICs: in any order",
            goodput: |path, nic| path.selective_repeat() * nic.window.min(1.0),
            sends: |path| path.sends_repairing(),
            fct: |path, _, packets| path.fct_selective_repeat(packets),
        })
    }
}
