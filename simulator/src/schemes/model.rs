//! The trait that a scheme implements: its name, its look in plots, a box in each gateway, an
//! RNIC in each host. `docs/simulator.md` has an example.

use common::time::Span;
use rnic::{NicConfig, QpConfig};

use crate::node::{Middlebox, Nic, Rnic, Wire};
use crate::path::Path;
use crate::plan::forms;
use crate::scenario::Scenario;

/// A scheme: who repairs the losses of the long-haul link, and how.
pub trait SchemeModel: Sync {
    /// Its name, method, class and look.
    fn profile(&self) -> Profile;

    /// Whether it can be run in `scenario`.
    ///
    /// # Errors
    /// Names the setting that the scheme needs and the scenario does not have.
    fn fits(&self, _scenario: &Scenario) -> Result<(), String> {
        Ok(())
    }

    /// Whether its links lose nothing.
    fn is_lossless(&self) -> bool {
        false
    }

    /// The box in a gateway; without any, frames pass.
    fn gateway(&self, _place: &Place<'_>) -> Box<dyn Middlebox> {
        Box::new(Wire)
    }

    /// Bytes that a gateway puts in front of each packet on the long haul. A switch's port
    /// towards a gateway is shaped to what is left.
    fn headers(&self, _scenario: &Scenario) -> u64 {
        0
    }

    /// The RNIC of a host.
    fn rnic(&self, _scenario: &Scenario, config: NicConfig) -> Box<dyn Rnic> {
        Box::new(Nic::go_back_n(config))
    }

    /// The configuration of both ends of a queue pair; `config` is that of the
    /// scenario.
    fn queue_pair(&self, _scenario: &Scenario, config: QpConfig) -> QpConfig {
        config
    }

    /// Its goodput in closed form, if there is one.
    fn form(&self) -> Option<Form> {
        None
    }
}

/// The description of a scheme in tables and plots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The word for it in scenarios, tables and files; no two schemes have the same.
    pub name: &'static str,
    /// Its method, in a sentence.
    pub about: &'static str,
    /// Its role in a comparison.
    pub class: Class,
    /// Its looks in plots.
    pub look: Look,
}

/// The role of a scheme in a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The best there can be: no candidate.
    Yardstick,
    /// RNICs as they are.
    Baseline,
    /// Published or standardised by others.
    Peer,
    /// This product.
    Ours,
}

/// How a scheme looks in plots and tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// 0xRRGGBB on a light ground; no two schemes have the same.
    pub light: u32,
    /// 0xRRGGBB on a dark ground.
    pub dark: u32,
    /// Dashes of its lines, as in SVG; empty: solid.
    pub dashes: &'static str,
    /// Width of its lines in pixels.
    pub width: u32,
    /// The marker of its points.
    pub marker: Marker,
}

/// The marker of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ◆
    Diamond,
    /// ▲
    Up,
    /// ▼
    Down,
}

/// Where a gateway's box is put.
#[derive(Clone, Copy, Debug)]
pub struct Place<'s> {
    /// The network around it.
    pub scenario: &'s Scenario,
    /// Of the gateway, from 0 on.
    pub number: u32,
    /// bit/s of its ports, [`LAN`](crate::node::LAN) and [`WAN`](crate::node::WAN).
    pub rates: [u64; 2],
}

impl Place<'_> {
    /// The longest round trip between two hosts of different sites.
    pub fn rtt(&self) -> Span {
        Path::longest(self.scenario, true).rtt(self.scenario.nic.pmtu)
    }

    /// The part of it within one site: there and back between the gateway and a
    /// host.
    pub fn local_rtt(&self) -> Span {
        (self.rtt() - self.scenario.long_haul.delay * 2).scale(1, 2)
    }
}

/// The closed forms of a scheme, in the units of [`forms`].
#[derive(Clone, Copy)]
pub struct Form {
    /// Who repairs, in a few words.
    pub about: &'static str,
    /// Share of the NIC's time that delivers something new, of a long flow.
    pub goodput: fn(&forms::Path, &forms::Nic) -> f64,
    /// Packets on the long-haul link per packet delivered.
    pub sends: fn(&forms::Path) -> f64,
    /// Mean completion time in slots of a message of so many packets.
    pub fct: fn(&forms::Path, &forms::Nic, f64) -> f64,
}
