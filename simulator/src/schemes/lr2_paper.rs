//! LR2 as published: RNICs that know a switch's NAK, small pools, no second
//! Depot-NACK.

use rnic::QpConfig;

use super::model::{Class, Look, Marker, Place, Profile, SchemeModel};
use crate::node::{LAN, Middlebox};
use crate::peers::paper::Paper;
use crate::scenario::Scenario;

pub(super) struct Lr2Paper;

impl SchemeModel for Lr2Paper {
    fn profile(&self) -> Profile {
        Profile {
            name: "lr2-paper",
            about: "LR2 as published: small pools, no second report of a loss.",
            class: Class::Peer,
            look: Look {
                light: 0x56B4E9,
                dark: 0x8FD3FA,
                dashes: "14 8",
                width: 2,
                marker: Marker::Diamond,
            },
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pools = &place.scenario.gateway;
        let (local_rtt, lan_rate) = (place.local_rtt(), place.rates[LAN]);
        // As published, the backup pool covers the site: the rest is for reordering.
        let of_site = local_rtt.scale(lan_rate, 8_000_000_000).as_nanos().max(50_000);
        let backup = pools.paper_backup.unwrap_or(of_site.min(pools.budget));
        let reorder = pools.paper_reorder.unwrap_or(pools.budget.saturating_sub(backup));
        Box::new(Paper::new(reorder, backup, local_rtt, lan_rate))
    }

    fn queue_pair(&self, _: &Scenario, config: QpConfig) -> QpConfig {
        QpConfig { knows_switch_nak: true, ..config }
    }
}
