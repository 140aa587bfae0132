//! The nodes of a network: hosts, switches, gateways.

mod cm;
mod egress;
mod gateway;
mod host;
mod middlebox;
mod rnic;

use common::time::Time;

use crate::frame::SimFrame;
use crate::net::{Outbox, Pause, Switch};

pub use cm::{Agent, End};
pub use egress::{Egress, LAN, WAN};
pub use gateway::Gateway;
pub use host::Host;
pub use middlebox::{Middlebox, Wire};
pub use rnic::{Nic, Rnic};

/// A node.
pub enum Node {
    /// An end.
    Host(Box<Host>),
    /// In between.
    Switch(Box<Switch>),
    /// At the long-haul link.
    Gateway(Box<Gateway>),
}

impl Node {
    /// A frame has arrived at `port`.
    pub fn receive(&mut self, port: usize, frame: SimFrame, now: Time, out: &mut Outbox) {
        match self {
            Self::Host(host) => host.receive(&frame, now),
            Self::Switch(switch) => switch.receive(port, frame, now, out),
            Self::Gateway(gateway) => gateway.receive(port, frame, now),
        }
    }

    /// A PFC frame has arrived at `port`.
    pub fn pause(&mut self, port: usize, pause: Pause) {
        match self {
            Self::Host(host) => host.pause(pause),
            Self::Switch(switch) => switch.pause(port, pause),
            Self::Gateway(gateway) => gateway.pause(port, pause),
        }
    }

    /// Runs due timers, and sends ready frames.
    pub fn serve(&mut self, now: Time, out: &mut Outbox) {
        match self {
            Self::Host(host) => host.serve(now, out),
            Self::Switch(switch) => switch.serve(now, out),
            Self::Gateway(gateway) => gateway.serve(now, out),
        }
    }

    /// When [`serve`](Self::serve) has something to do again.
    pub fn next(&self) -> Time {
        match self {
            Self::Host(host) => host.next(),
            Self::Switch(switch) => switch.next(),
            Self::Gateway(gateway) => gateway.next(),
        }
    }
}
