//! The way of frames between a LAN and a WAN port: through the switch, through the tunnel, or through both.
//!
//! The [`Switch`] recovers packets per queue pair and leaves frames as they are. The [`Tunnel`] numbers all frames
//! of the long haul, whatever they carry. With both, frames from the LAN take the switch and then the tunnel,
//! and frames from the WAN the tunnel and then the switch: it repairs the losses of the LANs ([`LanRepair`]).
//!
//! No IO: [`Ports`] takes frames, and time is an argument.

mod lan;
mod owners;
mod settings;
mod tunnelled;
mod watch;

use arrayvec::ArrayVec;
use common::control::Keys;
use common::frame::{Class, Frame, Headroom, Packet, Pool, Side, Sink};
use common::recorder::Recorder;
use common::time::{Span, Time};
use common::wire::MacAddr;
use switch::{FlowName, IpNet, Switch};
use tunnel::{Plan, Port, Tunnel};

pub use lan::{LanCounts, LanRepair};
pub use owners::Owners;
pub use settings::Settings;
pub use tunnelled::Tunnelled;
pub use watch::Which;

/// A frame on its way to a port.
type Handle<S> = <<S as Sink>::Frame as Frame>::Shared;

/// The ports of a datapath.
pub trait Ports: Sink<Frame: Headroom> {
    /// How long a frame waits until a WAN port sends it; `None` if the port's queue has no room for it. Only frames with
    /// room get a number in the tunnel.
    fn wait(&mut self, port: Port) -> Option<Span>;

    /// Frames for which a WAN port's queue has room.
    fn room(&mut self, port: Port) -> usize;

    /// Sends a frame of the tunnel to a WAN port. Without this method there is one.
    fn wan(&mut self, _: Port, class: Class, packet: Packet<Self::Frame>) {
        self.transmit(Side::Wan, class, packet);
    }

    /// Sends frames of class Data to a WAN port.
    fn wan_all<const N: usize>(&mut self, port: Port, frames: &mut ArrayVec<Handle<Self>, N>) {
        frames.drain(..).for_each(|frame| self.wan(port, Class::Data, Packet::Shared(frame)));
    }

    /// Sends frames of class Data to the LAN port.
    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<Self::Frame, N>) {
        let packets = frames.drain(..).map(Packet::Owned);
        packets.for_each(|packet| self.transmit(Side::Lan, Class::Data, packet));
    }

    /// Takes a frame that arrived at a WAN port for the box itself: ARP, neighbour discovery and ping, with the
    /// encapsulation `udp`.
    fn local(&mut self, port: Port, frame: Self::Frame);
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

    /// Sends repair frames by this plan, and decodes those of the peer: see [`Tunnel::protect_lanes`]. Nothing of a switch.
    pub fn protect_lanes(&mut self, plan: Plan) {
        if let Self::Tunnel(tunnel) = self {
            tunnel.tunnel.protect_lanes(plan);
        }
    }

    /// Takes the frames that arrived at the LAN or a WAN port out of `frames`; at the LAN there is only the first port.
    #[inline]
    pub fn burst<P, S, const N: usize>(
        &mut self,
        (side, port): (Side, Port),
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
            Self::Tunnel(tunnel) => tunnel.at(now, pool, ports).burst((side, port), frames),
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
            Self::Tunnel(tunnel) => tunnel.at(now, pool, ports).timers(budget),
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
            Self::Tunnel(tunnel) => tunnel.at(now, pool, ports).housekeeping(),
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
            Self::Tunnel(tunnel) => tunnel.at(now, pool, ports).drain(),
        }
    }

    /// Reads and writes control messages with other keys from now on.
    pub fn set_keys(&mut self, keys: &Keys) {
        match self {
            Self::Switch(switch) => switch.set_keys(keys),
            Self::Tunnel(tunnel) => tunnel.set_keys(keys),
        }
    }

    /// New flows to other destinations are protected from now on.
    pub fn set_remote_prefixes(&mut self, prefixes: &[IpNet]) {
        match self {
            Self::Switch(switch) => switch.set_remote_prefixes(prefixes),
            Self::Tunnel(tunnel) => tunnel.set_remote_prefixes(prefixes),
        }
    }

    /// Works by other timers and pools from now on; a pool grows by housekeeping, once all others have shrunk.
    pub fn set_settings(&mut self, settings: &Settings, now: Time) {
        match self {
            Self::Switch(switch) => switch.set_settings(&settings.switch),
            Self::Tunnel(tunnel) => tunnel.set_settings(settings, now),
        }
    }

    /// Whether the caller keeps up with its frames no longer: if so, the switch takes on no further flow
    /// ([`Switch::set_overloaded`]).
    pub fn set_overloaded(&mut self, is_overloaded: bool) {
        match self {
            Self::Switch(switch) => switch.set_overloaded(is_overloaded),
            Self::Tunnel(tunnel) => tunnel.set_overloaded(is_overloaded),
        }
    }

    /// Protects a flow, or leaves it to the RNICs, if the switch knows it.
    pub fn set_protection<P, S>(
        &mut self,
        flow: &FlowName,
        is_on: bool,
        now: Time,
        pool: &mut P,
        ports: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        match self {
            Self::Switch(switch) if is_on => _ = switch.protect(flow),
            Self::Switch(switch) => _ = switch.unprotect(flow, now, pool, ports),
            Self::Tunnel(tunnel) => tunnel.at(now, pool, ports).set_protection(flow, is_on),
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

    /// Sets the MAC address of a WAN port's next hop with the encapsulation `udp`; `None`: it is not known.
    pub fn set_next_hop(&mut self, port: Port, mac: Option<MacAddr>) {
        if let Self::Tunnel(tunnel) = self {
            tunnel.set_next_hop(port, mac);
        }
    }

    /// The link of a WAN port is up or down: a tunnel with several leaves those that are down.
    pub fn set_link<P, S>(
        &mut self,
        now: Time,
        port: Port,
        is_up: bool,
        pool: &mut P,
        ports: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Ports<Frame = F>,
    {
        if let Self::Tunnel(tunnel) = self {
            tunnel.at(now, pool, ports).set_link(port, is_up);
        }
    }

    /// The switch, if there is one.
    pub fn as_switch(&self) -> Option<&Switch<F>> {
        match self {
            Self::Switch(switch) => Some(switch),
            Self::Tunnel(tunnel) => tunnel.lan().map(LanRepair::switch),
        }
    }

    /// The flight recorders of the switch and of the tunnel.
    pub fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        let tunnel = self.as_tunnel().map(|path| path.tunnel().recorder());
        self.as_switch().map(Switch::recorder).into_iter().chain(tunnel)
    }

    /// The way through the tunnel, if there is one.
    pub fn as_tunnel(&self) -> Option<&Tunnelled<F>> {
        match self {
            Self::Switch(_) => None,
            Self::Tunnel(tunnel) => Some(tunnel),
        }
    }
}
