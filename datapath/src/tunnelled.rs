//! The way through the tunnel.

use arrayvec::ArrayVec;
use common::control::Keys;
use common::frame::{Class, Headroom, Packet, Pool, Side};
use common::time::{Span, Time};
use common::wire::{MacAddr, Meta};
use switch::{FlowName, IpNet};
use tunnel::{Flow, Io, Port, Tunnel};

use crate::lan::{BURST, LanRepair, take_roce};
use crate::{Ports, Settings};

/// A tunnel, with or without repair of the LANs in front of it.
pub struct Tunnelled<F: Headroom> {
    pub(crate) tunnel: Tunnel<F>,
    pub(crate) lan: Option<LanRepair<F>>,
    /// New settings whose pools are to grow once the others have shrunk.
    pub(crate) growing: Option<Settings>,
    leaving: Leaving,
}

/// Whether this box leaves its peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// It does not.
    No,
    /// The switch has messages left for its peer, which the tunnel carries.
    Switch,
    /// It has said BYE: no HELLO follows.
    Left,
}

/// Ports and pool, as the tunnel uses them.
struct TunnelIo<'a, F: Headroom, P, S> {
    pool: &'a mut P,
    ports: &'a mut S,
    /// The repair of the LAN that frames of the tunnel go to, and the time.
    lan: Option<(&'a mut LanRepair<F>, Time)>,
}

impl<F, P, S> Io for TunnelIo<'_, F, P, S>
where
    F: Headroom,
    P: Pool<Frame = F>,
    S: Ports<Frame = F>,
{
    type Frame = F;

    #[inline]
    fn wait(&mut self, port: Port) -> Option<Span> {
        self.ports.wait(port)
    }

    #[inline]
    fn room(&mut self, port: Port) -> usize {
        self.ports.room(port)
    }

    #[inline]
    fn wan(&mut self, port: Port, class: Class, packet: Packet<F>) {
        self.ports.wan(port, class, packet);
    }

    #[inline]
    fn wan_all<const N: usize>(&mut self, port: Port, frames: &mut ArrayVec<F::Shared, N>) {
        self.ports.wan_all(port, frames);
    }

    #[inline(always)]
    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<F, N>, may_be_notable: bool) {
        match &mut self.lan {
            Some((lan, now)) if may_be_notable || !lan.is_asleep() => {
                lan.deliver(*now, frames, self.ports);
            }
            Some((lan, _)) => {
                lan.count_delivered(frames.len());
                self.ports.lan_all(frames);
            }
            None => self.ports.lan_all(frames),
        }
    }

    fn local(&mut self, port: Port, frame: F) {
        self.ports.local(port, frame);
    }

    fn alloc(&mut self, len: usize) -> Option<F> {
        self.pool.alloc(len)
    }
}

impl<F: Headroom> Tunnelled<F> {
    /// Frames take `lan` before `tunnel`, if there is one, and after it on the way back.
    pub fn new(tunnel: Tunnel<F>, lan: Option<LanRepair<F>>) -> Self {
        Self { tunnel, lan, growing: None, leaving: Leaving::No }
    }

    /// The tunnel.
    pub const fn tunnel(&self) -> &Tunnel<F> {
        &self.tunnel
    }

    /// The repair of the LANs.
    pub const fn lan(&self) -> Option<&LanRepair<F>> {
        self.lan.as_ref()
    }

    /// Whether all frames are accounted for: those of the tunnel and of the switch, and those between them.
    pub fn is_balanced(&self) -> bool {
        let is_lan_balanced = self.lan.as_ref().is_none_or(|lan| lan.is_balanced(&self.tunnel));
        self.tunnel.is_balanced() && is_lan_balanced
    }

    pub(crate) fn set_next_hop(&mut self, port: Port, mac: Option<MacAddr>) {
        self.tunnel.set_next_hop(port, mac);
    }

    pub(crate) fn set_keys(&mut self, keys: &Keys) {
        self.tunnel.set_keys(keys);
        if let Some(lan) = &mut self.lan {
            lan.switch_mut().set_keys(keys);
        }
    }

    pub(crate) fn set_remote_prefixes(&mut self, prefixes: &[IpNet]) {
        if let Some(lan) = &mut self.lan {
            lan.switch_mut().set_remote_prefixes(prefixes);
        }
    }

    pub(crate) fn next_deadline(&self) -> Time {
        let tunnel = match self.leaving {
            Leaving::Left => Time::NEVER,
            Leaving::No | Leaving::Switch => self.tunnel.due(),
        };
        tunnel.min(self.lan.as_ref().map_or(Time::NEVER, |lan| lan.switch().next_deadline()))
    }

    pub(crate) fn held(&self) -> u64 {
        self.tunnel.waiting() as u64 + self.lan.as_ref().map_or(0, |lan| lan.switch().held())
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving == Leaving::Switch
    }

    /// All that may be done to frames at the time `now`.
    #[inline]
    pub(crate) fn at<'a, P, S>(
        &'a mut self,
        now: Time,
        pool: &'a mut P,
        ports: &'a mut S,
    ) -> Call<'a, F, P, S> {
        Call { path: self, now, pool, ports }
    }
}

/// A datapath, its pool and its ports, for the time of one call.
pub(crate) struct Call<'a, F: Headroom, P, S> {
    path: &'a mut Tunnelled<F>,
    now: Time,
    pool: &'a mut P,
    ports: &'a mut S,
}

impl<F, P, S> Call<'_, F, P, S>
where
    F: Headroom,
    P: Pool<Frame = F>,
    S: Ports<Frame = F>,
{
    pub fn set_link(mut self, port: Port, is_up: bool) {
        let now = self.now;
        self.work(|tunnel, io| tunnel.set_link(now, port, is_up, io));
    }

    #[inline]
    pub fn burst<const N: usize>(
        mut self,
        (side, port): (Side, Port),
        frames: &mut ArrayVec<F, N>,
    ) {
        if self.path.lan.is_some() {
            return match side {
                Side::Lan => self.repair_and_send(frames),
                Side::Wan => self.receive_and_repair(port, frames),
            };
        }
        let Self { path, now, pool, ports } = self;
        let mut io = TunnelIo { pool, ports, lan: None };
        match side {
            Side::Lan => path.tunnel.on_lan_burst(now, frames, &mut io),
            Side::Wan => path.tunnel.on_wan_burst(now, port, frames, &mut io),
        }
    }

    pub fn timers(mut self, budget: usize) {
        let now = self.now;
        if self.path.leaving != Leaving::Left && now >= self.path.tunnel.due() {
            self.work(|tunnel, io| tunnel.on_timer(now, io));
        }
        if let Some(lan) = &mut self.path.lan {
            let (switch, mut split) = lan.parts(self.ports);
            switch.timers(now, budget, self.pool, &mut split);
            self.send();
        }
        self.leave();
    }

    pub fn housekeeping(mut self) {
        let now = self.now;
        if let Some(lan) = &mut self.path.lan {
            let (switch, mut split) = lan.parts(self.ports);
            switch.housekeeping(now, self.pool, &mut split);
            lan.age(now);
            self.send();
        }
        self.path.grow_pools(now);
    }

    pub fn set_protection(mut self, flow: &FlowName, is_on: bool) {
        let Some(lan) = &mut self.path.lan else { return };
        let (switch, mut split) = lan.parts(self.ports);
        if is_on {
            switch.protect(flow);
        } else {
            switch.unprotect(flow, self.now, self.pool, &mut split);
        }
        self.send();
    }

    pub fn drain(mut self) {
        if let Some(lan) = &mut self.path.lan {
            let (switch, mut split) = lan.parts(self.ports);
            switch.drain(self.now, self.pool, &mut split);
            self.send();
        }
        self.path.leaving = Leaving::Switch;
        self.leave();
    }

    /// Frames from the LAN, where there is a switch: those that it does not take go to the tunnel as a burst.
    fn repair_and_send<const N: usize>(&mut self, frames: &mut ArrayVec<F, N>) {
        let Self { path, now, pool, ports } = self;
        let Tunnelled { tunnel, lan: Some(lan), .. } = &mut **path else { return };
        let mut io = TunnelIo { pool: *pool, ports: *ports, lan: None };
        let (count, mut repaired) = (frames.len(), ArrayVec::new());
        if lan.takes_all() {
            take_roce(frames, |frame| repaired.push(frame));
        }
        if !frames.is_empty() {
            let pick = lan.pick(*now);
            tunnel.on_some_of_lan_burst(*now, frames, pick, &mut repaired, &mut io);
        }
        lan.count_sent(count - repaired.len(), repaired.len());
        if !repaired.is_empty() {
            let (switch, mut split) = lan.parts(*ports);
            switch.burst(Side::Lan, &mut repaired, *now, *pool, &mut split);
            self.send();
        }
    }

    /// Takes the switch's frames for the WAN through the tunnel. The switch of the other box needs the packets of a queue pair in
    /// order, so an ACK overtakes no packet either. R-TUN-24
    fn send(&mut self) {
        let Self { path, now, pool, ports } = self;
        let Tunnelled { tunnel, lan: Some(lan), .. } = &mut **path else { return };
        let (mut burst, mut others) = (ArrayVec::<F, BURST>::new(), ArrayVec::new());
        while lan.take_for_tunnel(*pool, &mut burst) {
            let strict = |meta: Meta, _: &[u8]| Some(Flow::from(meta).strict());
            let mut io = TunnelIo { pool: *pool, ports: *ports, lan: None };
            tunnel.on_some_of_lan_burst(*now, &mut burst, strict, &mut others, &mut io);
        }
    }

    /// Lets the tunnel do something, and takes the frames that it delivers through the switch.
    fn work(&mut self, act: impl FnOnce(&mut Tunnel<F>, &mut TunnelIo<'_, F, P, S>)) {
        let Self { path, now, pool, ports } = self;
        let Tunnelled { tunnel, lan, .. } = &mut **path;
        let Some(lan) = lan else {
            return act(tunnel, &mut TunnelIo { pool: *pool, ports: *ports, lan: None });
        };
        let changes = tunnel.counts().changes;
        act(tunnel, &mut TunnelIo { pool: *pool, ports: *ports, lan: Some((lan, *now)) });
        let is_new = tunnel.counts().changes != changes;
        self.repair_delivered(is_new);
    }

    /// Frames from the WAN, where there is a switch.
    fn receive_and_repair<const N: usize>(&mut self, port: Port, frames: &mut ArrayVec<F, N>) {
        let Self { path, now, pool, ports } = self;
        let Tunnelled { tunnel, lan: Some(lan), .. } = &mut **path else { return };
        // A packet without a shim: the peer has no session, and this box has not heard of it yet.
        let is_unexpected = lan.watches_any(frames) && tunnel.peer(*now).is_some();
        let (changes, plain) = (tunnel.counts().changes, tunnel.counts().plain_to_lan);
        let mut io = TunnelIo { pool: *pool, ports: *ports, lan: Some((lan, *now)) };
        tunnel.on_wan_burst(*now, port, frames, &mut io);
        let counts = tunnel.counts();
        let is_new = counts.changes != changes || is_unexpected && counts.plain_to_lan != plain;
        self.repair_delivered(is_new);
    }

    /// Takes the frames that the tunnel has delivered through the switch. A new peer looks at no packets yet.
    #[inline]
    fn repair_delivered(&mut self, is_new: bool) {
        let Self { path, now, pool, ports } = self;
        let Some(lan) = &mut path.lan else { return };
        if is_new {
            lan.begin_anew(*now, *pool, *ports);
        }
        if lan.has_work() {
            lan.repair_delivered(*now, *pool, *ports);
            self.send();
        }
    }

    /// Leaves the session, once the switch has said all.
    fn leave(&mut self) {
        let (path, now) = (&mut self.path, self.now);
        let is_switch_done = path.lan.as_ref().is_none_or(|lan| !lan.switch().is_leaving());
        if path.leaving == Leaving::Switch && is_switch_done {
            path.leaving = Leaving::Left;
            self.work(|tunnel, io| tunnel.close(now, io));
        }
    }
}
