//! This product as it is set up by default: the Sentry resends packets in its cache, the source all others.

use switch::Recovery;

use super::product;
use crate::node::Middlebox;
use crate::scheme::{Class, Look, Marker, Place, SchemeModel};

pub(super) struct Auto;

impl SchemeModel for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn about(&self) -> &'static str {
        "LR2 Gateway, recovery = auto: from the cache, and by the source where it is not kept."
    }

    fn class(&self) -> Class {
        Class::Ours
    }

    fn look(&self) -> Look {
        Look { light: 0x333F9E, dark: 0x8C96F0, dashes: "10 4", width: 3, marker: Marker::Square }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        product::gateway(place, Recovery::Auto)
    }
}
