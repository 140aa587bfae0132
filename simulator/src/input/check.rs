//! Settings that are fine each by itself and cannot work together.

use settings::Document;
use settings::units::{show_duration, show_rate, show_size};

use super::nic::MOST_PACKETS;
use crate::scenario::{Scenario, Scope, Topology, Traffic};

/// Adds a problem for each setting that cannot work.
pub(super) fn all(doc: &Document<'_>, s: &Scenario) {
    const LINK: [&str; 4] =
        ["long_haul.rate", "long_haul.delay", "long_haul.rtt", "site.host_rate"];
    thresholds(doc, s);
    windows(doc, s);
    hosts(doc, s);
    if !LINK.iter().any(|key| doc.has_problem(key)) {
        bdp(doc, s);
        times(doc, s);
        dcqcn(doc, s);
        loads(doc, s);
    }
}

/// The key that the file sets, of those that a value follows from; the last one
/// if it sets none.
fn set<'k>(doc: &Document<'_>, keys: &[&'k str]) -> &'k str {
    keys.iter().find(|key| doc.is_set(key)).or(keys.last()).copied().unwrap_or_default()
}

fn thresholds(doc: &Document<'_>, s: &Scenario) {
    let buffer = s.site.buffer;
    if let Some(ecn) = s.site.ecn {
        if ecn.kmin > ecn.kmax {
            let found = format!("{} above kmax = {}", show_size(ecn.kmin), show_size(ecn.kmax));
            doc.problem(set(doc, &["site.ecn.kmin", "site.ecn.kmax"]), found, "at most kmax");
        }
        if ecn.kmax > buffer {
            let found =
                format!("kmax {} beside buffer = {}", show_size(ecn.kmax), show_size(buffer));
            doc.problem(set(doc, &["site.ecn.kmax", "site.buffer"]), found, "at most the buffer");
        }
    }
    if let Some(pfc) = s.site.pfc {
        if pfc.xon >= pfc.xoff {
            let found = format!("{} beside xoff = {}", show_size(pfc.xon), show_size(pfc.xoff));
            doc.problem(set(doc, &["site.pfc.xon", "site.pfc.xoff"]), found, "less than xoff");
        }
        if pfc.xoff >= buffer {
            let found =
                format!("xoff {} beside buffer = {}", show_size(pfc.xoff), show_size(buffer));
            let allowed = "less than the buffer, or it is full before anyone is told to stop";
            doc.problem(set(doc, &["site.pfc.xoff", "site.buffer"]), found, allowed);
        }
    }
}

fn bdp(doc: &Document<'_>, s: &Scenario) {
    let bdp = s.long_haul.bdp() / u64::from(s.nic.pmtu);
    if bdp > u64::from(MOST_PACKETS) {
        let key = set(doc, &["nic.pmtu", "long_haul.rtt", "long_haul.delay"]);
        let found = format!(
            "{} with a round trip of {} and packets of {} bytes: {bdp} packets in flight",
            show_rate(s.long_haul.rate),
            show_duration(s.long_haul.rtt()),
            s.nic.pmtu
        );
        doc.problem(
            key,
            found,
            format!("at most {MOST_PACKETS}, half of the PSNs that can be told apart"),
        );
    }
}

fn windows(doc: &Document<'_>, s: &Scenario) {
    if let (Some(cap), Some(window)) = (s.nic.irn_cap, s.nic.window)
        && cap > window
    {
        let found = format!("{cap} beside window = {window}");
        doc.problem("nic.irn_cap", found, "at most the window: no more can be in flight");
    }
    if let Some(window) = s.nic.window
        && s.nic.ack_req_every > window
    {
        let found = format!("{} beside window = {window}", s.nic.ack_req_every);
        let key = set(doc, &["nic.ack_req_every", "nic.window"]);
        doc.problem(key, found, "at most the window, or it is never acknowledged");
    }
}

fn times(doc: &Document<'_>, s: &Scenario) {
    let rtt = s.long_haul.rtt();
    if s.limit <= rtt {
        let found =
            format!("{} beside a round trip of {}", show_duration(s.limit), show_duration(rtt));
        let key = set(doc, &["limit", "long_haul.rtt", "long_haul.delay"]);
        doc.problem(key, found, "a limit of more than the round trip");
    }
    if s.sample_every > s.limit && doc.is_set("sample_every") {
        let found =
            format!("{} beside limit = {}", show_duration(s.sample_every), show_duration(s.limit));
        doc.problem("sample_every", found, "at most the limit");
    }
}

fn dcqcn(doc: &Document<'_>, s: &Scenario) {
    let Some(dcqcn) = s.nic.dcqcn else { return };
    if dcqcn.min_rate > s.site.host_rate {
        let found = format!(
            "{} beside host_rate = {}",
            show_rate(dcqcn.min_rate),
            show_rate(s.site.host_rate)
        );
        let keys = ["nic.dcqcn.min_rate", "site.host_rate", "long_haul.rate"];
        doc.problem(set(doc, &keys), found, "at most the rate of the host's cable");
    }
    if s.site.ecn.is_none() && doc.is_set("nic.dcqcn") {
        doc.problem(
            "nic.dcqcn",
            "true beside ecn = false",
            "site.ecn as well: DCQCN reacts to marks",
        );
    }
}

fn hosts(doc: &Document<'_>, s: &Scenario) {
    // Messages carry the number of their table in 16 bits.
    if s.traffic.len() > usize::from(u16::MAX) {
        let found = format!("{} tables", s.traffic.len());
        doc.problem("traffic", found, format!("at most {}; a trace may have more lines", u16::MAX));
    }
    let hosts = s.topology.hosts_per_site();
    for (n, traffic) in s.traffic.iter().enumerate() {
        let key = |key| format!("traffic[{}].{key}", n + 1);
        match *traffic {
            Traffic::Rounds { flows, .. } if flows > hosts => {
                let found = format!("{flows} messages per round beside {hosts} hosts per site");
                doc.problem(&key("flows"), found, "at most the hosts of a site: each sends one");
            }
            Traffic::Poisson { scope: Scope::Within, .. } if hosts < 2 => {
                let found = format!("\"within\" beside {hosts} host per site");
                doc.problem(&key("scope"), found, "at least two hosts per site, [topology]");
            }
            _ => {}
        }
    }
}

/// The offered load must fit, or queues only grow.
fn loads(doc: &Document<'_>, s: &Scenario) {
    let links = match s.topology {
        Topology::LeafSpine { long_hauls, .. } => u64::from(long_hauls),
        Topology::Pair | Topology::Dumbbell { .. } => 1,
    };
    let link_rate = (links * s.long_haul.rate) as f64;
    let nic_rate = u64::from(s.topology.hosts_per_site()) as f64 * s.site.host_rate as f64;
    // Load from site 0 and from site 1 over the long haul, and by each
    // site's NICs altogether; bit/s.
    let (mut over, mut nics) = ([0.0; 2], [0.0; 2]);
    for (n, traffic) in s.traffic.iter().enumerate() {
        let Traffic::Poisson { load, scope, .. } = *traffic else { continue };
        let key = format!("traffic[{}].load", n + 1);
        let before = (over, nics);
        match scope {
            Scope::Forward => over[0] += load * link_rate,
            Scope::Between => over = over.map(|o| o + load * link_rate),
            Scope::Within => nics = nics.map(|o| o + load * nic_rate),
        }
        if scope != Scope::Within {
            nics[0] += load * link_rate;
            nics[1] += if scope == Scope::Between { load * link_rate } else { 0.0 };
        }
        // Shares such as 0.7 and 0.3 do not add up to 1 in binary.
        let exceeds = |sums: [f64; 2], rate: f64| sums.iter().any(|sum| *sum > rate * (1.0 + 1e-9));
        if exceeds(over, link_rate) {
            let found = format!("{load} on top of what else goes over the long-haul links");
            doc.problem(&key, found, "loads that add up to at most 1 in each direction");
            (over, nics) = before;
        } else if exceeds(nics, nic_rate) {
            let found = format!(
                "{load}, which is more than the NICs of a site can send: {}",
                show_rate(nic_rate as u64)
            );
            doc.problem(&key, found, "a smaller load, more hosts, or a higher site.host_rate");
            (over, nics) = before;
        }
    }
}
