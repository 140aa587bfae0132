//! Go-back-N as the network simulators have it: a NAK every few microseconds as
//! long as a gap is open, each obeyed.

use rnic::{QpConfig, RetryLimit, SecondNak};

use super::model::{Class, Form, Look, Marker, Profile, SchemeModel};
use crate::scenario::Scenario;

pub(super) struct GbnReNak;

impl SchemeModel for GbnReNak {
    fn profile(&self) -> Profile {
        Profile {
            name: "gbn-renak",
            about: "Go-back-N with a NAK every few microseconds while a gap is open, as network simulators \
         have it.",
            class: Class::Baseline,
            look: Look {
                light: 0xE69F00,
                dark: 0xF7C24C,
                dashes: "14 8",
                width: 2,
                marker: Marker::Diamond,
            },
        }
    }

    fn queue_pair(&self, scenario: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig {
            re_nak: Some(scenario.nic.re_nak),
            second_nak: SecondNak::Obey,
            retry: RetryLimit::Infinite,
            ..config
        }
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "the RNICs: go-back-N",
            goodput: |path, nic| path.gbn_renak_every(nic.re_nak) * nic.window.min(1.0),
            // While its window lasts the sender never pauses.
            sends: |path| 1.0 / path.gbn_renak_every(1.0),
            fct: |path, nic, packets| {
                packets / path.gbn_renak_every(nic.re_nak) + path.window + path.loss * path.timeout
            },
        })
    }
}
