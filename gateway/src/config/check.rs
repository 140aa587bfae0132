//! Settings that are fine each by itself and cannot work together.

use std::borrow::Cow;

use settings::device::{self, pci_address};
use settings::{Document, units};

use super::{
    Config, FRAME_OVERHEAD, Keying, Port, RECOVERIES, ROLES, Recovery, Role, TunnelMode, word,
};

/// Adds a problem for each setting that cannot work, and a warning for each that works but
/// was probably not meant.
pub(super) fn all(doc: &Document<'_>, config: &mut Config) {
    devices(doc, config);
    mtu(doc, config);
    tunnel(doc, config);
    memory(doc, config);
    eal(doc, config);
    timers(doc, config);
    prefixes(config);
    if !config.listen.ip().is_loopback() {
        config.warnings.push(format!(
            "control.listen: {} can be reached from other hosts, without a password: they read all that the API tells; use a \
             loopback address and a proxy that asks who is there",
            config.listen
        ));
    }
    if config.peer.keying == Keying::LabUnkeyed && doc.is_set("peer.lab_unkeyed") {
        config
            .warnings
            .push("peer.lab_unkeyed: anyone on the path can forge control messages".into());
    }
}

fn devices(doc: &Document<'_>, config: &mut Config) {
    let mut warnings = Vec::new();
    for (side, port) in config.ports() {
        let key = format!("{side}.device");
        if port.device.is_empty() {
            continue; // has been reported as missing
        }
        if port.is_pci() && pci_address(&port.device).is_none() {
            doc.problem(&key, format!("\"{}\"", port.device), device::FORM);
        }
        if driver(port) == "net_memif" && argument(port, "role") != Some("server") {
            let bsize = number(port, "bsize", 2048);
            let frame = u64::from(port.mtu + FRAME_OVERHEAD);
            if bsize < frame {
                warnings.push(format!(
                    "{key}: memif buffers of {bsize} bytes split frames of up to {frame}; \
                     add bsize={}",
                    frame.next_multiple_of(1024)
                ));
            }
        }
    }
    config.warnings.append(&mut warnings);

    let ports: Vec<_> = config.ports().collect();
    for (n, port) in ports.iter().enumerate() {
        for (section, other) in &ports[..n] {
            let whose =
                if *section == "lan" { "the LAN port's".into() } else { format!("{section}'s") };
            distinct(doc, *port, (&whose, other), "LAN and WAN are two ports");
        }
    }
}

/// A pair must have ports and cores of its own, which no pair before it has.
pub(super) fn apart(doc: &Document<'_>, config: &Config, before: &[Config]) {
    let workers = config.workers_so_far();
    if config.pair.is_last() && workers > WORKERS_OF_ALL {
        let allowed = format!("at most {WORKERS_OF_ALL}: DPDK takes no more threads");
        doc.problem("pair", format!("{workers} workers in all pairs"), allowed);
    }
    for other in before {
        let name = &other.pair.name;
        for port in config.ports() {
            for (section, theirs) in other.ports() {
                let whose = format!("pair {name}'s {section}");
                distinct(doc, port, (&whose, theirs), "each pair has ports of its own");
                one_interface(doc, port, (&whose, theirs));
            }
        }
        if let Some(core) = config.eal.cores.iter().find(|core| other.eal.cores.contains(core)) {
            let found = format!("core {core}, which pair {name} has too");
            let allowed = "cores that no other pair has: a worker polls, and wants one to itself";
            doc.problem(&config.cores_key(), found, allowed);
        }
    }
}

/// DPDK has 128 lcore ids: each worker takes one, and the main thread another.
const WORKERS_OF_ALL: u32 = 127;

/// Two vdevs of one kernel interface would each take all of its frames.
fn one_interface(
    doc: &Document<'_>,
    (section, port): (&str, &Port),
    (whose, other): (&str, &Port),
) {
    let interface = argument(port, "iface").filter(|_| driver(port) == driver(other));
    if let Some(interface) = interface.filter(|_| argument(other, "iface") == interface)
        && name(other) != name(port)
    {
        let found = format!("interface {interface}, {whose} too");
        doc.problem(&format!("{section}.device"), found, "another interface");
    }
}

/// A port must have another device than one before it.
fn distinct(
    doc: &Document<'_>,
    (section, port): (&str, &Port),
    (whose, other): (&str, &Port),
    why: &str,
) {
    let key = format!("{section}.device");
    if !port.device.is_empty() && name(other) == name(port) {
        let found = format!("{}, {whose} device too", name(port));
        doc.problem(&key, found, format!("another device: {why}"));
    }
    if driver(other) == "net_memif"
        && driver(port) == "net_memif"
        && ["socket", "id"].into_iter().all(|a| argument(other, a) == argument(port, a))
        && name(other) != name(port)
    {
        let found = format!("a memif with {whose} socket and id");
        doc.problem(&key, found, "another socket=PATH or id=NUMBER");
    }
}

/// Whether an MTU is wrong, or differs from that of the other port: in its place stands another, which proves nothing.
fn has_wrong_mtu(doc: &Document<'_>, config: &Config) -> bool {
    config.ports().any(|(section, _)| doc.has_problem(&format!("{section}.mtu")))
}

fn mtu(doc: &Document<'_>, config: &Config) {
    if has_wrong_mtu(doc, config) {
        return;
    }
    let (lan, wan) = (config.lan.mtu, config.wan_mtu());
    if lan != wan && config.tunnel.mode == TunnelMode::Off {
        let key = if doc.is_set("wan.mtu") { "wan.mtu" } else { "lan.mtu" };
        let found = format!("lan.mtu {lan} beside wan.mtu {wan}");
        doc.problem(key, found, "the same on both, since frames cross unchanged");
        return;
    }
    let frame = config.longest_mtu() + FRAME_OVERHEAD;
    if config.pool.data_room < frame {
        doc.problem(
            "pool.data_room",
            config.pool.data_room.to_string(),
            format!(
                "at least {frame} bytes: mtu {} and {FRAME_OVERHEAD} of Ethernet header, \
                 VLAN tags and FCS",
                frame - FRAME_OVERHEAD
            ),
        );
    }
    for (side, port) in config.ports() {
        /// A packet socket's header before a frame: `TPACKET2_HDRLEN`, padded.
        const TPACKET: u64 = 64;
        let Some(framesz) = packet_ring(port) else { continue };
        let needed = u64::from(port.mtu + FRAME_OVERHEAD) + TPACKET;
        // Its driver wants an mbuf for whatever a slot of the ring can hold.
        if doc.is_set("pool.data_room") && u64::from(config.pool.data_room) < framesz {
            doc.problem(
                "pool.data_room",
                config.pool.data_room.to_string(),
                format!("at least {framesz}, the framesz of {side}.device"),
            );
        }
        if framesz < needed {
            let room = needed.next_power_of_two();
            doc.problem(
                &format!("{side}.device"),
                format!("framesz={framesz} beside mtu {}", port.mtu),
                format!("at least framesz={needed}, e.g. blocksz={room},framesz={room}"),
            );
        }
    }
}

/// Two VLAN tags, which a LAN port's MTU does not count, and which lie behind the shim.
const TAGS: u16 = 8;

impl Config {
    /// The MTU of the WAN port with room for every frame of the LAN behind the tunnel's headers.
    pub fn wan_mtu_needed(&self) -> u16 {
        self.lan.mtu + TAGS + self.tunnel.headers()
    }
}

fn tunnel(doc: &Document<'_>, config: &mut Config) {
    let count = config.wan.len();
    if config.tunnel.mode == TunnelMode::Off {
        if count > 1 {
            let allowed = "one WAN port, or a tunnel in the first [[wan]]";
            doc.problem("wan", format!("{count} WAN ports without wan.tunnel"), allowed);
        }
        if config.tunnel.lanes > 1 {
            let allowed = "no such key, or wan.tunnel";
            doc.problem("wan.lanes", config.tunnel.lanes.to_string(), allowed);
        }
        if config.tunnel.tunnels > 1 {
            let allowed = "no such key, or wan.tunnel";
            doc.problem("wan.tunnels", config.tunnel.tunnels.to_string(), allowed);
        }
        return;
    }
    if count > usize::from(tunnel::Port::COUNT_MAX) {
        doc.problem(
            "wan",
            format!("{count} WAN ports"),
            format!("at most {}", tunnel::Port::COUNT_MAX),
        );
    }
    let lanes = count * usize::from(config.tunnel.lanes);
    if lanes > usize::from(tunnel::Lane::COUNT_MAX) {
        let found = format!("{lanes} on all ports");
        doc.problem(
            "wan.lanes",
            found,
            format!("at most {} on all ports together", tunnel::Lane::COUNT_MAX),
        );
    }
    if config.tunnel.mode == TunnelMode::Ethernet && config.tunnel.lanes > 1 {
        let allowed = "1: with \"ethernet\" all frames of a port take the same path";
        doc.problem("wan.lanes", config.tunnel.lanes.to_string(), allowed);
    }
    let families = config.wan.iter().filter_map(|wan| Some(wan.udp()?.peer.is_ipv6()));
    if families.clone().any(|v6| v6) && families.clone().any(|v6| !v6) {
        doc.problem("wan.peer", "IPv4 on one port and IPv6 on another", "one of them on all");
    }
    if config.role != Role::Both {
        let found = format!("\"{}\" beside wan.tunnel", word(ROLES, &config.role));
        doc.problem("role", found, "\"both\": an end of the tunnel sends and receives");
    }
    if config.recovery.mode != Recovery::Off {
        let mode = word(RECOVERIES, &config.recovery.mode);
        let allowed = "\"off\", or no such key: the tunnel repairs the long haul, and recovery.lan says \
                       whether the LANs are repaired";
        doc.problem("recovery.mode", format!("\"{mode}\" beside wan.tunnel"), allowed);
    }
    let (tunnels, workers) = (u16::from(config.tunnel.tunnels), config.worker.count);
    if tunnels < workers {
        let found = format!("{tunnels} beside worker.count = {workers}");
        doc.problem("wan.tunnels", found, "at least one for each worker");
    } else if tunnels % workers > 0 {
        let (least, most) = (tunnels / workers, tunnels.div_ceil(workers));
        config.warnings.push(format!(
            "wan.tunnels: {tunnels} tunnels are no equal parts for {workers} workers: some have {most}, \
             some {least}"
        ));
    }
    if has_wrong_mtu(doc, config) {
        return;
    }
    let (lan, wan) = (config.lan.mtu, config.wan_mtu());
    let needed = config.wan_mtu_needed();
    if config.tunnel.mode == TunnelMode::Udp {
        let family = if config.tunnel.is_v6 { "IPv6" } else { "IPv4" };
        // A peer of the wrong family says nothing of the headers.
        let mut peers = config.wan.iter().map(|wan| format!("{}.peer", wan.section));
        let is_unknown = config.tunnel.is_v6 && peers.any(|peer| doc.has_problem(&peer));
        if wan < needed && !is_unknown {
            let headers = needed - lan;
            let allowed = format!(
                "at least {needed}: lan.mtu and {headers} of the headers of a frame in UDP over \
                 {family}; or lan.mtu = {} at most, for the hosts as well",
                wan.saturating_sub(headers)
            );
            doc.problem("wan.mtu", format!("{wan} beside lan.mtu {lan}"), allowed);
        }
        return;
    }
    if wan < lan {
        let found = format!("{wan} beside lan.mtu {lan}");
        doc.problem(
            "wan.mtu",
            found,
            format!("at least lan.mtu; {needed} has room for all frames"),
        );
    } else if wan < needed {
        config.warnings.push(format!(
            "wan.mtu: {wan} has no room for a frame of lan.mtu {lan} with the tunnel's headers: \
             frames with more than {} bytes behind their Ethernet header cross unprotected; \
             wan.mtu = {needed} has room for all",
            wan - config.tunnel.headers()
        ));
    }
}

fn memory(doc: &Document<'_>, config: &Config) {
    if has_wrong_mtu(doc, config) {
        return;
    }
    if let Some((found, allowed)) = config.mbuf_shortage() {
        doc.problem("pool.mbufs", found, allowed);
    }
    // That of all pairs together is known at the last.
    if config.pair.is_last()
        && !doc.has_problem("eal.memory")
        && let Some((found, allowed)) = config.memory_shortage(config.page())
    {
        let keys = [
            "pool.mbufs",
            "eal.memory",
            "recovery.resend_cache",
            "recovery.reorder_pool",
            "recovery.backup_pool",
        ];
        let key = keys.into_iter().find(|key| doc.is_set(key)).unwrap_or("eal.memory");
        doc.problem(key, found, allowed);
    }
}

fn eal(doc: &Document<'_>, config: &Config) {
    /// EAL options that follow from other keys, and which.
    const OWN: &[(&str, &str)] = &[
        ("-l", "eal.cores"),
        ("-c", "eal.cores"),
        ("--lcores", "eal.cores"),
        ("--main-lcore", "eal.cores"),
        ("-m", "eal.memory"),
        ("--socket-mem", "eal.memory"),
        ("--no-huge", "eal.huge_pages"),
        ("--in-memory", "eal.huge_pages"),
        ("--file-prefix", "eal.file_prefix"),
        ("-a", "lan.device and wan.device"),
        ("--allow", "lan.device and wan.device"),
        ("--vdev", "lan.device and wan.device"),
    ];
    let eal = &config.eal;
    for argument in &eal.extra {
        let option = argument.split('=').next().unwrap_or_default();
        if let Some((_, key)) = OWN.iter().find(|(own, _)| *own == option) {
            doc.problem("eal.extra", format!("\"{argument}\""), format!("{key} instead"));
        }
    }
    let (workers, key) = (usize::from(config.worker.count), config.cores_key());
    if !eal.cores.is_empty() && eal.cores.len() != workers {
        doc.problem(
            &key,
            format!("{} cores for worker.count = {workers}", eal.cores.len()),
            "a core for each worker, or [] to let them float",
        );
    }
    let mut cores = eal.cores.clone();
    cores.sort_unstable();
    if let Some(twice) = cores.windows(2).find(|pair| pair[0] == pair[1]) {
        let found = format!("core {} twice", twice[0]);
        doc.problem(&key, found, "each core once: a worker polls, and wants one to itself");
    }
    let is_strange = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    // It is the name of folders, and of sockets.
    let prefix = &eal.file_prefix;
    if prefix.contains(is_strange) || prefix.starts_with('.') || prefix.len() > PREFIX_MAX {
        doc.problem(
            "eal.file_prefix",
            format!("\"{prefix}\""),
            format!(
                "{PREFIX_MAX} letters, digits, '-', '_' and '.' at most, and '.' is not the first"
            ),
        );
    }
    if !eal.memory.is_multiple_of(1 << 20) {
        let found = units::show_size(eal.memory);
        doc.problem("eal.memory", found, "a multiple of 1MiB");
    }
}

/// The longest `eal.file_prefix`: a name of a socket ends at 107 bytes.
const PREFIX_MAX: usize = 64;

fn timers(doc: &Document<'_>, config: &Config) {
    let timers = &config.recovery.tuning;
    if let (Some(status), Some(peer)) = (timers.status_interval, timers.peer_timeout)
        && peer <= status
    {
        doc.problem(
            "recovery.peer_timeout",
            units::show_duration(peer),
            format!(
                "more than status_interval = {}: a peer that reports on time is alive",
                units::show_duration(status)
            ),
        );
    }
}

/// A prefix within another one changes nothing.
fn prefixes(config: &mut Config) {
    let list = &config.peer.remote_prefixes;
    for (n, inner) in list.iter().enumerate() {
        let around = list
            .iter()
            .enumerate()
            .find(|(m, outer)| outer.contains(inner) && (*outer != inner || *m < n));
        if let Some((_, outer)) = around {
            config
                .warnings
                .push(format!("peer.remote_prefixes: {inner} is part of {outer} beside it"));
        }
    }
}

/// Name of a vdev, or the PCI address in full.
fn name(port: &Port) -> Cow<'_, str> {
    match pci_address(&port.device) {
        Some(address) => address.into(),
        None => port.device.split(',').next().unwrap_or_default().into(),
    }
}

/// Bytes of a slot in the ring of a packet socket, if the port is one.
pub(super) fn packet_ring(port: &Port) -> Option<u64> {
    (driver(port) == "net_af_packet").then(|| number(port, "framesz", 2048))
}

/// A vdev's driver: its name without the number.
fn driver(port: &Port) -> &str {
    let name = port.device.split(',').next().unwrap_or_default();
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn argument<'a>(port: &'a Port, name: &str) -> Option<&'a str> {
    port.device.split(',').skip(1).find_map(|a| a.strip_prefix(name)?.strip_prefix('='))
}

fn number(port: &Port, name: &str, default: u64) -> u64 {
    argument(port, name).and_then(|v| v.parse().ok()).unwrap_or(default)
}
