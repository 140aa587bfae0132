//! This product's tunnel: frames are numbered on the long haul, and those that it loses are resent.

use std::net::IpAddr;

use arrayvec::ArrayVec;
use common::control::Keys;
use common::frame::{Class as Priority, Packet, Side, Sink};
use common::ids::{BootId, NodeId};
use common::metrics::Counters;
use common::time::{Span, Time};
use common::verdict::Tolerance;
use datapath::{Datapath, Tunnelled, Which};
use switch::Recovery;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, DEFAULT_PORT, DEFAULT_SOURCE_PORT, Encapsulation};
use tunnel::encapsulation::{Udp, UdpConfig};
use tunnel::session::SessionConfig;
use tunnel::{Config, Part, Port, ReceiverConfig, SenderConfig, Tunnel as End, report_interval};

use super::model::{Class, Form, Look, Marker, Place, Profile, SchemeModel};
use super::product;
use crate::frame::{SimFrame, SimPool};
use crate::node::{Egress, Middlebox, WAN};
use crate::path::packet_wire_bytes;
use crate::results::{Pools, TunnelUse};
use crate::scenario::{Carriage, LanRepair, Scenario, Topology};

/// Headers of a RoCE frame beside its payload, and those of the tunnel.
const HEADERS: u16 = 200;
/// Numbers that a frame may be ahead, and so the most that may wait.
const WINDOW: u64 = 1 << 20;
/// Timers run at a time: more than are ever due.
const TIMERS: usize = 1 << 20;

/// Bytes that the encapsulation `ethernet` adds to a frame.
const ETHERNET: u64 = 18;
/// Those that `udp` over IPv4 adds.
const UDP: u64 = 58;
/// Bytes of a REPORT on the wire, without ranges.
const REPORT: f64 = 102.0;

/// The tunnel's overhead on a link of `rtt`, in slots of a packet of `pmtu`: a packet behind its header, and the REPORTs of a round
/// trip, about packets the other way.
pub fn overhead(rtt: Span, pmtu: u32) -> [f64; 2] {
    let packet = packet_wire_bytes(pmtu.into()) as f64;
    let reports = rtt.as_secs_f64() / report_interval(rtt).as_secs_f64();
    [1.0 + ETHERNET as f64 / packet, reports * REPORT / packet]
}

pub(super) struct Tunnel;

impl SchemeModel for Tunnel {
    fn profile(&self) -> Profile {
        Profile {
            name: "tunnel",
            about: "LR2 Gateway, wan.tunnel = ethernet: the gateways number all frames and resend lost ones.",
            class: Class::Ours,
            look: Look {
                light: 0x6F4E37,
                dark: 0xC69C6D,
                dashes: "",
                width: 3,
                marker: Marker::Up,
            },
        }
    }

    fn form(&self) -> Option<Form> {
        Some(Form {
            about: "gateways, frame by frame",
            goodput: |path, nic| path.tunnel(nic),
            sends: |path| path.sends_repairing(),
            fct: |path, nic, packets| path.fct_tunnel(packets, nic),
        })
    }

    fn headers(&self, scenario: &Scenario) -> u64 {
        match scenario.gateway.tunnel {
            Carriage::Ethernet => ETHERNET,
            Carriage::Udp => UDP,
        }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pmtu = u16::try_from(place.scenario.nic.pmtu).unwrap_or(u16::MAX - HEADERS);
        let frame_max = pmtu + HEADERS;
        let mut path = Datapath::tunnel(config(place, frame_max), lan_repair(place));
        for port in Port::all(ports(place.scenario)) {
            path.set_next_hop(port, Some(mac(peer(place.scenario, place.number))));
        }
        Box::new(TunnelBox { path, frame_max })
    }
}

/// The MAC address of the WAN port of a gateway.
fn mac(number: u32) -> [u8; 6] {
    let [.., a, b] = number.to_be_bytes();
    [2, b'L', b'R', b'2', a, b]
}

fn encapsulation(place: &Place<'_>) -> Encapsulation {
    let Place { scenario, number, .. } = *place;
    let lanes = u16::from(scenario.gateway.lanes);
    match scenario.gateway.tunnel {
        Carriage::Ethernet => {
            Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: mac(number) }
        }
        Carriage::Udp => Encapsulation::Udp(Udp::new(&UdpConfig {
            mac: mac(number),
            address: address(number),
            peer: address(peer(scenario, number)),
            port: DEFAULT_PORT,
            source_ports: (0..lanes).map(|lane| DEFAULT_SOURCE_PORT + lane).collect(),
            dscp: None,
            vlan: None,
        })),
    }
}

/// The IP address of the WAN port of a gateway.
fn address(number: u32) -> IpAddr {
    let [.., a, b] = number.to_be_bytes();
    [10, 255, a, b].into()
}

/// The gateway at the other end: those of site 1 follow those of site 0.
fn peer(scenario: &Scenario, number: u32) -> u32 {
    let links = match scenario.topology {
        Topology::LeafSpine { long_hauls, .. } => long_hauls,
        Topology::Pair | Topology::Dumbbell { .. } => 1,
    };
    (number + links) % (2 * links)
}

/// WAN ports of a gateway.
fn ports(scenario: &Scenario) -> u8 {
    let paths = if scenario.long_haul.has_own_ports { scenario.long_haul.paths.len() } else { 1 };
    paths.clamp(1, Port::COUNT_MAX.into()) as u8
}

fn config(place: &Place<'_>, frame_max: u16) -> Config {
    let Place { scenario, number, .. } = *place;
    let (rtt, pools) = (place.rtt(), &scenario.gateway);
    let part = pools.budget / 5;
    // Without a backup pool its part is the cache's.
    let [cache, reorder] = match pools.lan {
        LanRepair::Off => [3 * part, 2 * part],
        LanRepair::On | LanRepair::Auto => [2 * part, 3 * part / 2],
    };
    let frames = |own: Option<u64>, part: u64, most: u64| {
        let frames = own.unwrap_or(part) / u64::from(scenario.nic.pmtu);
        usize::try_from(frames.min(most)).unwrap_or(usize::MAX)
    };
    let waiting_max = frames(pools.reorder, reorder, WINDOW);
    let (encapsulation, lanes, ports) = (encapsulation(place), pools.lanes, ports(scenario));
    Config {
        session: SessionConfig {
            node: NodeId(number + 1),
            boot: BootId(1),
            random: u64::from(number),
            part: Part::WHOLE,
            lanes,
            ports,
            frame_max,
            overhead: (encapsulation.shim_at() - encapsulation.tag_len()) as u16,
            // A scenario lasts for some round trips, where real boxes have talked for long.
            lans: Default::default(),
            hello_interval: rtt.max(Span::from_micros(100)),
            peer_timeout: (rtt * 8).max(Span::from_millis(3_000)),
        },
        ports: vec![encapsulation; ports.into()],
        sender: SenderConfig {
            lanes,
            rtt,
            cache_max: frames(pools.cache, cache, WINDOW),
            give_up: (rtt * 8).max(Span::from_millis(10)),
            ports,
            spray: pools.spray,
            resend_copies: 2,
        },
        receiver: ReceiverConfig {
            lanes,
            window: WINDOW,
            waiting_max,
            waiting_room: waiting_max,
            give_up: (rtt * 8).max(Span::from_millis(10)),
            report_interval: report_interval(rtt),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: scenario.gateway.pacing,
        },
        keys: Keys::unkeyed_lab(),
        records: 0,
    }
}

/// The switch that repairs the LANs, if there is one. It has the backup pool and a quarter of the reordering pool.
fn lan_repair(place: &Place<'_>) -> Option<(switch::Config, Which)> {
    let which = match place.scenario.gateway.lan {
        LanRepair::Off => return None,
        LanRepair::On => Which::All,
        LanRepair::Auto => Which::AfterNak,
    };
    let config = product::config(place, Recovery::Lr2);
    let reorder_pool_frames = config.reorder_pool_frames / 4;
    Some((switch::Config { reorder_pool_frames, resend_cache_frames: 0, ..config }, which))
}

struct TunnelBox {
    path: Datapath<SimFrame>,
    frame_max: u16,
}

struct Ports<'a> {
    out: &'a mut Egress,
    now: Time,
    frame_max: u16,
}

impl TunnelBox {
    fn work(
        &mut self,
        now: Time,
        out: &mut Egress,
        act: impl FnOnce(&mut Datapath<SimFrame>, &mut Ports<'_>),
    ) {
        act(&mut self.path, &mut Ports { out, now, frame_max: self.frame_max });
    }

    fn burst(&mut self, from: (Side, Port), frame: SimFrame, now: Time, out: &mut Egress) {
        let mut burst = ArrayVec::<SimFrame, 1>::new();
        burst.push(frame);
        self.work(now, out, |path, ports| path.burst(from, &mut burst, now, &mut SimPool, ports));
    }
}

impl Middlebox for TunnelBox {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress) {
        self.burst((side, Port::default()), frame, now, out);
    }

    fn receive_wan(&mut self, port: usize, frame: SimFrame, now: Time, out: &mut Egress) {
        let port = u8::try_from(port).ok().and_then(Port::new).unwrap_or_default();
        self.burst((Side::Wan, port), frame, now, out);
    }

    fn next(&self) -> Time {
        self.path.next_deadline()
    }

    fn timers(&mut self, now: Time, out: &mut Egress) {
        self.work(now, out, |path, ports| path.timers(now, TIMERS, &mut SimPool, ports));
    }

    fn housekeeping(&mut self, now: Time, out: &mut Egress) {
        self.work(now, out, |path, ports| path.housekeeping(now, &mut SimPool, ports));
    }

    fn held(&self) -> Pools {
        let bytes = |frames: usize| frames as u64 * u64::from(self.frame_max - HEADERS);
        let lan = self.path.as_switch().map(switch::Switch::held_bytes).unwrap_or_default();
        let tunnel = self.path.as_tunnel().map(Tunnelled::tunnel);
        Pools {
            reorder_bytes: bytes(tunnel.map_or(0, End::waiting)) + lan.reorder,
            backup_bytes: lan.backup,
            cache_bytes: bytes(tunnel.map_or(0, End::kept)),
        }
    }

    fn counters(&self) -> Option<&Counters> {
        self.path.as_switch().map(switch::Switch::counters)
    }

    fn tunnel(&self) -> TunnelUse {
        let Some(tunnelled) = self.path.as_tunnel() else { return TunnelUse::default() };
        let (sent, received) = (tunnelled.tunnel().sent(), tunnelled.tunnel().received());
        TunnelUse {
            frames: sent.frames,
            lost: sent.lost,
            resent: sent.resent,
            missing: received.missing,
            given_up: received.given_up,
            suspected: sent.suspected,
        }
    }

    fn check(&self, arrived: u64, _: u64) {
        let Some(tunnelled) = self.path.as_tunnel() else { return };
        let counts = tunnelled.tunnel().counts();
        if tunnelled.lan().is_none() {
            assert_eq!(counts.from_lan + counts.from_wan, arrived, "what a tunnel received");
        }
        assert!(tunnelled.is_balanced(), "its own books: {counts:?}");
    }
}

impl Sink for Ports<'_> {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, class: Priority, packet: Packet<SimFrame>) {
        self.out.transmit(side, class, packet);
    }
}

impl datapath::Ports for Ports<'_> {
    fn wait(&mut self, port: Port) -> Option<Span> {
        self.out.wait(WAN + usize::from(port.get()), self.frame_max.into(), self.now)
    }

    // Frames come one by one here.
    fn room(&mut self, port: Port) -> usize {
        usize::from(self.wait(port).is_some())
    }

    fn wan(&mut self, port: Port, class: Priority, packet: Packet<SimFrame>) {
        self.out.transmit_at(WAN + usize::from(port.get()), class, packet);
    }

    fn local(&mut self, _: Port, _: SimFrame) {}
}
