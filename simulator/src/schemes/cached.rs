//! This product, the Sentry resends.

use switch::Recovery;

use super::model::{Class, Form, Look, Marker, Place, Profile, SchemeModel};
use super::product;
use crate::node::Middlebox;

pub(super) struct Cached;

impl SchemeModel for Cached {
    fn profile(&self) -> Profile {
        Profile {
            name: "cached",
            about: "LR2 Gateway, recovery = cached: the gateway resends from its own cache.",
            class: Class::Ours,
            look: Look {
                light: 0x0072B2,
                dark: 0x4CA8E8,
                dashes: "",
                width: 3,
                marker: Marker::Circle,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        product::gateway(place, Recovery::Cached)
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "gateways, from a cache",
            goodput: |path, nic| path.bounded(nic.window),
            sends: |path| path.sends_repairing(),
            fct: |path, _, packets| path.fct_cached(packets),
        })
    }
}
