//! Reads a file by the [table of keys](super::keys); a wrong value is replaced by the default and reported as a problem.

use std::path::Path;

use common::wire::{BUCKETS, ROCE_PORT};
use settings::{Document, Section};

use super::keys::sections;
use super::port_pairs::{Beside, Pair};
use super::{
    Config, Congestion, Eal, HugePages, Idle, Keying, LanMode, LinkForward, LinkLossSettings, Peer,
    Pools, Port, Recovery, RecoverySettings, Role, Spread, Tuning, TunnelMode, TunnelSettings, Wan,
    Worker, check, pairs, secret, udp,
};

/// Most workers: a bucket each.
pub(crate) const WORKERS: u16 = BUCKETS as u16;

/// The sizes of bursts that the worker is compiled for.
pub(super) const BURSTS: &[u32] = &[16, 32, BURST_MAX as u32];

/// Most frames of a burst.
pub(crate) const BURST_MAX: usize = 64;

/// Reads one of several pairs of ports, with its cores where it is a `[[pair]]`, after those `before`.
pub(super) fn read_pair(
    doc: &Document<'_>,
    mut root: Section<'_>,
    (file, role): (&Path, Option<Role>),
    (pair, cores): (Pair, Option<Vec<u32>>),
    before: &[Config],
) -> Config {
    // It is read elsewhere.
    root.sections("pair");
    let mut c = Config::empty(file, pair, Beside::of(before));
    let mut peer_at = None;
    for (name, rows) in sections() {
        match name {
            "" => rows.iter().for_each(|row| row.read(&mut root, &mut c, 0)),
            "wan" => read_wan(doc, &mut root, &mut c),
            _ => {
                let mut section = root.section(name);
                rows.iter().for_each(|row| row.read(&mut section, &mut c, 0));
                if name == "peer" {
                    peer_at = section.at();
                }
                section.finish();
            }
        }
        // Defaults of the sections that follow depend on these.
        if name == "eal" && c.pair.is_table {
            if doc.is_set("eal.cores") {
                let found = "a list beside [[pair]]";
                doc.problem("eal.cores", found, "no such key; cores in each [[pair]]");
            }
            c.eal.cores = cores.clone().unwrap_or_default();
        }
    }
    c.queue_pairs = pairs::read(doc, root.sections("queue_pair"));
    root.finish();

    c.role = role.unwrap_or(c.role);
    if let Some(first) = before.first() {
        c.eal.file_prefix.clone_from(&first.eal.file_prefix);
    }
    c.peer.node = c.pair.node(before.first().map_or(c.peer.node, |first| first.peer.node));
    if c.tunnel.tunnels == 0 {
        let workers = if c.has_tunnel() { c.worker.count } else { 1 };
        c.tunnel.tunnels = u8::try_from(workers.next_power_of_two()).unwrap_or(u8::MAX);
    }
    if !c.has_tunnel() && doc.is_set("recovery.lan") {
        let allowed = "no such key, or wan.tunnel: recovery.mode covers the LANs without a tunnel";
        doc.problem("recovery.lan", "a value", allowed);
    }
    read_secrets(doc, &mut c, peer_at);
    c.size_pool();
    check::all(doc, &mut c);
    c
}

/// Reads `[wan]`, or several `[[wan]]`. The first has the keys of the tunnel.
fn read_wan(doc: &Document<'_>, root: &mut Section<'_>, c: &mut Config) {
    let mut all =
        if root.is_array("wan") { root.sections("wan") } else { vec![root.section("wan")] };
    if all.is_empty() {
        // That there is no port has to be said.
        all.push(root.section("wan"));
    }
    c.wan = all.iter().map(|section| Wan::empty(section.name())).collect();
    let rows = sections().find(|(name, _)| *name == "wan").map_or(&[][..], |(_, rows)| rows);
    for (n, mut section) in all.into_iter().enumerate() {
        for row in rows.iter().filter(|row| n == 0 || row.is_of_each_wan()) {
            row.read(&mut section, c, n);
        }
        if n == 0 && c.tunnel.port == ROCE_PORT {
            let key = section.path("tunnel_port");
            doc.problem(&key, ROCE_PORT.to_string(), "another one: this is RoCE's");
        }
        udp::check(doc, &section, c.tunnel.mode, &mut c.wan[n]);
        section.finish();
    }
    c.tunnel.is_v6 = c.wan.iter().any(|wan| wan.udp().is_some_and(|udp| udp.peer.is_ipv6()));
}

/// Reads the files of keys, of a `[peer]` that begins `at` an offset.
fn read_secrets(doc: &Document<'_>, c: &mut Config, at: Option<usize>) {
    let Config { peer, warnings, .. } = c;
    if peer.lab_unkeyed && (peer.key_file.is_some() || peer.previous_key_file.is_some()) {
        doc.problem("peer.lab_unkeyed", "true besides a key file", "one or the other");
    }
    if !peer.lab_unkeyed && !doc.is_set("peer.key_file") {
        doc.missing(
            at,
            "peer.key_file",
            "the file with the secret that both boxes share (openssl rand -hex 32 > FILE), \
             or lab_unkeyed = true",
        );
    }
    let mut read = |key, file: &Option<std::path::PathBuf>| {
        file.as_deref().and_then(|file| secret::read(doc, key, file, warnings))
    };
    let current = read("peer.key_file", &peer.key_file);
    let previous = read("peer.previous_key_file", &peer.previous_key_file);
    if current.is_some() && current == previous {
        doc.problem(
            "peer.previous_key_file",
            "the same secret as in key_file",
            "the secret used before, or no such key when no rotation is under way",
        );
    }
    if let Some(current) = current {
        peer.keying = Keying::Shared { current, previous };
    }
}

/// As many workers as there are cores for them.
pub(super) fn usual_workers(c: &Config) -> u16 {
    u16::try_from(c.eal.cores.len().clamp(1, usize::from(WORKERS))).unwrap_or(WORKERS)
}

impl Wan {
    fn empty(section: &str) -> Self {
        Self { section: section.to_owned(), ..Self::default() }
    }
}

impl Config {
    /// All fields of keys are empty: the table has the defaults.
    fn empty(file: &Path, pair: Pair, beside: Beside) -> Self {
        Self {
            file: file.to_owned(),
            pair,
            beside,
            role: Role::Both,
            lan: Port::default(),
            wan: Vec::new(),
            tunnel: TunnelSettings::default(),
            link_loss: LinkLossSettings {
                forward: LinkForward::Off,
                hold_down: Default::default(),
            },
            eal: Eal {
                huge_pages: HugePages::Auto,
                memory: 0,
                file_prefix: String::new(),
                cores: Vec::new(),
                extra: Vec::new(),
            },
            worker: Worker {
                count: 0,
                spread: Spread::Rss,
                idle: Idle::Busy,
                burst: 0,
                max_flows: 0,
            },
            peer: Peer::default(),
            recovery: RecoverySettings {
                mode: Recovery::Off,
                lan: LanMode::Off,
                pools: Pools::default(),
                local_retries: 0,
                pacing: false,
                tuning: Tuning::default(),
            },
            congestion: Congestion::default(),
            queue_pairs: Vec::new(),
            pool: Default::default(),
            listen: ([0; 4], 0).into(),
            socket: None,
            group: None,
            records: 0,
            drain_timeout: Default::default(),
            warnings: Vec::new(),
        }
    }

    /// The same with a WAN port.
    pub(super) fn empty_with_wan() -> Self {
        let wan = vec![Wan::empty("wan")];
        Self { wan, ..Self::empty(Path::new(""), Pair::default(), Beside::default()) }
    }

    /// Whether frames cross the WAN in a tunnel.
    pub fn has_tunnel(&self) -> bool {
        self.tunnel.mode != TunnelMode::Off
    }

    /// Whether a port is a PCI function.
    pub(super) fn has_pci(&self) -> bool {
        self.ports().any(|(_, port)| port.is_pci())
    }

    /// Whether several lanes of one port lead through a network.
    pub(super) fn shares_paths(&self) -> bool {
        self.tunnel.mode == TunnelMode::Udp && self.tunnel.lanes > 1 && self.wan.len() == 1
    }
}

/// A number for this box that stays the same over restarts: two gateways on
/// one machine differ in their files or their LAN devices.
pub(super) fn node_id(file: &Path, device: &str) -> u32 {
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
    u32::from_be_bytes(word).max(1)
}
