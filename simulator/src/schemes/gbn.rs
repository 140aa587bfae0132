//! Go-back-N between the RNICs, one NAK per gap, as real ones do.

use super::model::{Class, Form, Look, Marker, Profile, SchemeModel};

pub(super) struct Gbn;

impl SchemeModel for Gbn {
    fn profile(&self) -> Profile {
        Profile {
            name: "gbn",
            about: "Go-back-N between the RNICs, one NAK per gap: what RoCE does without any help.",
            class: Class::Baseline,
            look: Look {
                light: 0xD55E00,
                dark: 0xFF8B3D,
                dashes: "",
                width: 2,
                marker: Marker::Square,
            },
        }
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "the RNICs: go-back-N",
            goodput: |path, nic| path.gbn(nic.ack_every) * nic.window.min(1.0),
            sends: |path| path.sends_gbn(),
            fct: |path, nic, packets| path.fct_gbn(packets, nic.ack_every),
        })
    }
}
