//! A way to recover from loss on a long link, as the simulator sees it: a name,
//! a look in plots, a box in each gateway, an RNIC in each host.
//!
//! [`SchemeModel`] is to be implemented by each; [`crate::schemes`] lists them, a
//! file each, and takes further ones. `docs/simulator.md` has an example.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use common::time::Span;
use rnic::{NicConfig, QpConfig};
use serde::{Serialize, Serializer};

use crate::node::{Middlebox, Nic, Rnic, Wire};
use crate::path::Path;
use crate::plan::forms;
use crate::scenario::Scenario;
use crate::schemes;

/// A scheme: who repairs the losses of the long-haul link, and how.
pub trait SchemeModel: Sync {
    /// The word for it in scenarios, tables and files; no two have the same.
    fn name(&self) -> &'static str;

    /// Its method, in a sentence.
    fn about(&self) -> &'static str;

    /// What it is compared as.
    fn class(&self) -> Class;

    /// Its looks in plots.
    fn look(&self) -> Look;

    /// Whether its links lose nothing.
    fn is_lossless(&self) -> bool {
        false
    }

    /// The box in a gateway; without any, frames pass.
    fn gateway(&self, _place: &Place<'_>) -> Box<dyn Middlebox> {
        Box::new(Wire)
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

/// What a scheme is compared as.
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

/// A scheme that is [registered](schemes::register): a name for its model.
#[derive(Clone, Copy)]
pub struct Scheme(&'static dyn SchemeModel);

impl Scheme {
    pub(crate) const fn of(model: &'static dyn SchemeModel) -> Self {
        Self(model)
    }

    /// The scheme of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        schemes::all().into_iter().find(|scheme| scheme.name() == name)
    }

    /// See [`SchemeModel::name`].
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The model.
    pub const fn model(self) -> &'static dyn SchemeModel {
        self.0
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Scheme {}

impl Hash for Scheme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The order of tables and plots: that of [`Scheme::ALL`], then by name.
impl Ord for Scheme {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |scheme: &Self| {
            Self::ALL.iter().position(|built_in| built_in == scheme).unwrap_or(usize::MAX)
        };
        (place(self), self.name()).cmp(&(place(other), other.name()))
    }
}

impl PartialOrd for Scheme {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
