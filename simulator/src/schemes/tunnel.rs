//! This product's tunnel: frames are numbered on the long haul, and those that it loses are resent.

use std::net::IpAddr;

use common::control::Keys;
use common::frame::{Class as Priority, Packet, Pool, Side, Sink};
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, DEFAULT_PORT, DEFAULT_SOURCE_PORT, Encapsulation};
use tunnel::encapsulation::{Udp, UdpConfig};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{Config, Io, Port, ReceiverConfig, SenderConfig, Tunnel as End, report_interval};

use super::model::{Class, Form, Look, Marker, Place, Profile, SchemeModel};
use crate::frame::{SimFrame, SimPool};
use crate::node::{Egress, Middlebox, WAN};
use crate::path::packet_wire_bytes;
use crate::results::Pools;
use crate::scenario::{Carriage, Scenario, Topology};

/// Headers of a RoCE frame beside its payload, and those of the tunnel.
const HEADERS: u16 = 200;
/// Frames held for their predecessors, at most.
const WAITING_MAX: u64 = 1 << 16;
/// Numbers that a frame may be ahead.
const WINDOW: u64 = 1 << 20;

/// Bytes that the encapsulation `ethernet` adds to a frame.
const SHIM: f64 = 18.0;
/// Bytes of a REPORT on the wire, without ranges.
const REPORT: f64 = 102.0;

/// What the tunnel adds to a link of `rtt`, in slots of a packet of `pmtu`: a packet behind its header, and the REPORTs of a round
/// trip, about packets the other way.
pub fn overhead(rtt: Span, pmtu: u32) -> [f64; 2] {
    let packet = packet_wire_bytes(pmtu.into()) as f64;
    let reports = rtt.as_secs_f64() / report_interval(rtt).as_secs_f64();
    [1.0 + SHIM / packet, reports * REPORT / packet]
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

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        let pmtu = u16::try_from(place.scenario.nic.pmtu).unwrap_or(u16::MAX - HEADERS);
        let frame_max = pmtu + HEADERS;
        let mut tunnel = End::new(config(place, frame_max));
        for port in Port::all(ports(place.scenario)) {
            tunnel.set_next_hop(port, Some(mac(peer(place.scenario, place.number))));
        }
        Box::new(TunnelBox { tunnel, frame_max })
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
    u8::try_from(paths.max(1)).unwrap_or(Port::COUNT_MAX)
}

fn config(place: &Place<'_>, frame_max: u16) -> Config {
    let Place { scenario, number, .. } = *place;
    let (rtt, pools) = (place.rtt(), &scenario.gateway);
    // No backup pool: its part is the cache's.
    let part = pools.budget / 5;
    let frames = |own: Option<u64>, part: u64, most: u64| {
        let frames = own.unwrap_or(part) / u64::from(scenario.nic.pmtu);
        usize::try_from(frames.min(most)).unwrap_or(usize::MAX)
    };
    let (encapsulation, lanes, ports) = (encapsulation(place), pools.lanes, ports(scenario));
    Config {
        session: SessionConfig {
            node: NodeId(number + 1),
            boot: BootId(1),
            random: u64::from(number),
            lanes,
            ports,
            frame_max,
            overhead: encapsulation.shim_at() as u16,
            // A scenario lasts for some round trips, where real boxes have talked for long.
            hello_interval: rtt.max(Span::from_micros(100)),
            peer_timeout: (rtt * 8).max(Span::from_millis(3_000)),
        },
        ports: vec![encapsulation; ports.into()],
        sender: SenderConfig {
            lanes,
            rtt,
            cache_max: frames(pools.cache, 3 * part, WINDOW),
            ports,
            spray: Policy::default(),
        },
        receiver: ReceiverConfig {
            lanes,
            window: WINDOW,
            waiting_max: frames(pools.reorder, 2 * part, WAITING_MAX),
            give_up: (rtt * 8).max(Span::from_millis(10)),
            report_interval: report_interval(rtt),
            loss_wait: rtt / 4,
            report_at_once: Span::from_micros(20),
        },
        keys: Keys::unkeyed_lab(),
    }
}

struct TunnelBox {
    tunnel: End<SimFrame>,
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
        act: impl FnOnce(&mut End<SimFrame>, &mut Ports<'_>),
    ) {
        act(&mut self.tunnel, &mut Ports { out, now, frame_max: self.frame_max });
    }
}

impl Middlebox for TunnelBox {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress) {
        self.work(now, out, |tunnel, ports| match side {
            Side::Lan => tunnel.on_lan(now, frame, ports),
            Side::Wan => tunnel.on_wan(now, Port::default(), frame, ports),
        });
    }

    fn receive_wan(&mut self, port: usize, frame: SimFrame, now: Time, out: &mut Egress) {
        let port = u8::try_from(port).ok().and_then(Port::new).unwrap_or_default();
        self.work(now, out, |tunnel, ports| tunnel.on_wan(now, port, frame, ports));
    }

    fn next(&self) -> Time {
        self.tunnel.deadline()
    }

    fn timers(&mut self, now: Time, out: &mut Egress) {
        self.work(now, out, |tunnel, ports| tunnel.on_timer(now, ports));
    }

    fn held(&self) -> Pools {
        let bytes = |frames: usize| frames as u64 * u64::from(self.frame_max - HEADERS);
        Pools {
            reorder_bytes: bytes(self.tunnel.waiting()),
            backup_bytes: 0,
            cache_bytes: bytes(self.tunnel.kept()),
        }
    }

    fn check(&self, arrived: u64, _: u64) {
        let counts = self.tunnel.counts();
        assert_eq!(counts.from_lan + counts.from_wan, arrived, "what a tunnel received");
        assert!(self.tunnel.is_balanced(), "its own books: {counts:?}");
    }
}

impl Io for Ports<'_> {
    type Frame = SimFrame;

    fn wait(&mut self, port: Port) -> Option<Span> {
        self.out.wait(WAN + usize::from(port.get()), self.frame_max.into(), self.now)
    }

    fn wan(&mut self, port: Port, class: Priority, packet: Packet<SimFrame>) {
        self.out.transmit_at(WAN + usize::from(port.get()), class, packet);
    }

    fn lan(&mut self, frame: SimFrame) {
        self.out.transmit(Side::Lan, Priority::Data, Packet::Owned(frame));
    }

    fn local(&mut self, _: Port, _: SimFrame) {}

    fn alloc(&mut self, len: usize) -> Option<SimFrame> {
        SimPool.alloc(len)
    }
}
