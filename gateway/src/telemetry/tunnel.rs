//! The counters of an end of a tunnel.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use common::frame::Headroom;
use common::histogram::{Timing, Timings};
use common::time::{Span, Time};
use crossbeam_utils::CachePadded;
use datapath::{LanCounts, Tunnelled};
use tunnel::session::{End, Refusal};
use tunnel::{Dropped, LaneState, PathState, Port, Received, Sent, Tunnel};

use super::path::PublishedPath;
use super::{Desc, MetricKind, PublishedLane};

counters! {
    /// A counter of the tunnel.
    TunnelIo
    Counter "lr2_tunnel_received_frames_total"
        "Frames that the tunnel took: from the LAN port or the switch that repairs the LANs, and from the WAN port." {
        FromLan ["port" = "lan"], FromWan ["port" = "wan"]
    }
    Counter "lr2_tunnel_plain_frames_total"
        "Frames that crossed without a number, by the port that they left: no session, or too long." {
        PlainToLan ["port" = "lan"], PlainToWan ["port" = "wan"]
    }
    Counter "lr2_tunnel_unsequenced_frames_total"
        "Frames of a session that is over, delivered as they came." { Unsequenced }
    Counter "lr2_tunnel_too_long_frames_total"
        "Frames that do not fit into the MTU of the WAN or its paths with the tunnel's headers." { TooLong }
    Counter "lr2_tunnel_dropped_frames_total" "Frames that the tunnel dropped, by reason." {
        DropNotForward ["reason" = "not_forwardable"], DropQueue ["reason" = "queue_full"],
        DropReserved ["reason" = "reserved_ethertype"], DropHeadroom ["reason" = "headroom"],
        DropNoNextHop ["reason" = "no_next_hop"], DropSource ["reason" = "source"],
        DropFragment ["reason" = "fragment"], DropLength ["reason" = "length"],
        DropChecksum ["reason" = "checksum"], DropVersion ["reason" = "version"], DropShim ["reason" = "shim"],
        DropInner ["reason" = "inner"], DropSession ["reason" = "session"],
        DropMark ["reason" = "mark"], DropNoSession ["reason" = "no_session"],
        DropTooLong ["reason" = "too_long"], DropDuplicate ["reason" = "duplicate"],
        DropOutside ["reason" = "outside_window"], DropStale ["reason" = "stale_lan_message"],
        DropUnsent ["reason" = "unsent_lan_message"],
        DropNoMemory ["reason" = "no_memory"]
    }
    Counter "lr2_tunnel_local_frames_total"
        "Frames from the WAN for the port itself: ARP, neighbour discovery, ping; and others." { Local }
    Counter "lr2_tunnel_local_missed_frames_total"
        "Of these, dropped: too long, or too many at a time." { StationMissed }
    Counter "lr2_tunnel_messages_total" "Control messages of the tunnel, by kind." {
        Accepted ["kind" = "accepted"], Probes ["kind" = "probe_sent"], Reports ["kind" = "report_sent"]
    }
    Counter "lr2_tunnel_refused_messages_total"
        "Control messages of the tunnel that were dropped, by reason." {
        RefusedTruncated ["reason" = "truncated"], RefusedVersion ["reason" = "version"],
        RefusedTag ["reason" = "bad_tag"], RefusedInvalid ["reason" = "invalid"],
        RefusedOwnNode ["reason" = "own_node"], RefusedOtherPeer ["reason" = "other_peer"],
        RefusedReplayed ["reason" = "replayed"], RefusedOldBoot ["reason" = "old_boot"],
        RefusedOtherSession ["reason" = "other_session"], RefusedLanes ["reason" = "lanes"],
        RefusedTunnels ["reason" = "tunnels"]
    }
    Counter "lr2_tunnel_session_changes_total" "Sessions that began or ended." { Changes }
    Gauge "lr2_tunnel_up"
        "Whether there is a session with the peer; with several tunnels, in each of them." { Up }
    Gauge "lr2_tunnel_peer_heard" "Whether another box with the key is heard." { PeerHeard }
    Gauge "lr2_tunnel_peer_frame_bytes"
        "Bytes of the longest frame of the peer's WAN port; 0 while it is not heard." { PeerFrame }
    Counter "lr2_tunnel_lan_repair_frames_total"
        "Frames by their way, where LANs are repaired: into the switch that repairs them, or past it." {
        LanToSwitch ["way" = "lan_to_switch"], LanToTunnel ["way" = "lan_to_tunnel"],
        WanToSwitch ["way" = "tunnel_to_switch"], WanToLan ["way" = "tunnel_to_lan"]
    }
    Gauge "lr2_tunnel_lan_repair_host_pairs"
        "Pairs of hosts whose packets the repair of the LANs looks at; 0 with recovery.lan = \"on\", as it looks at all." { LanPairs }
    Gauge "lr2_tunnel_kept_frames" "Copies of frames that the peer has not reported." { Kept }
    Gauge "lr2_tunnel_held_frames" "Frames that wait for an earlier one of their flow." { Held }
}

/// How many there are.
const TUNNEL: usize = TunnelIo::TABLE.len();

/// Age of a refusal that is over: the peer's messages are refused no more, or none come.
const RECENT: Span = Span::from_millis(5_000);

/// The ends of sessions, by their published number, from 1 on.
const ENDS: [End; 4] = [End::Silence, End::PeerRestarted, End::Bye, End::Closed];

/// The values of all of them, and the state of the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelCounters {
    values: [u64; TUNNEL],
    /// Why the newest control message was refused, if it was, within the last five seconds.
    pub last_refusal: Option<Refusal>,
    /// How the last session ended, if one did.
    pub last_end: Option<End>,
    /// The WAN ports that frames take, a bit for each.
    used: u8,
    /// The lanes that new frames avoid, since REPORTs of them were overdue: a bit for each.
    silent: [u128; 2],
    /// The paths of the WAN ports.
    paths: [PathState; Port::COUNT_MAX as usize],
}

impl TunnelCounters {
    /// Those of `path` at `now`, and the frames that its ports' stations were too slow for.
    pub fn of<F: Headroom>(path: &Tunnelled<F>, now: Time, station_missed: u64) -> Self {
        let tunnel = path.tunnel();
        let (sent, received) = (tunnel.sent(), tunnel.received());
        let mut values = [0; TUNNEL];
        for (what, _) in TunnelIo::TABLE {
            values[*what as usize] = value(tunnel, &sent, &received, *what);
        }
        values[TunnelIo::StationMissed as usize] = station_missed;
        if let Some(lan) = path.lan() {
            let LanCounts { repaired, direct, stale_messages, unsent_messages, no_memory } =
                *lan.counts();
            for (what, value) in [
                (TunnelIo::LanToSwitch, repaired[0]),
                (TunnelIo::WanToSwitch, repaired[1]),
                (TunnelIo::LanToTunnel, direct[0]),
                (TunnelIo::WanToLan, direct[1]),
                (TunnelIo::DropUnsent, unsent_messages),
                (TunnelIo::LanPairs, lan.pairs().unwrap_or(0)),
                (TunnelIo::DropStale, stale_messages),
                (TunnelIo::DropNoMemory, no_memory),
            ] {
                values[what as usize] = value;
            }
        }
        let ports = Port::all(Port::COUNT_MAX).filter(|port| tunnel.is_used(*port));
        let used = ports.fold(0, |used, port| used | 1 << port.get());
        // A box without a session sends HELLOs at least every half second.
        let refusal = tunnel.session().last_refusal();
        let last_refusal = refusal.filter(|(_, at)| now.since(*at) < RECENT).map(|(why, _)| why);
        let mut paths = [PathState::default(); _];
        let ports = Port::all(tunnel.config().session.ports);
        paths.iter_mut().zip(ports).for_each(|(path, port)| *path = tunnel.path(port));
        Self { values, last_refusal, last_end: tunnel.last_end(), used, silent: [0; 2], paths }
    }

    /// Times of the same.
    pub fn timings<F: Headroom>(tunnel: &Tunnel<F>) -> Timings {
        let (sent, received) = (tunnel.sent(), tunnel.received());
        let mut timings = Timings::default();
        *timings.get_mut(Timing::Recovery) = received.recovery;
        *timings.get_mut(Timing::Hold) = received.hold;
        *timings.get_mut(Timing::RoundTrip) = sent.round_trips;
        timings
    }

    /// Adds those of another tunnel. Of a gauge that says how the peer or the path is, the lower value remains, and a
    /// port is used if both use it.
    pub fn join(&mut self, other: &Self) {
        for (what, _) in TunnelIo::TABLE {
            let (sum, n) = (&mut self.values[*what as usize], other.get(*what));
            *sum = match what {
                TunnelIo::Up | TunnelIo::PeerHeard | TunnelIo::PeerFrame => n.min(*sum),
                _ => *sum + n,
            };
        }
        self.last_refusal = self.last_refusal.or(other.last_refusal);
        self.last_end = self.last_end.or(other.last_end);
        self.used &= other.used;
        self.silent.iter_mut().zip(other.silent).for_each(|(all, of)| *all |= of);
        self.paths.iter_mut().zip(&other.paths).for_each(|(all, of)| super::path::join(all, of));
    }

    /// The lanes that new frames avoid, since REPORTs of them were overdue.
    pub fn silent_lanes(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|lane| self.silent[usize::from(lane >> 7)] & 1 << (lane & 0x7f) != 0)
    }

    /// Whether frames take a WAN port.
    pub fn uses(&self, port: Port) -> bool {
        self.used & 1 << port.get() != 0
    }

    /// The path of a WAN port.
    pub fn path(&self, port: Port) -> &PathState {
        &self.paths[usize::from(port.get())]
    }

    /// Bytes of the longest frame that is known to reach the peer, through any port; 0 without a session.
    pub fn longest(&self) -> u16 {
        self.paths.iter().map(|path| path.longest).max().unwrap_or(0)
    }

    /// One of them.
    pub fn get(&self, what: TunnelIo) -> u64 {
        self.values[what as usize]
    }

    /// Sets the path of a WAN port.
    #[cfg(test)]
    pub fn set_path(&mut self, port: Port, path: PathState) {
        self.paths[usize::from(port.get())] = path;
    }

    /// New frames avoid these lanes.
    #[cfg(test)]
    pub fn set_silent(&mut self, lanes: &[u8]) {
        self.silent = bits(lanes.iter().copied());
    }

    /// All WAN ports take frames.
    #[cfg(test)]
    pub fn use_all(&mut self) {
        self.used = u8::MAX;
    }

    /// These WAN ports take frames.
    #[cfg(test)]
    pub fn use_only(&mut self, ports: &[Port]) {
        self.used = ports.iter().fold(0, |used, port| used | 1 << port.get());
    }

    /// Sets one of them.
    #[cfg(test)]
    pub fn set(&mut self, what: TunnelIo, value: u64) {
        self.values[what as usize] = value;
    }
}

/// A bit for each of these lanes.
fn bits(lanes: impl Iterator<Item = u8>) -> [u128; 2] {
    lanes.fold([0; 2], |mut bits, lane| {
        bits[usize::from(lane >> 7)] |= 1 << (lane & 0x7f);
        bits
    })
}

/// The copy of a tunnel's counters that both threads see. Written by one worker.
#[derive(Debug)]
pub struct PublishedTunnel {
    values: CachePadded<[AtomicU64; TUNNEL]>,
    /// One past the position of the newest refusal in `Refusal::ALL`; 0: none.
    refusal: AtomicUsize,
    /// One past the position of the last end in [`ENDS`]; 0: none.
    end: AtomicUsize,
    /// The WAN ports that frames take, a bit for each.
    used: AtomicU8,
    paths: [PublishedPath; Port::COUNT_MAX as usize],
    lanes: Box<[PublishedLane]>,
}

impl PublishedTunnel {
    /// Zeros, for so many lanes.
    pub fn new(lanes: u8) -> Self {
        Self {
            values: CachePadded::new([const { AtomicU64::new(0) }; _]),
            refusal: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            used: AtomicU8::new(0),
            paths: Default::default(),
            lanes: (0..lanes).map(|_| PublishedLane::default()).collect(),
        }
    }

    /// Replaces the copy.
    pub fn store<'a>(&self, counters: &TunnelCounters, lanes: impl Iterator<Item = LaneState<'a>>) {
        for (to, from) in self.values.iter().zip(&counters.values) {
            to.store(*from, Relaxed);
        }
        let refusal = counters.last_refusal.map_or(0, |refusal| refusal.index() + 1);
        self.refusal.store(refusal, Relaxed);
        let end = ENDS.iter().position(|end| Some(*end) == counters.last_end);
        self.end.store(end.map_or(0, |at| at + 1), Relaxed);
        self.used.store(counters.used, Relaxed);
        self.paths.iter().zip(&counters.paths).for_each(|(to, path)| to.store(path));
        self.lanes.iter().zip(lanes).for_each(|(to, lane)| to.store(&lane));
    }

    /// The counters.
    pub fn counters(&self) -> TunnelCounters {
        let lanes = (0..=u8::MAX).zip(&self.lanes);
        let silent = bits(lanes.filter(|(_, lane)| lane.is_silent()).map(|(lane, _)| lane));
        let [refusal, end] = [&self.refusal, &self.end].map(|at| at.load(Relaxed).checked_sub(1));
        TunnelCounters {
            values: self.values.each_ref().map(|n| n.load(Relaxed)),
            last_refusal: refusal.and_then(|at| Refusal::ALL.get(at).copied()),
            last_end: end.and_then(|at| ENDS.get(at).copied()),
            used: self.used.load(Relaxed),
            silent,
            paths: self.paths.each_ref().map(PublishedPath::load),
        }
    }

    /// One of them.
    pub fn get(&self, what: TunnelIo) -> u64 {
        self.values[what as usize].load(Relaxed)
    }

    /// The counters of the lanes, from lane 0 on.
    pub fn lanes(&self) -> &[PublishedLane] {
        &self.lanes
    }
}

fn value<F: Headroom>(tunnel: &Tunnel<F>, sent: &Sent, received: &Received, what: TunnelIo) -> u64 {
    let counts = tunnel.counts();
    let peer = tunnel.session().state().peer();
    let dropped = |why| counts.dropped(why);
    let refused = |why| counts.refused(why);
    match what {
        TunnelIo::FromLan => counts.from_lan,
        TunnelIo::FromWan => counts.from_wan,
        TunnelIo::PlainToLan => counts.plain_to_lan,
        TunnelIo::PlainToWan => counts.plain_to_wan,
        TunnelIo::Unsequenced => counts.unsequenced,
        TunnelIo::TooLong => counts.too_long,
        TunnelIo::DropNotForward => dropped(Dropped::NotForward),
        TunnelIo::DropQueue => dropped(Dropped::Queue),
        TunnelIo::DropReserved => dropped(Dropped::Reserved),
        TunnelIo::DropHeadroom => dropped(Dropped::Headroom),
        TunnelIo::DropNoNextHop => dropped(Dropped::NoNextHop),
        TunnelIo::DropSource => dropped(Dropped::Source),
        TunnelIo::DropFragment => dropped(Dropped::Fragment),
        TunnelIo::DropLength => dropped(Dropped::Length),
        TunnelIo::DropChecksum => dropped(Dropped::Checksum),
        TunnelIo::Local => counts.local,
        // The tunnel doesn't know.
        TunnelIo::StationMissed
        | TunnelIo::LanToSwitch
        | TunnelIo::WanToSwitch
        | TunnelIo::LanToTunnel
        | TunnelIo::WanToLan
        | TunnelIo::DropUnsent
        | TunnelIo::LanPairs
        | TunnelIo::DropStale
        | TunnelIo::DropNoMemory => 0,
        TunnelIo::DropVersion => dropped(Dropped::Version),
        TunnelIo::DropInner => dropped(Dropped::Inner),
        TunnelIo::DropShim => dropped(Dropped::Shim),
        TunnelIo::DropSession => dropped(Dropped::Session),
        TunnelIo::DropMark => dropped(Dropped::Mark),
        TunnelIo::DropNoSession => dropped(Dropped::NoSession),
        TunnelIo::DropTooLong => dropped(Dropped::TooLong),
        TunnelIo::DropDuplicate => received.duplicate,
        TunnelIo::DropOutside => received.outside,
        TunnelIo::Accepted => counts.messages,
        TunnelIo::Probes => sent.probes,
        TunnelIo::Reports => received.reports,
        TunnelIo::RefusedTruncated => refused(Refusal::Truncated),
        TunnelIo::RefusedVersion => refused(Refusal::Version),
        TunnelIo::RefusedTag => refused(Refusal::BadTag),
        TunnelIo::RefusedInvalid => refused(Refusal::Invalid),
        TunnelIo::RefusedOwnNode => refused(Refusal::OwnNode),
        TunnelIo::RefusedOtherPeer => refused(Refusal::OtherPeer),
        TunnelIo::RefusedReplayed => refused(Refusal::Replayed),
        TunnelIo::RefusedOldBoot => refused(Refusal::OldBoot),
        TunnelIo::RefusedOtherSession => refused(Refusal::OtherSession),
        TunnelIo::RefusedLanes => refused(Refusal::Lanes),
        TunnelIo::RefusedTunnels => refused(Refusal::Tunnels),
        TunnelIo::Changes => counts.changes,
        TunnelIo::Up => tunnel.session().up().is_some().into(),
        TunnelIo::PeerHeard => peer.is_some().into(),
        TunnelIo::PeerFrame => peer.map_or(0, |peer| peer.frame_max.into()),
        TunnelIo::Kept => tunnel.kept() as u64,
        TunnelIo::Held => tunnel.waiting() as u64,
    }
}
