//! The way of frames between a LAN and a WAN port: through the switch, through the tunnel, or through both.
//!
//! The [`Switch`] recovers packets per queue pair and leaves frames as they are. The [`Tunnel`] numbers all frames
//! of the long haul, whatever they carry. With both, frames from the LAN take the switch and then the tunnel,
//! and frames from the WAN the tunnel and then the switch: it repairs the losses of the LANs ([`LanRepair`]).
//!
//! No IO: [`Ports`] takes frames, and time is an argument.

mod lan;
mod tunnelled;
mod watch;

use arrayvec::ArrayVec;
use common::frame::{Headroom, Pool, Side, Sink};
use common::time::Time;
use common::wire::MacAddr;
use switch::Switch;
use tunnel::Tunnel;

pub use lan::{LanCounts, LanRepair};
pub use tunnelled::Tunnelled;
pub use watch::Which;

/// The ports of a datapath.
pub trait Ports: Sink<Frame: Headroom> {
    /// Whether the WAN port's queue has room for a frame. Only such frames get a number in the tunnel.
    fn admits(&mut self) -> bool;

    /// Takes a frame for the box itself: ARP, neighbour discovery and ping, with the encapsulation `udp`.
    fn local(&mut self, frame: Self::Frame);
}

/// The way of frames from one port to the other.
pub enum Datapath<F: Headroom> {
    /// Packets are recovered per queue pair.
    Switch(Box<Switch<F>>),
    /// Frames are numbered on lanes.
    Tunnel(Box<Tunnelled<F>>),
}

impl<F: Headroom> Datapath<F> {
    /// A switch of that configuration.
    pub fn switch(config: switch::Config) -> Self {
        Self::Switch(Box::new(Switch::new(config)))
    }

    /// An end of a tunnel of that configuration, with repair of the LANs by a switch of `lan` for some packets.
    pub fn tunnel(config: tunnel::Config, lan: Option<(switch::Config, Which)>) -> Self {
        let lan = lan.map(|(switch, which)| LanRepair::new(switch, which, &config));
        Self::Tunnel(Box::new(Tunnelled::new(Tunnel::new(config), lan)))
    }

    /// Takes the frames that arrived at a port out of `frames`.
    #[inline]
    pub fn burst<P, S, const N: usize>(
        &mut self,
        side: Side,
        frames: &mut ArrayVec<F, N>,
        now: Time,
        pool: &mut P,
        ports: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.burst(side, frames, now, pool, ports),
            Self::Tunnel(tunnel) => tunnel.burst(side, frames, now, pool, ports),
        }
    }

    /// When [`timers`](Self::timers) has something to do; [`Time::NEVER`] if nothing is outstanding.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        match self {
            Self::Switch(switch) => switch.next_deadline(),
            Self::Tunnel(tunnel) => tunnel.next_deadline(),
        }
    }

    /// Runs the timers that are due, at most `budget` of a switch.
    pub fn timers<P, S>(&mut self, now: Time, budget: usize, pool: &mut P, ports: &mut S)
    where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.timers(now, budget, pool, ports),
            Self::Tunnel(tunnel) => tunnel.timers(now, budget, pool, ports),
        }
    }

    /// Tasks of every few milliseconds.
    pub fn housekeeping<P, S>(&mut self, now: Time, pool: &mut P, ports: &mut S)
    where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.housekeeping(now, pool, ports),
            Self::Tunnel(tunnel) => tunnel.housekeeping(now, pool, ports),
        }
    }

    /// Delivers held frames, and tells the peer that this box leaves.
    pub fn drain<P, S>(&mut self, now: Time, pool: &mut P, ports: &mut S)
    where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.drain(now, pool, ports),
            Self::Tunnel(tunnel) => tunnel.drain(now, pool, ports),
        }
    }

    /// Frames that are held, besides copies in the tunnel.
    pub fn held(&self) -> u64 {
        match self {
            Self::Switch(switch) => switch.held(),
            Self::Tunnel(tunnel) => tunnel.held(),
        }
    }

    /// Whether the peer is still to be told that this box leaves.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Switch(switch) => switch.is_leaving(),
            Self::Tunnel(tunnel) => tunnel.is_leaving(),
        }
    }

    /// Sets the MAC address of the tunnel's next hop with the encapsulation `udp`; `None`: it is not known.
    pub fn set_next_hop(&mut self, mac: Option<MacAddr>) {
        if let Self::Tunnel(tunnel) = self {
            tunnel.set_next_hop(mac);
        }
    }

    /// The switch, if there is one.
    pub fn as_switch(&self) -> Option<&Switch<F>> {
        match self {
            Self::Switch(switch) => Some(switch),
            Self::Tunnel(tunnel) => tunnel.lan().map(LanRepair::switch),
        }
    }

    /// The way through the tunnel, if there is one.
    pub fn as_tunnel(&self) -> Option<&Tunnelled<F>> {
        match self {
            Self::Switch(_) => None,
            Self::Tunnel(tunnel) => Some(tunnel),
        }
    }
}
