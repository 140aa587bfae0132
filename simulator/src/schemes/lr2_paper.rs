//! LR2 as published: RNICs that know a switch's NAK, small pools, no second
//! Depot-NACK.

use rnic::QpConfig;

use crate::node::{LAN, Middlebox};
use crate::peers::paper::Paper;
use crate::scenario::Scenario;
use crate::scheme::{Class, Look, Marker, Place, SchemeModel};

pub(super) struct Lr2Paper;

impl SchemeModel for Lr2Paper {
    fn name(&self) -> &'static str {
        "lr2-paper"
    }

    fn about(&self) -> &'static str {
        "LR2 as published: small pools, no second report of a loss."
    }

    fn class(&self) -> Class {
        Class::Peer
    }

    fn look(&self) -> Look {
        Look { light: 0x56B4E9, dark: 0x8FD3FA, dashes: "14 8", width: 2, marker: Marker::Diamond }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pools = &place.scenario.gateway;
        let (reorder, backup) = (pools.paper_reorder, pools.paper_backup);
        Box::new(Paper::new(reorder, backup, place.local_rtt(), place.rates[LAN]))
    }

    fn queue_pair(&self, _: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig { knows_switch_nak: true, ..config }
    }
}
