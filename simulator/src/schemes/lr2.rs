//! This product, the source resends.

use switch::Recovery;

use super::model::{Class, Form, Look, Marker, Place, Profile, SchemeModel};
use super::product;
use crate::node::Middlebox;

pub(super) struct Lr2;

impl SchemeModel for Lr2 {
    fn profile(&self) -> Profile {
        Profile {
            name: "lr2",
            about: "LR2 Gateway, recovery = lr2: the source resends, the gateway filters.",
            class: Class::Ours,
            look: Look {
                light: 0x009E73,
                dark: 0x2FCC9B,
                dashes: "",
                width: 3,
                marker: Marker::Up,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        product::gateway(place, Recovery::Lr2)
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "gateways, and the source",
            goodput: |path, nic| path.lr2_rewinding(nic.rewind) * nic.window.min(1.0),
            sends: |path| path.sends_repairing(),
            fct: |path, _, packets| path.fct_lr2(packets),
        })
    }
}
