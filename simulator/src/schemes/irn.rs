//! Selective repeat in the RNIC (IRN): a bitmap, and a cap on packets in flight.

use rnic::{NicConfig, QpConfig};

use super::model::{Class, Form, Look, Marker, Profile, SchemeModel};
use crate::node::Rnic;
use crate::path::{Path, window};
use crate::peers::irn;
use crate::plan::forms;
use crate::scenario::Scenario;

pub(super) struct Irn;

impl SchemeModel for Irn {
    fn profile(&self) -> Profile {
        Profile {
            name: "irn",
            about: "Selective repeat in the RNIC, as IRN has it.",
            class: Class::Peer,
            look: Look {
                light: 0xCC79A7,
                dark: 0xF0A8CF,
                dashes: "",
                width: 2,
                marker: Marker::Up,
            },
        }
    }

    fn rnic(&self, scenario: &Scenario, config: NicConfig) -> Box<dyn Rnic> {
        let cap = scenario.nic.irn_cap.unwrap_or(window(scenario));
        let rtt = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
        Box::new(irn::nic(config, irn::Irn::for_path(cap, rtt)))
    }

    /// IRN acknowledges each packet.
    fn queue_pair(&self, _: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig { ack_req_every: 1, ..config }
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "the RNICs: selective",
            goodput,
            sends: |path| path.sends_repairing(),
            // While the message fits into the cap nothing stalls.
            fct: |path, nic, packets| match path.fct_selective_repeat(packets) {
                slots if packets <= path.window * nic.irn_cap => slots,
                slots => slots * path.selective_repeat() / goodput(path, nic),
            },
        })
    }
}

fn goodput(path: &forms::Path, nic: &forms::Nic) -> f64 {
    match nic.irn_cap {
        cap if cap < 2.0 => path.bounded(cap),
        cap => path.irn(cap, nic.irn_timeout),
    }
}
