//! Repair of the LANs beside the tunnel.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Headroom, Packet, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Meta, is_roce};
use switch::{Pools, Recovery, Settings, Switch, Tuning};
use tunnel::{Flow, Tunnel};

use crate::Ports;
use crate::watch::{Watch, Way, Which};

/// A frame of so many bytes fits every path with the tunnel's headers.
const SHORT: usize = 480;
/// Frames that the switch takes at a time.
pub(crate) const BURST: usize = 32;

/// The settings of a switch that repairs the LANs. The tunnel resends the frames that the long haul loses, so
/// the Sentry keeps no copies. A switch that begins to look at packets within a session may see responses to
/// earlier ones for as long as the tunnel may resend them.
fn lan_repair(settings: &Settings, which: Which, tunnel: &tunnel::Config) -> Settings {
    let resent_for = tunnel.session.peer_timeout + tunnel.receiver.give_up * 2;
    let longest_trip = match which {
        Which::All => settings.tuning.longest_trip,
        Which::AfterNak => Some(resent_for),
    };
    let tuning = Tuning { longest_trip, ..settings.tuning };
    let pools = Pools { resend_cache: 0, ..settings.pools };
    Settings { recovery: Recovery::Lr2, tuning, pools, ..*settings }
}

/// Counts of the LAN repair, in frames. Those by port are by [`Side::index`] of the port that the frames came from;
/// those from the WAN port came through the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LanCounts {
    /// That entered the switch.
    pub repaired: [u64; 2],
    /// That passed it: from the LAN port to the tunnel, from the tunnel to the LAN port.
    pub direct: [u64; 2],
    /// Control messages of the peer dropped: they are about packets that this box no longer looks at.
    pub stale_messages: u64,
    /// Control messages of the switch dropped, as the peer has begun anew.
    pub unsent_messages: u64,
    /// Frames dropped between switch and tunnel, as there was no memory for a copy.
    pub no_memory: u64,
}

/// The Sentry and Depot pipelines in front of a tunnel: they ask the source for packets that its LAN has lost, resend
/// those that the destination's LAN has lost, and filter needless repeats.
pub struct LanRepair<F: Headroom> {
    switch: Switch<F>,
    watch: Watch,
    counts: LanCounts,
    /// Frames of the switch for the tunnel.
    to_wan: VecDeque<Packet<F>>,
    /// Frames of the tunnel for the switch.
    delivered: Vec<F>,
}

/// The sink of the switch: LAN packets go to the port, WAN packets to the tunnel.
pub(crate) struct Split<'a, S: Sink> {
    ports: &'a mut S,
    to_wan: &'a mut VecDeque<Packet<S::Frame>>,
}

impl<S: Sink> Sink for Split<'_, S> {
    type Frame = S::Frame;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<S::Frame>) {
        match side {
            Side::Lan => self.ports.transmit(side, class, packet),
            Side::Wan => self.to_wan.push_back(packet),
        }
    }
}

impl<F: Headroom> LanRepair<F> {
    /// A switch of that configuration for some packets, beside `tunnel`.
    pub fn new(config: switch::Config, which: Which, tunnel: &tunnel::Config) -> Self {
        let Settings { recovery, tuning, .. } = lan_repair(&config.settings(), which, tunnel);
        let config = switch::Config { recovery, tuning, resend_cache_frames: 0, ..config };
        let watch = Watch::new(which, config.control_opcode);
        let (to_wan, delivered) =
            (VecDeque::with_capacity(8 * BURST), Vec::with_capacity(8 * BURST));
        let counts = LanCounts::default();
        Self { switch: Switch::new(config), watch, counts, to_wan, delivered }
    }

    /// The switch.
    pub const fn switch(&self) -> &Switch<F> {
        &self.switch
    }

    /// Works by other settings, beside a `tunnel` that works by its own.
    pub(crate) fn set_settings(&mut self, settings: &Settings, tunnel: &tunnel::Config) {
        self.switch.set_settings(&lan_repair(settings, self.watch.which(), tunnel));
    }

    pub(crate) const fn switch_mut(&mut self) -> &mut Switch<F> {
        &mut self.switch
    }

    /// Counters since the start.
    pub const fn counts(&self) -> &LanCounts {
        &self.counts
    }

    /// Whether all frames are accounted for: those of the switch, those between it and `tunnel`, and those that
    /// passed it.
    pub(crate) fn is_balanced(&self, tunnel: &Tunnel<F>) -> bool {
        let Self { switch, counts, to_wan, .. } = self;
        let counters = switch.counters();
        let [from_lan, from_wan] = [Metric::ReceivedLan, Metric::ReceivedWan];
        let [to_tunnel, to_lan] = counts.direct;
        let lost = counts.no_memory + counts.unsent_messages + to_wan.len() as u64;
        counters.entered() == counters.left() + switch.held()
            && [from_lan, from_wan].map(|side| counters.get(side)) == counts.repaired
            && counters.get(Metric::TransmittedWan) + to_tunnel == tunnel.counts().from_lan + lost
            && tunnel.to_lan() == counts.repaired[1] + to_lan + counts.stale_messages
    }

    /// Pairs of hosts whose packets it sees; `None` if it sees all.
    pub fn pairs(&self) -> Option<u64> {
        self.watch.pairs()
    }

    /// Whether one of these frames of a WAN port is a short packet, without a shim, of hosts that are watched: one that the tunnel
    /// carries on any path.
    #[inline]
    pub(crate) fn watches_any(&self, frames: &[F]) -> bool {
        let is_one = |bytes: &[u8]| bytes.len() <= SHORT && self.watch.is_watched(bytes);
        self.watch.pairs().is_some_and(|pairs| pairs > 0)
            && frames.iter().any(|frame| is_one(frame.bytes()))
    }

    /// Whether all RoCE goes through the switch. R-TUN-27
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        self.watch.which() == Which::All
    }

    /// Says which frames from the LAN go to the tunnel, and their order there. The others are for the switch: it drops messages of
    /// hosts.
    #[inline(always)]
    pub(crate) fn pick(&mut self, now: Time) -> impl FnMut(Meta, &[u8]) -> Option<Flow> {
        let mut is_asleep = self.watch.is_asleep();
        move |meta, frame| {
            if is_asleep && !meta.sort.is_notable() {
                return Some(meta.into());
            }
            let is_direct = self.is_direct(frame, now);
            is_asleep = self.watch.is_asleep();
            is_direct.then(|| meta.into())
        }
    }

    // With `Meta` as an argument all of it would go to the stack, for each frame.
    #[inline(never)]
    fn is_direct(&mut self, frame: &[u8], now: Time) -> bool {
        self.watch.way(Side::Lan, frame, now) == Way::Direct
    }

    /// Counts frames from the LAN.
    #[inline]
    pub(crate) fn count_sent(&mut self, direct: usize, repaired: usize) {
        self.counts.direct[Side::Lan.index()] += direct as u64;
        self.counts.repaired[Side::Lan.index()] += repaired as u64;
    }

    /// Whether all frames pass the switch, but for [notable](common::wire::Sort::is_notable) ones.
    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.watch.is_asleep()
    }

    /// Counts frames of the tunnel that go to the LAN.
    #[inline]
    pub(crate) fn count_delivered(&mut self, direct: usize) {
        self.counts.direct[Side::Wan.index()] += direct as u64;
    }

    /// Takes frames of the tunnel that are for the LAN: those that the switch does not take go to the port.
    #[inline(never)]
    pub(crate) fn deliver<S, const N: usize>(
        &mut self,
        now: Time,
        frames: &mut ArrayVec<F, N>,
        ports: &mut S,
    ) where
        S: Ports<Frame = F>,
    {
        if self.takes_all() {
            take_roce(frames, |frame| self.delivered.push(frame));
        }
        let mut direct = ArrayVec::<F, N>::new();
        for frame in frames.drain(..) {
            match self.watch.way(Side::Wan, frame.bytes(), now) {
                Way::Direct => direct.push(frame),
                Way::Repair => self.delivered.push(frame),
                Way::Drop => self.counts.stale_messages += 1,
            }
        }
        self.count_delivered(direct.len());
        if !direct.is_empty() {
            ports.lan_all(&mut direct);
        }
    }

    /// Whether frames wait between tunnel and switch.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.delivered.is_empty() || !self.to_wan.is_empty()
    }

    /// Takes the frames that the tunnel has delivered through the switch.
    pub(crate) fn repair_delivered<P, S>(&mut self, now: Time, pool: &mut P, ports: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Self { switch, delivered, to_wan, counts, .. } = self;
        counts.repaired[Side::Wan.index()] += delivered.len() as u64;
        let (mut frames, mut split) = (delivered.drain(..), Split { ports, to_wan });
        loop {
            let mut burst: ArrayVec<F, BURST> = frames.by_ref().take(BURST).collect();
            if burst.is_empty() {
                return;
            }
            switch.burst(Side::Wan, &mut burst, now, pool, &mut split);
        }
    }

    /// The switch, and the ports as it sees them.
    #[inline]
    pub(crate) fn parts<'a, S>(&'a mut self, ports: &'a mut S) -> (&'a mut Switch<F>, Split<'a, S>)
    where
        S: Sink<Frame = F>,
    {
        (&mut self.switch, Split { ports, to_wan: &mut self.to_wan })
    }

    /// Leaves pairs of hosts without a recent NAK, once the switch has forgotten their flows.
    pub(crate) fn age(&mut self, now: Time) {
        if self.switch.is_forgetting() {
            return;
        }
        self.watch.leave(now);
        if let Some(is_one) = self.watch.age(now) {
            self.switch.forget(is_one);
        }
    }

    /// The peer has begun anew, and looks at no packets: all pairs are left. Its Sentry would tell nothing of the
    /// next use of a queue pair number.
    pub(crate) fn begin_anew<P, S>(&mut self, now: Time, pool: &mut P, ports: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if !self.watch.clear(now) {
            return;
        }
        let (switch, mut split) = self.parts(ports);
        switch.forget_all(now, pool, &mut split);
        // The peer would begin to look at the packets that they are about.
        let before = self.to_wan.len();
        self.to_wan.retain(|packet| !self.watch.is_message(packet.bytes()));
        self.counts.unsent_messages += (before - self.to_wan.len()) as u64;
        // Packets of pairs that were watched.
        for frame in self.delivered.drain(..) {
            if self.watch.is_message(frame.bytes()) {
                self.counts.stale_messages += 1;
                continue;
            }
            self.counts.direct[Side::Wan.index()] += 1;
            ports.transmit(Side::Lan, Class::Data, Packet::Owned(frame));
        }
    }

    /// Fills a burst with frames that the switch has for the tunnel. Returns whether there are any.
    pub(crate) fn take_for_tunnel<P, const N: usize>(
        &mut self,
        pool: &mut P,
        burst: &mut ArrayVec<F, N>,
    ) -> bool
    where
        P: Pool<Frame = F>,
    {
        while !burst.is_full()
            && let Some(packet) = self.to_wan.pop_front()
        {
            match owned(packet, pool) {
                Some(frame) => burst.push(frame),
                None => self.counts.no_memory += 1,
            }
        }
        !burst.is_empty()
    }
}

/// Takes RoCE out of a burst.
pub(crate) fn take_roce<F: Frame, const N: usize>(
    frames: &mut ArrayVec<F, N>,
    mut to: impl FnMut(F),
) {
    let mut others = ArrayVec::<F, N>::new();
    for frame in frames.drain(..) {
        if is_roce(frame.bytes()) { to(frame) } else { others.push(frame) }
    }
    if !others.is_empty() {
        *frames = others;
    }
}

/// A frame that a header can be written in front of: a copy, where others have handles on it.
fn owned<F: Frame, P: Pool<Frame = F>>(packet: Packet<F>, pool: &mut P) -> Option<F> {
    match packet {
        Packet::Owned(frame) => Some(frame),
        Packet::Shared(_) => {
            let bytes = packet.bytes();
            let mut copy = pool.alloc(bytes.len())?;
            copy.bytes_mut().copy_from_slice(bytes);
            Some(copy)
        }
    }
}
