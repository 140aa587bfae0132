//! This product as it is set up by default: the Sentry resends packets in its cache, the source all others.

use switch::Recovery;

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use super::product;
use crate::node::Middlebox;

pub(super) struct Auto;

impl SchemeModel for Auto {
    fn profile(&self) -> Profile {
        Profile {
            name: "auto",
            about: "LR2 Gateway, recovery = auto: from the cache, and by the source where it is not kept.",
            class: Class::Ours,
            look: Look {
                light: 0x333F9E,
                dark: 0x8C96F0,
                dashes: "10 4",
                width: 3,
                marker: Marker::Square,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        product::gateway(place, Recovery::Auto)
    }
}
