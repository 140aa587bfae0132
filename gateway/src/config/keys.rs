//! The table of keys: one row for each, in the order of `docs/configuration.md`.
//!
//! A row has the name with its section, when a changed value is applied, the form and range of values, the field, and the
//! default. A default may depend on keys that stand before it. Reading a file, printing a configuration, the API's parameters
//! and the differences at a reload all follow from the table.

use common::time::Span;
use common::verdict::Limits;
use tunnel::Lane;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, DEFAULT_PORT};
use tunnel::spray::Policy;

use super::read::{BURSTS, WORKERS, node_id, usual_workers};
use super::row::{
    Applied, Bool, Derived, Hex, Id, Int, Ints, Maybe, OneOf, Parsed, Prefixes, Rate, Required,
    Row, Size, Text, Texts, Time, Word, key, wan,
};
use super::{
    HUGE_PAGES, HugePages, IDLES, Idle, LANS, LINK_FORWARDS, LanMode, LinkForward, NOTIFIES,
    RECOVERIES, ROLES, Recovery, Role, SPRAYS, SPREADS, Spread, TOLERANCES, TUNNEL_COUNTS, TUNNELS,
    Tuning, TunnelMode,
};

use Applied::{Reload, Request, Start};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
/// In bit/s.
const MBPS: u64 = 1_000_000;

const DEVICE: Required = Required(
    "a DPDK device: a PCI address (\"0000:3b:00.0\") or a vdev with its arguments \
     (\"net_memif0,role=client,socket=/run/lr2/lan.sock\")",
);
const MTU: Int = Int(576, 9600, "bytes");
const DESCRIPTORS: Int = Int(64, 16384, "descriptors");

/// The meaning of `wan.address`.
pub const ADDRESS: &str = "the port's IP address with the prefix of its link, e.g. \
                           \"192.0.2.1/30\" or \"2001:db8::1/64\"";
/// The meaning of `wan.peer`.
pub const PEER: &str = "the IP address of the other box's WAN port";
/// The meaning of `wan.gateway`.
pub const GATEWAY: &str = "the IP address of the router towards the peer";

/// Times of timers.
const TIMER: Time = Time(Span::from_micros(1), Span::from_millis(60_000));
/// Times of up to a second.
const SHORT: Time = Time(Span::from_micros(1), Span::from_millis(1_000));

/// Lanes of a WAN port of the tunnel over UDP: as many paths of equal cost as routers commonly have. With fewer paths, some
/// lanes share one.
const LANES_UDP: u8 = 8;

/// All keys, but those of `[[queue_pair]]` and those that only a `[[pair]]` has.
#[rustfmt::skip]
pub static KEYS: &[&dyn Row] = &[
    &key("role", Start, Word(ROLES), |c| &mut c.role, |_| Role::Both),

    &key("lan.device", Start, DEVICE, |c| &mut c.lan.device, |_| String::new()),
    &key("lan.mtu", Start, MTU, |c| &mut c.lan.mtu, |_| 9000),
    &key("lan.rx_desc", Start, DESCRIPTORS, |c| &mut c.lan.rx_desc, |_| 1024),
    &key("lan.tx_desc", Start, DESCRIPTORS, |c| &mut c.lan.tx_desc, |_| 1024),
    &key("lan.promiscuous", Start, Bool, |c| &mut c.lan.promiscuous, |_| true),

    &wan("wan.device", DEVICE, |w| &mut w.port.device, |_| String::new()),
    &wan("wan.mtu", MTU, |w| &mut w.port.mtu, |_| 9000),
    &wan("wan.rx_desc", DESCRIPTORS, |w| &mut w.port.rx_desc, |_| 1024),
    &wan("wan.tx_desc", DESCRIPTORS, |w| &mut w.port.tx_desc, |_| 1024),
    &wan("wan.promiscuous", Bool, |w| &mut w.port.promiscuous, |_| true),
    &wan("wan.link_rate", Maybe(Rate(MBPS, 10_000_000 * MBPS)), |w| &mut w.link_rate, |_| None),
    &key("wan.tunnel", Start, Word(TUNNELS), |c| &mut c.tunnel.mode, |_| TunnelMode::Off),
    &key("wan.tunnel_ethertype", Start, Hex(0x0600, 0xffff, "an EtherType that the link forwards"), |c| &mut c.tunnel.ethertype, |_| DEFAULT_ETHERTYPE),
    &key("wan.tunnel_port", Start, Id(1, 65535, "the UDP port of both boxes"), |c| &mut c.tunnel.port, |_| DEFAULT_PORT),
    // 0: as many as the workers need, which are read later.
    &key("wan.tunnels", Start, OneOf(TUNNEL_COUNTS, "tunnels, the same at both boxes"), |c| &mut c.tunnel.tunnels, |_| 0),
    &key("wan.lanes", Start, Int(1, Lane::COUNT_MAX as u32, "lanes of each port"), |c| &mut c.tunnel.lanes, |c| if c.tunnel.mode == TunnelMode::Udp { LANES_UDP } else { 1 }),
    // Behind one port lanes share the paths of a network, whose queues no lane knows by itself: docs/tunnel.md.
    &key("wan.spray", Request, Word(SPRAYS), |c| &mut c.tunnel.spray, |c| if c.shares_paths() { Policy::Reps } else { Policy::Earliest }),
    // As LinkGuardian (SIGCOMM 2023).
    &key("wan.resend_copies", Request, Int(1, 2, "transmissions"), |c| &mut c.tunnel.resend_copies, |_| 2),
    &wan("wan.address", Maybe(Parsed(ADDRESS)), |w| &mut w.address, |_| None),
    &wan("wan.gateway", Maybe(Parsed(GATEWAY)), |w| &mut w.gateway, |_| None),
    &wan("wan.peer", Maybe(Parsed(PEER)), |w| &mut w.peer, |_| None),
    &wan("wan.dscp", Maybe(Id(0, 63, "the DSCP of every datagram")), |w| &mut w.dscp, |_| None),
    &wan("wan.vlan", Maybe(Id(1, 4094, "the VLAN of the WAN port's link")), |w| &mut w.vlan, |_| None),

    &key("peer.key_file", Reload, Maybe(Text), |c| &mut c.peer.key_file, |_| None),
    &key("peer.previous_key_file", Reload, Maybe(Text), |c| &mut c.peer.previous_key_file, |_| None),
    &key("peer.lab_unkeyed", Start, Bool, |c| &mut c.peer.lab_unkeyed, |_| false),
    &key("peer.control_opcode", Start, Hex(0xe0, 0xff, "the manufacturer range of BTH opcodes"), |c| &mut c.peer.control_opcode, |_| 0xe1),
    &key("peer.node", Start, Int(1, u32::MAX, "and not that of another box"), |c| &mut c.peer.node.0, |c| node_id(&c.file, &c.lan.device)),
    &key("peer.remote_prefixes", Reload, Prefixes, |c| &mut c.peer.remote_prefixes, |_| Vec::new()),
    &key("peer.boot_file", Start, Text, |c| &mut c.peer.boot_file, |_| "/var/lib/lr2/boot".into()),

    &key("eal.huge_pages", Start, Word(HUGE_PAGES), |c| &mut c.eal.huge_pages, |_| HugePages::Auto),
    &key("eal.memory", Start, Size(64 * MIB, TIB), |c| &mut c.eal.memory, |_| 512 * MIB),
    &key("eal.file_prefix", Start, Text, |c| &mut c.eal.file_prefix, |c| format!("lr2-{:08x}", c.peer.node.0)),
    &key("eal.cores", Start, Ints(1023), |c| &mut c.eal.cores, |_| Vec::new()),
    &key("eal.extra", Start, Texts, |c| &mut c.eal.extra, |_| Vec::new()),

    &key("worker.count", Start, Int(1, WORKERS as u32, "workers"), |c| &mut c.worker.count, usual_workers),
    // Virtual devices don't spread frames, or as they like.
    &key("worker.spread", Start, Word(SPREADS), |c| &mut c.worker.spread, |c| if c.has_pci() { Spread::Rss } else { Spread::Mixed }),
    &key("worker.idle", Start, Word(IDLES), |c| &mut c.worker.idle, |c| if c.has_pci() { Idle::Busy } else { Idle::Adaptive }),
    &key("worker.burst", Start, OneOf(BURSTS, "frames"), |c| &mut c.worker.burst, |_| 32),
    &key("worker.max_flows", Start, Int(1, 1 << 24, "flows"), |c| &mut c.worker.max_flows, |_| 65536),

    // Behind a router the peer does not see the link of this box's WAN port.
    &key("link_loss.forward", Start, Word(LINK_FORWARDS), |c| &mut c.link_loss.forward, |c| if c.tunnel.mode == TunnelMode::Udp { LinkForward::Lan } else { LinkForward::On }),
    &key("link_loss.hold_down", Start, Time(Span::ZERO, Span::from_millis(600_000)), |c| &mut c.link_loss.hold_down, |_| Span::from_millis(1_000)),

    &key("recovery.mode", Reload, Word(RECOVERIES), |c| &mut c.recovery.mode, |c| if c.has_tunnel() { Recovery::Off } else { Recovery::Auto }),
    &key("recovery.lan", Start, Word(LANS), |c| &mut c.recovery.lan, |c| if c.has_tunnel() { LanMode::Auto } else { LanMode::Off }),
    &key("recovery.resend_cache", Reload, Size(0, TIB), |c| &mut c.recovery.pools.resend_cache, |_| 64 * MIB),
    &key("recovery.reorder_pool", Reload, Size(0, TIB), |c| &mut c.recovery.pools.reorder_pool, |_| 64 * MIB),
    // Beside a tunnel it is for LANs that lose something.
    &key("recovery.backup_pool", Reload, Size(0, TIB), |c| &mut c.recovery.pools.backup_pool, |c| if c.has_tunnel() { 16 * MIB } else { 32 * MIB }),
    &key("recovery.local_retries", Start, Int(0, 16, "times"), |c| &mut c.recovery.local_retries, |_| 3),
    &key("recovery.pacing", Start, Bool, |c| &mut c.recovery.pacing, |_| true),
    &key("recovery.rtt_guess", Reload, Time(Span::from_micros(10), Span::from_millis(2_000)), |c| &mut c.recovery.tuning.rtt_guess, |_| Tuning::default().rtt_guess),
    &key("recovery.tail_timeout", Reload, Derived(TIMER), |c| &mut c.recovery.tuning.tail_timeout, |_| None),
    &key("recovery.status_interval", Reload, Derived(TIMER), |c| &mut c.recovery.tuning.status_interval, |_| None),
    &key("recovery.peer_timeout", Reload, Derived(TIMER), |c| &mut c.recovery.tuning.peer_timeout, |_| None),
    &key("recovery.give_up", Reload, Derived(TIMER), |c| &mut c.recovery.tuning.give_up, |_| None),
    &key("recovery.t_out", Reload, Derived(TIMER), |c| &mut c.recovery.tuning.t_out, |_| None),
    &key("recovery.t_out_min", Reload, TIMER, |c| &mut c.recovery.tuning.t_out_min, |_| Tuning::default().t_out_min),
    &key("recovery.tolerance", Request, Word(TOLERANCES), |c| &mut c.recovery.tuning.tolerance.mode, |_| Default::default()),
    &key("recovery.tolerance_depth", Request, Int(1, 8192, "packets"), |c| &mut c.recovery.tuning.tolerance.limits.depth, |_| Limits::default().depth),
    &key("recovery.tolerance_wait", Request, SHORT, |c| &mut c.recovery.tuning.tolerance.limits.loss_wait, |_| Limits::default().loss_wait),
    &key("recovery.tolerance_stall", Request, SHORT, |c| &mut c.recovery.tuning.tolerance.limits.stall, |_| Limits::default().stall),

    &key("congestion.cnp", Reload, Word(NOTIFIES), |c| &mut c.congestion.cnp, |_| true),
    &key("congestion.cnp_interval", Reload, SHORT, |c| &mut c.congestion.cnp_interval, |_| Span::from_micros(50)),

    // 0: as large as rings, queues and the three pools need.
    &key("pool.mbufs", Start, Int(512, 1 << 28, "mbufs"), |c| &mut c.pool.mbufs, |_| 0),
    &key("pool.data_room", Start, Int(512, 16 << 10, "bytes"), |c| &mut c.pool.data_room, |_| 0),

    &key("control.listen", Start, Parsed("an IP address and a port, e.g. \"127.0.0.1:9469\" or \"[::1]:9469\""), |c| &mut c.listen, |_| ([127, 0, 0, 1], 9469).into()),
    &key("control.socket", Start, Maybe(Text), |c| &mut c.socket, |_| None),
    &key("control.group", Start, Maybe(Text), |c| &mut c.group, |_| None),
    // 4 MiB.
    &key("control.records", Start, Int(0, 1 << 24, "records"), |c| &mut c.records, |_| 1 << 16),

    &key("shutdown.drain_timeout", Start, Time(Span::ZERO, Span::from_millis(60_000)), |c| &mut c.drain_timeout, |_| Span::from_millis(2_000)),
];

/// The rows of each section, in the order of the table.
pub fn sections() -> impl Iterator<Item = (&'static str, &'static [&'static dyn Row])> {
    KEYS.chunk_by(|one, other| one.parts().0 == other.parts().0)
        .map(|rows| (rows[0].parts().0, rows))
}
