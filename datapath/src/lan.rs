//! Repair of the LANs beside the tunnel.

use common::frame::{Class, Frame, Headroom, Packet, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::glance;
use switch::{Pools, Recovery, Settings, Switch, Tuning};
use tunnel::Tunnel;

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
    to_wan: Vec<Packet<F>>,
}

/// The sink of the switch: LAN packets go to the port, WAN packets to the tunnel.
pub(crate) struct Split<'a, S: Sink> {
    ports: &'a mut S,
    to_wan: &'a mut Vec<Packet<S::Frame>>,
}

impl<S: Sink> Sink for Split<'_, S> {
    type Frame = S::Frame;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<S::Frame>) {
        match side {
            Side::Lan => self.ports.transmit(side, class, packet),
            Side::Wan => self.to_wan.push(packet),
        }
    }
}

impl<F: Headroom> LanRepair<F> {
    /// A switch of that configuration for some packets, beside `tunnel`.
    pub fn new(config: switch::Config, which: Which, tunnel: &tunnel::Config) -> Self {
        let Settings { recovery, tuning, .. } = lan_repair(&config.settings(), which, tunnel);
        let config = switch::Config { recovery, tuning, resend_cache_frames: 0, ..config };
        let watch = Watch::new(which, config.control_opcode);
        let (counts, to_wan) = (LanCounts::default(), Vec::with_capacity(8 * BURST));
        Self { switch: Switch::new(config), watch, counts, to_wan }
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

    /// Whether it is a short packet of hosts that are watched: one that the tunnel carries on any path.
    #[inline]
    pub(crate) fn watches(&self, frame: &[u8]) -> bool {
        frame.len() <= SHORT && self.watch.is_watched(frame)
    }

    /// The way of a frame that came from `side`.
    #[inline]
    pub(crate) fn way(&mut self, side: Side, frame: &[u8], now: Time) -> Way {
        let way = self.watch.way(side, frame, now);
        match way {
            Way::Repair => self.counts.repaired[side.index()] += 1,
            Way::Direct => self.counts.direct[side.index()] += 1,
            Way::Drop => self.counts.stale_messages += 1,
        }
        way
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
        if self.watch.clear(now) {
            let (switch, mut split) = self.parts(ports);
            switch.forget_all(now, pool, &mut split);
            // It would begin to look at the packets that they are about.
            let before = self.to_wan.len();
            self.to_wan.retain(|packet| !is_message(packet.bytes()));
            self.counts.unsent_messages += (before - self.to_wan.len()) as u64;
        }
    }

    /// Takes the frames that the switch has for the tunnel.
    pub(crate) fn take_for_tunnel<P>(&mut self, pool: &mut P, mut each: impl FnMut(F, &mut P))
    where
        P: Pool<Frame = F>,
    {
        for packet in self.to_wan.drain(..) {
            match owned(packet, pool) {
                Some(frame) => each(frame, pool),
                None => self.counts.no_memory += 1,
            }
        }
    }
}

fn is_message(frame: &[u8]) -> bool {
    glance(frame).is_some_and(|seen| seen.is_message)
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
