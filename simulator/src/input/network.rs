//! `[topology]`, `[long_haul]`, `[site]` and `[gateway]`.

use common::time::Span;
use link::{LossModel, Outage, Reordering};
use settings::{Document, Section};

use super::wan;
use crate::scenario::{
    Carriage, Ecn, GatewayModel, LanQueue, LanRepair, LongHaul, LossIn, Pfc, Policy, Site, Topology,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Slowest and fastest link, bit/s.
pub(super) const RATES: (u64, u64) = (1_000_000, 10_000_000_000_000);

/// Longest time that anything takes.
const LONGEST: Span = Span::from_millis(3_600_000);

/// Reads the rest of the section.
type Reader = fn(&mut Section<'_>) -> Topology;

/// The kinds of topology.
const TOPOLOGIES: &[(&str, Reader)] = &[
    ("pair", |_| Topology::Pair),
    ("dumbbell", |s| Topology::Dumbbell {
        hosts: s.int("hosts", 1, 4096, "hosts per site").unwrap_or(4),
    }),
    ("leaf-spine", |s| Topology::LeafSpine {
        leaves: s.int("leaves", 1, 256, "leaf switches per site").unwrap_or(2),
        spines: s.int("spines", 1, 256, "spine switches per site").unwrap_or(2),
        hosts_per_leaf: s.int("hosts_per_leaf", 1, 256, "hosts per leaf switch").unwrap_or(4),
        long_hauls: s.int("long_hauls", 1, 64, "long-haul links").unwrap_or(1),
    }),
];

pub(super) fn topology(mut s: Section<'_>) -> Topology {
    let topology = s.choice("kind", TOPOLOGIES).map_or(Topology::Pair, |read| read(&mut s));
    s.finish();
    topology
}

pub(super) fn long_haul(doc: &Document<'_>, mut s: Section<'_>) -> LongHaul {
    let shortest = Span::from_nanos(100);
    s.require("rate", "the rate of the long-haul link, e.g. \"100Gbps\"");
    s.require(
        "loss",
        "the share of packets that it loses: 1e-3, \"0.1%\", 0, or \
                       { rate = 1e-3, burst = 8 }",
    );
    let rate = s.rate("rate", RATES.0, RATES.1).unwrap_or(10_000_000_000);
    let delay = s.duration("delay", shortest, Span::from_millis(10_000));
    let rtt = s.duration("rtt", shortest.scale(2, 1), Span::from_millis(20_000));
    if s.has("delay") && s.has("rtt") {
        doc.problem("long_haul.rtt", "rtt beside delay", "one of them: rtt is twice the delay");
    } else if !s.has("rtt") {
        s.require("delay", "the one-way delay, e.g. \"5ms\", or rtt, the round trip");
    }
    let jitter = s.duration("jitter", Span::ZERO, Span::from_millis(10_000));
    let there = loss(doc, &mut s, "loss").unwrap_or(LossModel::None);
    let back = loss(doc, &mut s, "loss_back").unwrap_or(there);
    let outage = outage(doc, &mut s, true);
    let reordering = reordering(&mut s);
    let mut haul = LongHaul {
        rate,
        delay: delay.or(rtt.map(|rtt| rtt.scale(1, 2))).unwrap_or(shortest),
        jitter: jitter.unwrap_or_default(),
        loss: there,
        loss_back: back,
        outage,
        reordering,
        paths: Vec::new(),
        has_own_ports: s.choice("ports", PORTS).unwrap_or(false),
    };
    haul.paths = wan::paths(doc, s.sections("paths"), &haul);
    haul.delay = haul.paths.iter().map(|path| path.delay).min().unwrap_or(haul.delay);
    s.finish();
    haul
}

/// Whether each path has WAN ports of its own.
const PORTS: &[(&str, bool)] = &[("shared", false), ("own", true)];

/// A share, or a table with a share and the mean length of bursts.
pub(super) fn loss(
    doc: &Document<'_>,
    s: &mut Section<'_>,
    key: &'static str,
) -> Option<LossModel> {
    /// With more, no scheme gets anywhere.
    const MOST: f64 = 0.9;
    let single = |rate| if rate > 0.0 { LossModel::Bernoulli(rate) } else { LossModel::None };
    if !s.is_table(key) {
        return s.share(key, 0.0, MOST).map(single);
    }
    let mut table = s.section(key);
    table.require("rate", "the share of packets lost, e.g. 1e-3");
    let rate = table.share("rate", 0.0, MOST);
    let burst = table.number("burst", 1.0, 1e6, "packets");
    let path = table.path("burst");
    table.finish();
    match (rate?, burst) {
        (rate, Some(burst)) if rate > 0.0 => LossModel::bursts(rate, burst)
            .map_err(|error| doc.problem(&path, error.0, "longer bursts, or less loss"))
            .ok(),
        (rate, _) => Some(single(rate)),
    }
}

pub(super) fn reordering(s: &mut Section<'_>) -> Option<Reordering> {
    let is_set = s.has("reordering");
    let mut table = s.section("reordering");
    if is_set {
        table.require("share", "the share of frames that take a detour, e.g. 1e-4");
        table.require("extra", "how much longer the detour takes, e.g. \"20us\"");
    }
    let probability = table.share("share", 0.0, 1.0);
    let extra = table.duration("extra", Span::ZERO, Span::from_millis(10_000));
    table.finish();
    Some(Reordering { probability: probability?, extra: extra? })
}

/// A time in which nothing arrives; one without an end only if it need not have one.
pub(super) fn outage(doc: &Document<'_>, s: &mut Section<'_>, must_end: bool) -> Option<Outage> {
    let is_set = s.has("outage");
    let mut table = s.section("outage");
    if is_set {
        table.require("start", "when it begins, e.g. \"100ms\"");
        if must_end {
            table.require("duration", "how long it lasts, e.g. \"20ms\"");
        }
    }
    let start = table.duration("start", Span::ZERO, LONGEST);
    let duration = table.duration("duration", Span::from_nanos(1), LONGEST);
    let every = table.duration("every", Span::from_nanos(1), LONGEST);
    let path = table.path("every");
    table.finish();
    let outage =
        Outage { start: start?, duration: duration.or((!must_end).then_some(LONGEST))?, every };
    if let Some(every) = every
        && every <= outage.duration
    {
        let found = settings::units::show_duration(every);
        let duration = settings::units::show_duration(outage.duration);
        doc.problem(&path, found, format!("more than duration = {duration}"));
    }
    Some(outage)
}

/// The words for [`LossIn`].
const LOSS_IN: &[(&str, LossIn)] =
    &[("both", LossIn::Both), ("source", LossIn::Source), ("destination", LossIn::Destination)];

pub(super) fn site(mut s: Section<'_>, topology: Topology, long_haul_rate: u64) -> Site {
    let is_pair = topology == Topology::Pair;
    let host_rate = s.rate("host_rate", RATES.0, RATES.1).unwrap_or(long_haul_rate);
    let fabric_rate =
        s.rate("fabric_rate", RATES.0, RATES.1).unwrap_or(host_rate.max(long_haul_rate));
    let site = Site {
        host_rate,
        fabric_rate,
        delay: s
            .duration("delay", Span::ZERO, Span::from_millis(100))
            .unwrap_or(Span::from_micros(1)),
        loss: s.share("loss", 0.0, 0.5).unwrap_or(0.0),
        loss_in: s.choice("loss_in", LOSS_IN).unwrap_or(LossIn::Both),
        buffer: s.size("buffer", 16 * KIB, TIB).unwrap_or(32 * MIB),
        shared_buffer: s.bool("shared_buffer").unwrap_or(true),
        ecn: optional(&mut s, "ecn", !is_pair).map(|table| ecn(table, host_rate)),
        pfc: optional(&mut s, "pfc", !is_pair).map(pfc),
    };
    s.finish();
    site
}

/// A setting that is off (`key = false`), on with its defaults (`true`), or a table with
/// settings of its own.
pub(super) fn optional<'d>(
    s: &mut Section<'d>,
    key: &'static str,
    default: bool,
) -> Option<Section<'d>> {
    if s.is_table(key) {
        return Some(s.section(key));
    }
    let is_on =
        s.read(key, &format!("true, false or a section, [{}]", s.path(key)), |v| v.as_bool());
    is_on.unwrap_or(default).then(|| s.absent())
}

/// The thresholds that the HPCC simulations use, which grow with the rate:
/// 400 kB and 1.6 MB at 100 Gbit/s.
pub(super) fn ecn(mut s: Section<'_>, rate: u64) -> Ecn {
    let bytes_per_gbps = |bytes: u64| (bytes * rate / 1_000_000_000).max(16 * KIB);
    let ecn = Ecn {
        kmin: s.size("kmin", 0, TIB).unwrap_or(bytes_per_gbps(4_000)),
        kmax: s.size("kmax", 0, TIB).unwrap_or(bytes_per_gbps(16_000)),
        pmax: s.share("pmax", 0.0, 1.0).unwrap_or(0.2),
    };
    s.finish();
    ecn
}

fn pfc(mut s: Section<'_>) -> Pfc {
    let xoff = s.size("xoff", KIB, TIB).unwrap_or(512 * KIB);
    let pfc = Pfc { xoff, xon: s.size("xon", 0, TIB).unwrap_or(xoff / 4 * 3) };
    s.finish();
    pfc
}

/// The words for [`LanQueue`].
const LAN_QUEUES: &[(&str, LanQueue)] = &[("fifo", LanQueue::Fifo), ("fair", LanQueue::Fair)];

/// The words for [`Policy`].
const POLICIES: &[(&str, Policy)] = &[
    ("pinned", Policy::Pinned),
    ("oblivious", Policy::Oblivious),
    ("reps", Policy::Reps),
    ("strack", Policy::Strack),
    ("earliest", Policy::Earliest),
];

/// The words for [`LanRepair`].
const LAN_REPAIRS: &[(&str, LanRepair)] =
    &[("off", LanRepair::Off), ("auto", LanRepair::Auto), ("on", LanRepair::On)];

/// The words for [`Carriage`].
const CARRIAGES: &[(&str, Carriage)] = &[("ethernet", Carriage::Ethernet), ("udp", Carriage::Udp)];

/// A size, or a number of bandwidth-delay products of the long haul.
fn budget(s: &mut Section<'_>, bdp: u64) -> Option<u64> {
    let products = |products: f64| (products * bdp as f64) as u64;
    let allowed = format!(
        "0 to 1TiB, or 0 to 1000 bandwidth-delay products of the long haul, written as {} or a \
         number",
        settings::units::SIZE_SYNTAX
    );
    s.read("budget", &allowed, |v| match v.as_str() {
        Some(text) => settings::units::size(text).ok().filter(|size| *size <= TIB),
        None => settings::number(v).filter(|n| (0.0..=1000.0).contains(n)).map(products),
    })
}

pub(super) fn gateway(mut s: Section<'_>, haul: &LongHaul) -> GatewayModel {
    let (bdp, paths) = (haul.bdp(), haul.paths.len().max(1) as u16);
    let gateway = GatewayModel {
        budget: budget(&mut s, bdp).unwrap_or((8 * bdp).clamp(16 * MIB, TIB)),
        reorder: s.size("reorder", 0, TIB),
        backup: s.size("backup", 0, TIB),
        cache: s.size("cache", 0, TIB),
        paper_reorder: s.size("paper_reorder", 0, TIB),
        paper_backup: s.size("paper_backup", 0, TIB),
        netrt_buffer: s.size("netrt_buffer", 0, TIB),
        queue: s.size("queue", 16 * KIB, TIB).unwrap_or(16 * MIB),
        pacing: s.bool("pacing").unwrap_or(true),
        cnp: s.bool("cnp").unwrap_or(true),
        lan_queue: s.choice("lan_queue", LAN_QUEUES).unwrap_or(LanQueue::Fair),
        tunnel: s.choice("tunnel", CARRIAGES).unwrap_or(Carriage::Ethernet),
        spray: s.choice("spray", POLICIES).unwrap_or_default(),
        lan: s.choice("lan", LAN_REPAIRS).unwrap_or(LanRepair::Off),
        lanes: s.short("lanes", 1, 255, "lanes").unwrap_or(paths) as u8,
    };
    s.finish();
    gateway
}
