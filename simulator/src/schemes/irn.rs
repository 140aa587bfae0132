//! Selective repeat in the RNIC (IRN): bitmap and BDP cap.

use rnic::{NicConfig, QpConfig};

use crate::node::Rnic;
use crate::path::Path;
use crate::peers::irn;
use crate::scenario::Scenario;
use crate::scheme::{Class, Form, Look, Marker, SchemeModel};

pub(super) struct Irn;

impl SchemeModel for Irn {
    fn name(&self) -> &'static str {
        "irn"
    }

    fn about(&self) -> &'static str {
        "Selective repeat in the RNIC, as IRN has it."
    }

    fn class(&self) -> Class {
        Class::Peer
    }

    fn look(&self) -> Look {
        Look { light: 0xCC79A7, dark: 0xF0A8CF, dashes: "", width: 2, marker: Marker::Up }
    }

    fn rnic(&self, scenario: &Scenario, config: NicConfig) -> Box<dyn Rnic> {
        let path = Path::longest(scenario, true);
        let pmtu = scenario.nic.pmtu;
        let cap = scenario.nic.irn_cap.unwrap_or(path.packets(pmtu).min(1 << 22) as u32);
        Box::new(irn::nic(config, irn::Irn::for_path(cap, path.rtt(pmtu))))
    }

    /// IRN acknowledges each packet.
    fn queue_pair(&self, _: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig { ack_req_every: 1, ..config }
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "the RNICs: selective",
            goodput: |path, nic| match nic.irn_cap {
                cap if cap < 2.0 => path.bounded(nic.window.min(cap)),
                cap => path.irn(cap, nic.irn_timeout),
            },
            sends: |path| path.sends_repairing(),
            // While the message fits into the cap nothing stalls.
            fct: |path, _, packets| match path.fct_selective_repeat(packets) {
                slots if packets <= path.window => slots,
                slots => slots * path.bounded(2.0) / path.bounded(1.0),
            },
        })
    }
}
