//! Describes every key, and makes `docs/configuration.md`.
//!
//! The page has the keys and values that the parser asks for, and the defaults
//! that it fills in: only the words about a key are written here. A key without
//! a description, and a description without a key, fail the test.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::{Config, Role, parse, schema};

/// A key's text on the page, besides the facts that the parser knows.
struct Key {
    /// With its section.
    name: &'static str,
    /// Where the default depends on the machine or on other keys, how.
    default: Option<&'static str>,
    /// The effect of the key.
    does: &'static str,
    /// When to set it.
    change: &'static str,
}

const fn key(name: &'static str, does: &'static str, change: &'static str) -> Key {
    Key { name, default: None, does, change }
}

impl Key {
    const fn by_default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// The text about each section.
const SECTIONS: &[(&str, &str)] = &[
    ("", "Top level"),
    ("lan", "`[lan]` and `[wan]`"),
    ("peer", "`[peer]`"),
    ("eal", "`[eal]`"),
    ("worker", "`[worker]`"),
    ("recovery", "`[recovery]`"),
    ("congestion", "`[congestion]`"),
    ("queue_pair", "`[[queue_pair]]`"),
    ("pool", "`[pool]`"),
    ("control", "`[control]`"),
    ("shutdown", "`[shutdown]`"),
];

/// The text before the keys of a section.
fn about(section: &str) -> &'static str {
    match section {
        "lan" => {
            "The port towards the hosts, and the port towards the long-haul link. Both sections \
             have the same keys."
        }
        "peer" => {
            "How the two boxes of a link know each other. Exactly one of `key_file` and \
             `lab_unkeyed = true` is required."
        }
        "eal" => "DPDK's environment abstraction layer (EAL).",
        "worker" => "The threads that poll the ports.",
        "recovery" => {
            "How losses are repaired. [sizing.md](sizing.md) has the rule for the three pools, and \
             [protocol.md](protocol.md#timers) the timers. The timers are normally \
             derived from the round trips that the box measures."
        }
        "queue_pair" => {
            "One table for each queue pair whose two ends the operator names. Both boxes may have \
             the same list; which end is `a` makes no difference. \
             [configs/queue-pairs.toml](../configs/queue-pairs.toml) is an example."
        }
        "pool" => "The DPDK mempool that all frames live in.",
        _ => "",
    }
}

const DEVICE: &str = "The DPDK device of the port.";

const KEYS: &[Key] = &[
    key(
        "role",
        "Which pipelines the box runs: Sentry for packets of its hosts, Depot for packets to them. The option `--role` overrides it.",
        "For trials of one direction. A link in operation needs `both` at each end.",
    )
    .by_default("`\"both\"`"),
    key("lan.device", DEVICE, "Always: there is no default."),
    key(
        "lan.mtu",
        "Largest Ethernet payload, VLAN tags not included. Must be the same on both ports.",
        "Choose the smallest that fits the hosts' path MTU: 4200 for 4096, 1500 for 1024. A held frame takes an mbuf of this size, so more wastes memory.",
    ),
    key(
        "lan.rx_desc",
        "Descriptors of each worker's receive queue.",
        "Raise it where `lr2_port_missed_frames_total` grows.",
    ),
    key("lan.tx_desc", "Descriptors of each worker's transmit queue.", "Raise it with `rx_desc`."),
    key(
        "lan.promiscuous",
        "Receives frames for any MAC address. The gateway needs it, since it has no address of its own.",
        "Only for a device that refuses promiscuous mode and receives every frame without it.",
    ),
    key(
        "peer.key_file",
        "File with the secret that authenticates control messages, the same on both boxes.",
        "Always, except in a lab.",
    )
    .by_default("required, or `lab_unkeyed`"),
    key(
        "peer.previous_key_file",
        "File with the secret used before. Messages with either secret are accepted.",
        "While you change keys: give both boxes the new key and the previous one, then remove this key from both.",
    )
    .by_default("none"),
    key(
        "peer.lab_unkeyed",
        "Uses a well-known key: anybody on the path can forge control messages.",
        "In a lab only, instead of `key_file`.",
    )
    .by_default("`false`"),
    key(
        "peer.control_opcode",
        "BTH opcode of control messages, from the manufacturer range. Must be the same on both boxes.",
        "Where other equipment on the path uses this opcode.",
    ),
    key(
        "peer.node",
        "Number of this box. Boxes that share a key need different ones.",
        "Where two boxes have the same machine id, as copies of one image may.",
    )
    .by_default("derived from the machine id, the path of the file, and `lan.device`"),
    key(
        "peer.remote_prefixes",
        "Destinations that have a gateway in front of them. Flows to other destinations pass unprotected. An empty list means all.",
        "Where only some traffic crosses the long-haul link.",
    ),
    key(
        "peer.boot_file",
        "File that keeps the boot id, which must grow from start to start.",
        "Where `/var/lib/lr2` does not survive a restart, and for each gateway if a machine runs several.",
    ),
    key(
        "eal.huge_pages",
        "Whether DPDK's memory comes from hugepages. `\"auto\"` uses them if enough are free.",
        "`\"require\"` in operation, `\"never\"` for trials.",
    ),
    key(
        "eal.memory",
        "Memory for mbufs, rings and DPDK itself; a multiple of 1MiB.",
        "With the pools: `--check` names the least that the configuration takes.",
    ),
    key(
        "eal.file_prefix",
        "Tells the DPDK processes of a machine apart: letters, digits, `-`, `_`, `.`.",
        "Rarely.",
    )
    .by_default("`lr2-` and `peer.node`"),
    key(
        "eal.cores",
        "The CPU of each worker, in order. Empty: the kernel places the workers.",
        "In operation: isolated cores of the ports' NUMA node.",
    ),
    key(
        "eal.extra",
        "Further arguments for the EAL. Those that follow from other keys are refused.",
        "For options of DPDK without a key in this file.",
    ),
    key(
        "worker.count",
        "Number of workers. Each has a queue of both ports and a share of all pools and of the flow table.",
        "Where one core is not enough. All queue pairs of two hosts belong to one worker, so more workers help only if there are several pairs of hosts.",
    )
    .by_default("as many as `eal.cores`, or 1"),
    key(
        "worker.spread",
        "How pairs of hosts are divided among the workers: by the NIC's receive-side scaling (`\"rss\"`), or by a hash in software that spreads any addresses (`\"mixed\"`).",
        "`\"mixed\"` where hosts are numbered alike at both sites: `\"rss\"` puts all of these on one worker.",
    )
    .by_default("`\"rss\"` if a port is a PCI device, else `\"mixed\"`"),
    key(
        "worker.idle",
        "How a worker waits for frames: polls on (`\"busy\"`), or sleeps for up to 1 ms at a time after 50 ms without a frame (`\"adaptive\"`, with one worker only). The first burst after a sleep is lost beyond the receive ring.",
        "`\"adaptive\"` where other processes need the core.",
    )
    .by_default("`\"busy\"` if a port is a PCI device, else `\"adaptive\"`"),
    key(
        "worker.burst",
        "Most frames that a worker takes from a port at once.",
        "Rarely.",
    ),
    key(
        "worker.max_flows",
        "Entries of the flow table. A queue pair takes two; two hosts may have seven eighths of the table. Flows beyond it pass unprotected.",
        "Twice the number of queue pairs, and an eighth more if they are all between two hosts.",
    ),
    key(
        "recovery.mode",
        "How lost packets are repaired: see [recovery modes](../README.md#recovery-modes).",
        "`\"off\"` to compare, `\"lr2\"` where there is no memory for a resend cache.",
    ),
    key(
        "recovery.resend_cache",
        "Frames that the Sentry keeps to resend them.",
        "By the link: 2.5 bandwidth-delay products at a loss of 1e-3, 3.5 at 1e-2.",
    ),
    key(
        "recovery.reorder_pool",
        "Frames that the Depot holds behind a gap.",
        "By the link: one bandwidth-delay product at a loss of 1e-3, two at 1e-2.",
    ),
    key(
        "recovery.backup_pool",
        "Delivered frames that the Depot keeps until the destination acknowledges them, to resend them on its LAN.",
        "By the LAN: two round trips to the hosts at the rate of the link.",
    ),
    key(
        "recovery.local_retries",
        "How many timeouts in a row the Depot answers by a resend before it leaves the flow to the RNICs.",
        "Rarely.",
    ),
    key(
        "recovery.pacing",
        "Paces packets that waited behind a gap, at the rate at which they came. `false` delivers them at once.",
        "`false` where the hosts' links are much faster than the flows and have deep buffers; it is worse elsewhere.",
    ),
    key(
        "recovery.rtt_guess",
        "Round trip of the long-haul link that is assumed until it is measured.",
        "Always: set it to about the round trip of the link.",
    ),
    key(
        "recovery.tail_timeout",
        "Silence of the source after which the Sentry sends SYNC(tail) for a flow's last packets.",
        "Rarely.",
    )
    .by_default("RTT/8, at least 100us"),
    key(
        "recovery.status_interval",
        "Longest time between two STATUS, and between two keepalives, while data flows.",
        "Rarely.",
    )
    .by_default("RTT/2, at least 500us"),
    key(
        "recovery.peer_timeout",
        "Time after an unanswered SYNC at which the Sentry stops protecting the flow. Longer than `status_interval`.",
        "Rarely.",
    )
    .by_default("2 RTT and margin, at least 10ms"),
    key(
        "recovery.give_up",
        "Time without progress after which the Depot delivers held packets past an open gap. Four times as long is the silence after which it forgets a flow.",
        "Where the RNICs' timeouts are shorter than the default.",
    )
    .by_default("6 RTT, at least 20ms"),
    key(
        "recovery.t_out",
        "Time without a response of the destination after which the Depot resends on its LAN.",
        "Rarely.",
    )
    .by_default("measured as in RFC 6298, at least `t_out_min`"),
    key(
        "recovery.t_out_min",
        "Lower bound of the derived `t_out`.",
        "Where hosts answer later than this without any loss.",
    ),
    key(
        "congestion.cnp",
        "Whether the Depot sends congestion notification packets (CNPs) to sources whose destination's LAN is congested.",
        "`\"off\"` where hosts use no DCQCN.",
    ),
    key("congestion.cnp_interval", "Shortest time between two CNPs to one queue pair.", "Rarely."),
    key("queue_pair.a", "Address of the host at one end.", "Always, in each table.")
        .by_default("required"),
    key("queue_pair.a_qpn", "Number of its queue pair.", "Always, in each table.")
        .by_default("required"),
    key("queue_pair.b", "Address of the host at the other end.", "Always, in each table.")
        .by_default("required"),
    key("queue_pair.b_qpn", "Number of its queue pair.", "Always, in each table.")
        .by_default("required"),
    key(
        "queue_pair.vlans",
        "VLAN ids of the hosts' packets.",
        "Where these packets carry VLAN tags.",
    )
    .by_default("`[]`"),
    key(
        "pool.mbufs",
        "Number of mbufs.",
        "Where hosts send messages much shorter than the path MTU: a pool is limited in frames, and then holds fewer bytes than configured.",
    )
    .by_default("as many as rings, queues and the three pools take at the largest path MTU"),
    key("pool.data_room", "Largest frame that fits into an mbuf.", "Rarely.")
        .by_default("`mtu` + 26"),
    key(
        "control.listen",
        "Where `/metrics` and `/healthz` are served, by HTTP and without authentication.",
        "Where Prometheus runs on another machine: an address of a management network.",
    ),
    key(
        "shutdown.drain_timeout",
        "How long held frames may take to leave after SIGTERM or SIGINT.",
        "On links with a round trip near it. The unit's `TimeoutStopSec` must be longer.",
    ),
];

/// The beginning of the page.
const HEAD: &str = "<!-- Generated by `LR2_RENEW_SNAPSHOTS=1 cargo test -p gateway --lib reference`: change \
gateway/src/config/reference.rs, not the page. -->

# Configuration

`lr2-gateway --config FILE` reads one TOML file. A file with two devices and a key is complete
([configs/minimal.toml](../configs/minimal.toml)); [configs/](../configs) has examples for Intel E810,
ConnectX, memif and a list of queue pairs.

```
lr2-gateway --config FILE --check
```

prints the effective configuration with all defaults, and the memory that it takes; or every
mistake, each with its line, the value found and the values allowed. A change needs a restart.

Durations are a number and one of ns, us, ms, s (`\"10ms\"`); sizes a number and one of B, KiB, MiB,
GiB, TiB, kB, MB, GB, TB (`\"64MiB\"`); both are strings. RTT is the round trip of the long-haul
link.
";

/// Two ports and no secret.
const LEAST: &str = "[lan]\ndevice = \"0000:3b:00.0\"\n[wan]\ndevice = \"0000:3b:00.1\"\n\
                     [peer]\nlab_unkeyed = true\n";

fn read(text: &str) -> Config {
    parse(Path::new("gw.toml"), text, None).expect("the least configuration")
}

/// Every key that the parser asks for, in its order, with the values it takes.
fn asked() -> Vec<(String, String)> {
    let pair = "[[queue_pair]]\na = \"10.0.0.1\"\na_qpn = 17\nb = \"10.0.0.2\"\nb_qpn = 18\n";
    let file = Path::new("gw.toml");
    settings::parse(file, &format!("{LEAST}{pair}"), &[], |doc, root| {
        schema::read(doc, root, file, Some(Role::Both));
        doc.asked()
    })
    .expect("the least configuration")
    .into_iter()
    .map(|(path, allowed)| (path.replace("queue_pair[1]", "queue_pair"), allowed))
    .collect()
}

/// The defaults that are filled in, by key.
fn defaults() -> BTreeMap<String, String> {
    let mut section = String::new();
    let mut all = BTreeMap::new();
    for line in read(LEAST).to_string().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((name, value)) = line.split_once(" = ") {
            all.insert(format!("{section}{name}"), format!("`{value}`"));
        }
    }
    all
}

/// The keys that an empty file lacks.
fn required() -> Vec<String> {
    let report = parse(Path::new("gw.toml"), "", None).expect_err("an empty file");
    report.problems.into_iter().map(|problem| problem.key).collect()
}

/// Values as a table has them: how a quantity is written is told once for all.
fn values(allowed: &str) -> String {
    let short = allowed.split(", written as ").next().unwrap_or_default();
    let mut shown = String::new();
    for (n, part) in short.split('"').enumerate() {
        shown += &if n % 2 == 0 { part.to_owned() } else { format!("`\"{part}\"`") };
    }
    shown
}

fn page() -> String {
    let (asked, defaults, required) = (asked(), defaults(), required());
    let mut page = HEAD.to_owned();
    for (section, title) in SECTIONS {
        write!(page, "\n## {title}\n\n").expect("memory");
        if !about(section).is_empty() {
            write!(page, "{}\n\n", about(section)).expect("memory");
        }
        page += "| key | values | default | effect | when to change it |\n";
        page += "| --- | --- | --- | --- | --- |\n";
        for (path, allowed) in &asked {
            let (of, name) = path.rsplit_once('.').unwrap_or(("", path));
            if of != *section {
                continue;
            }
            let Key { default, does, change, .. } = KEYS
                .iter()
                .find(|key| key.name == path)
                .unwrap_or_else(|| panic!("{path} has no description in KEYS"));
            let default = match (default, defaults.get(path)) {
                (Some(words), _) => words,
                _ if required.contains(path) => "required",
                (None, Some(value)) => value,
                (None, None) => panic!("{path}: the effective configuration has no default"),
            };
            writeln!(page, "| `{name}` | {} | {default} | {does} | {change} |", values(allowed))
                .expect("memory");
        }
    }
    page
}

/// `LR2_RENEW_SNAPSHOTS=1` writes the page anew.
#[test]
fn the_page_has_every_key_as_the_parser_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let found = page();
    if std::env::var_os("LR2_RENEW_SNAPSHOTS").is_some() {
        std::fs::write(&path, &found).expect("the page can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/configuration.md is out of date: \
         LR2_RENEW_SNAPSHOTS=1 cargo test -p gateway --lib reference"
    );
}

#[test]
fn every_description_is_of_a_key() {
    let asked = asked();
    for key in KEYS {
        assert!(asked.iter().any(|(path, _)| path == key.name), "{} is no key", key.name);
    }
}

#[test]
fn every_section_is_on_the_page_and_both_ports_have_the_same_keys() {
    let asked = asked();
    let port = |side: &str| -> Vec<_> {
        asked
            .iter()
            .filter_map(|(path, allowed)| Some((path.strip_prefix(side)?, allowed)))
            .collect()
    };
    assert_eq!(port("lan."), port("wan."));
    for (path, _) in &asked {
        let section = path.rsplit_once('.').map_or("", |(section, _)| section);
        let listed = SECTIONS.iter().any(|(name, _)| *name == section);
        assert!(listed || section == "wan", "the page has no section for {path}");
    }
}
