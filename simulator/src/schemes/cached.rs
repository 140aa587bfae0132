//! This product, the Sentry resends.

use switch::Recovery;

use super::product;
use crate::node::Middlebox;
use crate::scheme::{Class, Form, Look, Marker, Place, SchemeModel};

pub(super) struct Cached;

impl SchemeModel for Cached {
    fn name(&self) -> &'static str {
        "cached"
    }

    fn about(&self) -> &'static str {
        "LR2 Gateway, recovery = cached: the gateway resends from its own cache."
    }

    fn class(&self) -> Class {
        Class::Ours
    }

    fn look(&self) -> Look {
        Look { light: 0x0072B2, dark: 0x4CA8E8, dashes: "", width: 3, marker: Marker::Circle }
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
