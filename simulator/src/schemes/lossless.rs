//! The yardstick.

use super::model::{Class, Form, Look, Marker, Profile, SchemeModel};

pub(super) struct Lossless;

impl SchemeModel for Lossless {
    fn profile(&self) -> Profile {
        Profile {
            name: "lossless",
            about: "The same hosts on a link that loses nothing: the best there can be.",
            class: Class::Yardstick,
            look: Look {
                light: 0x6E7781,
                dark: 0x9DA7B3,
                dashes: "3 7",
                width: 2,
                marker: Marker::Circle,
            },
        }
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "no loss at all",
            goodput: |_, nic| nic.window.min(1.0),
            sends: |_| 1.0,
            fct: |path, _, packets| path.fct_lossless(packets),
        })
    }
}
