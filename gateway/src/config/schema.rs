//! Which keys there are, their ranges and their defaults.

use std::path::{Path, PathBuf};

use common::control::NodeId;
use common::time::Span;
use common::verdict::{Limits, Tolerance};
use common::wire::{BUCKETS, ROCE_PORT};
use settings::{Document, Section, integer};
use tunnel::Lane;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, DEFAULT_PORT};
use tunnel::spray::Policy;

use super::port_pairs::{Beside, Pair};
use super::{
    Config, Congestion, Eal, HUGE_PAGES, HugePages, IDLES, Idle, IpNet, Keying, LANS,
    LINK_FORWARDS, LanMode, LinkForward, LinkLossSettings, NOTIFIES, Peer, Pool, Pools, Port,
    RECOVERIES, ROLES, Recovery, RecoverySettings, Role, SPRAYS, SPREADS, Spread, TOLERANCES,
    TUNNEL_COUNTS, TUNNELS, Tuning, TunnelMode, TunnelSettings, Wan, Worker, check, key, pairs,
    udp,
};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
/// In bit/s.
const MBPS: u64 = 1_000_000;

/// As LinkGuardian (SIGCOMM 2023).
const RESEND_COPIES: u8 = 2;

/// Records of the flight recorder: 4 MiB.
const RECORDS: u32 = 1 << 16;

/// Lanes of a WAN port of the tunnel over UDP: as many paths of equal cost as routers commonly have. With fewer paths, some
/// lanes share one.
const LANES_UDP: u8 = 8;

/// Most workers: a bucket each.
pub(crate) const WORKERS: u16 = BUCKETS as u16;

/// The sizes of bursts that the worker is compiled for.
pub(super) const BURSTS: &[u32] = &[16, 32, BURST_MAX as u32];

/// Most frames of a burst.
pub(crate) const BURST_MAX: usize = 64;

/// Reads everything; a wrong value is replaced by a stand-in and reported as a problem.
pub(super) fn read(
    doc: &Document<'_>,
    root: Section<'_>,
    file: &Path,
    role: Option<Role>,
) -> Config {
    read_pair(doc, root, (file, role), (Pair::default(), None), &[])
}

/// The same of one of several pairs of ports, with its cores where it is a `[[pair]]`, after those `before`.
pub(super) fn read_pair(
    doc: &Document<'_>,
    mut root: Section<'_>,
    (file, role): (&Path, Option<Role>),
    (pair, cores): (Pair, Option<Vec<u32>>),
    before: &[Config],
) -> Config {
    let mut warnings = Vec::new();
    // It is read elsewhere.
    root.sections("pair");
    let role_key = root.choice("role", ROLES);
    let mut section = root.section("lan");
    let lan = port(&mut section);
    section.finish();
    let (wan, mut tunnel) = wan(doc, &mut root);
    let mut peer = peer(doc, root.section("peer"), file, &lan, &mut warnings);
    let first = before.first().map_or(peer.node, |first| first.peer.node);
    peer.node = pair.node(first);
    let mut eal = eal(root.section("eal"), first);
    if pair.is_table {
        if doc.is_set("eal.cores") {
            let found = "a list beside [[pair]]";
            doc.problem("eal.cores", found, "no such key; cores in each [[pair]]");
        }
        eal.cores = cores.unwrap_or_default();
    }
    let any_pci = lan.is_pci() || wan.iter().any(|wan| wan.port.is_pci());
    let worker = worker(root.section("worker"), any_pci, eal.cores.len());
    if tunnel.tunnels == 0 {
        let workers = if tunnel.mode == TunnelMode::Off { 1 } else { worker.count };
        tunnel.tunnels = u8::try_from(workers.next_power_of_two()).unwrap_or(u8::MAX);
    }
    let link_loss = link_loss(root.section("link_loss"), tunnel.mode);
    let recovery = recovery(doc, root.section("recovery"), tunnel.mode);
    let congestion = congestion(root.section("congestion"));
    let queue_pairs = pairs::read(doc, root.sections("queue_pair"));

    let mut pool = root.section("pool");
    let mbufs = pool.int("mbufs", 512, 1 << 28, "mbufs");
    let data_room = pool.short("data_room", 512, 16 << 10, "bytes");
    pool.finish();

    let mut control = root.section("control");
    let listen = control
        .parsed("listen", "an IP address and a port, e.g. \"127.0.0.1:9469\" or \"[::1]:9469\"")
        .unwrap_or_else(|| ([127, 0, 0, 1], 9469).into());
    let socket = control.string("socket").map(Into::into);
    let group = control.string("group");
    let records = control.int("records", 0, 1 << 24, "records").unwrap_or(RECORDS);
    control.finish();

    let mut shutdown = root.section("shutdown");
    let drain_timeout = shutdown
        .duration("drain_timeout", Span::ZERO, Span::from_millis(60_000))
        .unwrap_or(Span::from_millis(2_000));
    shutdown.finish();
    root.finish();

    let role = role.or(role_key).unwrap_or(Role::Both);
    let mut config = Config {
        file: file.to_owned(),
        pair,
        beside: Beside::of(before),
        role,
        lan,
        wan,
        tunnel,
        link_loss,
        eal,
        worker,
        peer,
        recovery,
        congestion,
        queue_pairs,
        pool: Pool::default(),
        listen,
        socket,
        group,
        records,
        drain_timeout,
        warnings,
    };
    config.size_pool(mbufs, data_room);
    check::all(doc, &mut config);
    config
}

fn port(s: &mut Section<'_>) -> Port {
    let device = s.required_string(
        "device",
        "a DPDK device: a PCI address (\"0000:3b:00.0\") or a vdev with its arguments \
         (\"net_memif0,role=client,socket=/run/lr2/lan.sock\")",
    );
    Port {
        device,
        mtu: s.short("mtu", 576, 9600, "bytes").unwrap_or(9000),
        rx_desc: s.short("rx_desc", 64, 16384, "descriptors").unwrap_or(1024),
        tx_desc: s.short("tx_desc", 64, 16384, "descriptors").unwrap_or(1024),
        promiscuous: s.bool("promiscuous").unwrap_or(true),
    }
}

/// `[wan]`, or several `[[wan]]`. The first has the keys of the tunnel.
fn wan(doc: &Document<'_>, root: &mut Section<'_>) -> (Vec<Wan>, TunnelSettings) {
    let mut sections =
        if root.is_array("wan") { root.sections("wan") } else { vec![root.section("wan")] };
    if sections.is_empty() {
        // That there is no port has to be said.
        sections.push(root.section("wan"));
    }
    let (mut settings, mut all, ports) = (None, Vec::new(), sections.len());
    for mut s in sections {
        let port = port(&mut s);
        let link_rate = s.rate("link_rate", MBPS, 10_000_000 * MBPS);
        let tunnel = *settings.get_or_insert_with(|| tunnel(doc, &mut s, ports));
        let udp = udp::read(doc, &mut s, tunnel.mode);
        all.push(Wan { section: s.name().to_owned(), port, udp, link_rate });
        s.finish();
    }
    let is_v6 = all.iter().any(|wan| wan.udp.is_some_and(|udp| udp.peer.is_ipv6()));
    let settings = settings.unwrap_or_default();
    (all, TunnelSettings { is_v6, ..settings })
}

fn tunnel(doc: &Document<'_>, s: &mut Section<'_>, ports: usize) -> TunnelSettings {
    let mode = s.choice("tunnel", TUNNELS).unwrap_or_default();
    let ethertype = s
        .int_hex("tunnel_ethertype", 0x0600, 0xffff, "an EtherType that the link forwards")
        .and_then(|n| u16::try_from(n).ok())
        .unwrap_or(DEFAULT_ETHERTYPE);
    let port = s
        .read("tunnel_port", "1 to 65535, the UDP port of both boxes", |v| {
            integer(v).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0)
        })
        .unwrap_or(DEFAULT_PORT);
    // 0: as many as the workers need.
    let tunnels = s
        .int_of("tunnels", TUNNEL_COUNTS, "tunnels, the same at both boxes")
        .and_then(|n| u8::try_from(n).ok())
        .unwrap_or(0);
    let lanes = s
        .int("lanes", 1, u32::from(Lane::COUNT_MAX), "lanes of each port")
        .and_then(|n| u8::try_from(n).ok())
        .unwrap_or(if mode == TunnelMode::Udp { LANES_UDP } else { 1 });
    // Behind one port lanes share the paths of a network, whose queues no lane knows by itself: docs/tunnel.md.
    let shares_paths = mode == TunnelMode::Udp && lanes > 1 && ports == 1;
    let usual = if shares_paths { Policy::Reps } else { Policy::Earliest };
    let tunnel = TunnelSettings {
        mode,
        ethertype,
        port,
        tunnels,
        lanes,
        spray: spray(s).unwrap_or(usual),
        resend_copies: resend_copies(s).unwrap_or(RESEND_COPIES),
        is_v6: false,
    };
    if tunnel.port == ROCE_PORT {
        doc.problem(&s.path("tunnel_port"), ROCE_PORT.to_string(), "another one: this is RoCE's");
    }
    tunnel
}

/// How a frame's lane is chosen.
pub(super) fn spray(s: &mut Section<'_>) -> Option<Policy> {
    s.choice("spray", SPRAYS)
}

/// Transmissions of a lost frame while much is lost.
pub(super) fn resend_copies(s: &mut Section<'_>) -> Option<u8> {
    s.int("resend_copies", 1, 2, "transmissions").and_then(|n| u8::try_from(n).ok())
}

fn link_loss(mut s: Section<'_>, tunnel: TunnelMode) -> LinkLossSettings {
    // Behind a router the peer does not see the link of this box's WAN port.
    let usual = if tunnel == TunnelMode::Udp { LinkForward::Lan } else { LinkForward::On };
    let settings = LinkLossSettings {
        forward: s.choice("forward", LINK_FORWARDS).unwrap_or(usual),
        hold_down: s
            .duration("hold_down", Span::ZERO, Span::from_millis(600_000))
            .unwrap_or(Span::from_millis(1_000)),
    };
    s.finish();
    settings
}

fn eal(mut s: Section<'_>, node: NodeId) -> Eal {
    let eal = Eal {
        huge_pages: s.choice("huge_pages", HUGE_PAGES).unwrap_or(HugePages::Auto),
        memory: s.size("memory", 64 * MIB, TIB).unwrap_or(512 * MIB),
        file_prefix: s.string("file_prefix").unwrap_or_else(|| format!("lr2-{:08x}", node.0)),
        cores: s.ints("cores", 1023).unwrap_or_default(),
        extra: s.strings("extra").unwrap_or_default(),
    };
    s.finish();
    eal
}

fn worker(mut s: Section<'_>, any_pci: bool, cores: usize) -> Worker {
    // Virtual devices don't spread frames, or as they like.
    let (idle, spread) =
        if any_pci { (Idle::Busy, Spread::Rss) } else { (Idle::Adaptive, Spread::Mixed) };
    let cores = u16::try_from(cores.clamp(1, usize::from(WORKERS))).unwrap_or(WORKERS);
    let worker = Worker {
        count: s.short("count", 1, WORKERS, "workers").unwrap_or(cores),
        spread: s.choice("spread", SPREADS).unwrap_or(spread),
        idle: s.choice("idle", IDLES).unwrap_or(idle),
        burst: s.int_of("burst", BURSTS, "frames").and_then(|n| u8::try_from(n).ok()).unwrap_or(32),
        max_flows: s.int("max_flows", 1, 1 << 24, "flows").unwrap_or(65536),
    };
    s.finish();
    worker
}

fn peer(
    doc: &Document<'_>,
    mut s: Section<'_>,
    file: &Path,
    lan: &Port,
    warnings: &mut Vec<String>,
) -> Peer {
    let current: Option<PathBuf> = s.string("key_file").map(Into::into);
    let previous: Option<PathBuf> = s.string("previous_key_file").map(Into::into);
    let unkeyed = s.bool("lab_unkeyed").unwrap_or(false);
    let control_opcode = s
        .int_hex("control_opcode", 0xe0, 0xff, "the manufacturer range of BTH opcodes")
        .and_then(|n| u8::try_from(n).ok())
        .unwrap_or(0xe1);
    let node = s
        .int("node", 1, u32::MAX, "and not that of another box")
        .map_or_else(|| node_id(file, &lan.device), NodeId);
    let remote_prefixes = prefixes(doc, &mut s, "remote_prefixes").unwrap_or_default();
    let boot_file = s.string("boot_file").unwrap_or_else(|| "/var/lib/lr2/boot".into()).into();
    let at = s.at();
    s.finish();

    if unkeyed && (current.is_some() || previous.is_some()) {
        doc.problem("peer.lab_unkeyed", "true besides a key file", "one or the other");
    }
    if !unkeyed && !doc.is_set("peer.key_file") {
        doc.missing(
            at,
            "peer.key_file",
            "the file with the secret that both boxes share (openssl rand -hex 32 > FILE), \
             or lab_unkeyed = true",
        );
    }
    let secret = current.as_deref().and_then(|p| key::read(doc, "peer.key_file", p, warnings));
    let old =
        previous.as_deref().and_then(|p| key::read(doc, "peer.previous_key_file", p, warnings));
    if secret.is_some() && secret == old {
        doc.problem(
            "peer.previous_key_file",
            "the same secret as in key_file",
            "the secret used before, or no such key when no rotation is under way",
        );
    }
    let keying = match (current, secret) {
        (Some(file), Some(current)) => {
            Keying::Shared { file, current, previous: previous.zip(old) }
        }
        _ => Keying::LabUnkeyed,
    };
    Peer { keying, control_opcode, node, remote_prefixes, boot_file }
}

/// A list of IP prefixes. Each that is wrong is a problem of its own.
fn prefixes(doc: &Document<'_>, table: &mut Section<'_>, key: &'static str) -> Option<Vec<IpNet>> {
    /// The syntax of a prefix.
    const SYNTAX: &str = "an IP prefix, e.g. \"10.2.0.0/16\" or \"fd00:2::/32\"";
    let path = table.path(key);
    table.read(key, "a list of IP prefixes", |v| {
        let mut prefixes = Vec::new();
        for item in v.as_array()? {
            let at = Some(item.span().start);
            match item.get_ref().as_str().and_then(|text| text.parse::<IpNet>().ok()) {
                Some(net) if net == net.trunc() => prefixes.push(net),
                Some(net) => {
                    let host = IpNet::from(net.addr());
                    let allowed = format!("\"{}\", or \"{host}\" for one host", net.trunc());
                    doc.problem_at(at, &path, format!("\"{net}\""), allowed);
                }
                None => doc.problem_at(at, &path, doc.source(item), SYNTAX),
            }
        }
        Some(prefixes)
    })
}

fn recovery(doc: &Document<'_>, mut s: Section<'_>, tunnel: TunnelMode) -> RecoverySettings {
    let longest = Span::from_millis(60_000);
    let short = Span::from_micros(1);
    let usual = Tuning::default();
    let has_tunnel = tunnel != TunnelMode::Off;
    let recovery = RecoverySettings {
        mode: s.choice("mode", RECOVERIES).unwrap_or(match tunnel {
            TunnelMode::Off => Recovery::Auto,
            TunnelMode::Ethernet | TunnelMode::Udp => Recovery::Off,
        }),
        lan: s.choice("lan", LANS).filter(|_| has_tunnel).unwrap_or(if has_tunnel {
            LanMode::Auto
        } else {
            LanMode::Off
        }),
        pools: Pools {
            resend_cache: s.size("resend_cache", 0, TIB).unwrap_or(64 * MIB),
            reorder_pool: s.size("reorder_pool", 0, TIB).unwrap_or(64 * MIB),
            // Beside a tunnel it is for LANs that lose something.
            backup_pool: s.size("backup_pool", 0, TIB).unwrap_or(if has_tunnel {
                16 * MIB
            } else {
                32 * MIB
            }),
        },
        local_retries: s
            .int("local_retries", 0, 16, "times")
            .and_then(|n| u8::try_from(n).ok())
            .unwrap_or(3),
        pacing: s.bool("pacing").unwrap_or(true),
        tuning: Tuning {
            rtt_guess: s
                .duration("rtt_guess", Span::from_micros(10), Span::from_millis(2_000))
                .unwrap_or(usual.rtt_guess),
            tail_timeout: s.duration("tail_timeout", short, longest),
            status_interval: s.duration("status_interval", short, longest),
            peer_timeout: s.duration("peer_timeout", short, longest),
            give_up: s.duration("give_up", short, longest),
            t_out: s.duration("t_out", short, longest),
            t_out_min: s.duration("t_out_min", short, longest).unwrap_or(usual.t_out_min),
            tolerance: tolerance(&mut s),
            ..usual
        },
    };
    if !has_tunnel && doc.is_set("recovery.lan") {
        let allowed = "no such key, or wan.tunnel: recovery.mode covers the LANs without a tunnel";
        doc.problem("recovery.lan", "a value", allowed);
    }
    s.finish();
    recovery
}

/// When a missing number or PSN counts as lost.
pub(super) fn tolerance(s: &mut Section<'_>) -> Tolerance {
    let (short, longest) = (Span::from_micros(1), Span::from_millis(1_000));
    let usual = Limits::default();
    Tolerance {
        mode: s.choice("tolerance", TOLERANCES).unwrap_or_default(),
        limits: Limits {
            depth: s.int("tolerance_depth", 1, 8192, "packets").map_or(usual.depth, u64::from),
            loss_wait: s.duration("tolerance_wait", short, longest).unwrap_or(usual.loss_wait),
            stall: s.duration("tolerance_stall", short, longest).unwrap_or(usual.stall),
        },
    }
}

fn congestion(mut s: Section<'_>) -> Congestion {
    let congestion = Congestion {
        cnp: s.choice("cnp", NOTIFIES).unwrap_or(true),
        cnp_interval: s
            .duration("cnp_interval", Span::from_micros(1), Span::from_millis(1_000))
            .unwrap_or(Span::from_micros(50)),
    };
    s.finish();
    congestion
}

/// A number for this box that stays the same over restarts: two gateways on
/// one machine differ in their files or their LAN devices.
fn node_id(file: &Path, device: &str) -> NodeId {
    let machine = std::fs::read_to_string("/etc/machine-id")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .unwrap_or_default();
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut hash = blake3::Hasher::new_derive_key("LR2 Gateway node id, version 1");
    for part in [machine.trim().as_bytes(), file.as_os_str().as_encoded_bytes(), device.as_bytes()]
    {
        hash.update(part).update(&[0]);
    }
    let mut word = [0; 4];
    hash.finalize_xof().fill(&mut word);
    NodeId(u32::from_be_bytes(word).max(1))
}
