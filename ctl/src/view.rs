//! The answers of the gateway, for people.

mod path;

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use api::{
    Build, Decision, Event, Events, Flows, Lanes, Pairs, Parameters, Peers, Pools, Port, Ports,
    Record, Records, Recovery, Reloaded, Status, Traced,
};
use humantime::{format_duration, format_rfc3339_millis};

pub use self::path::paths;
use crate::table::Table;

/// What stands for a value that the gateway does not know.
pub const UNKNOWN: &str = "-";

/// A time, in UTC.
pub fn time(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    // The largest that can be written.
    let since = since.min(Duration::from_secs(253_402_300_799));
    format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// A span in three digits.
pub fn span(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if !s.is_finite() || s < 0.0 => return UNKNOWN.to_owned(),
        0.0 => return "0".to_owned(),
        s if s < 1e-3 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// The text of a value, if it is known.
pub fn some<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

/// The tunnel of a row, if there are several.
fn tunnel(number: Option<u8>) -> String {
    some(number, |number| number.to_string())
}

/// `/pairs`.
pub fn pairs(it: &Pairs) -> String {
    let mut table =
        Table::new(&["<pair", "<health", "node", "<recovery", "<tunnel", "workers", "<ports"]);
    for pair in &it.pairs {
        let port = |port: &Port| {
            let link = some(port.up, |up| if up { "up" } else { "down" }.to_owned());
            format!("{} {link} ({})", port.port, port.device)
        };
        table.row([
            pair.pair.clone(),
            pair.health.to_string(),
            pair.node.to_string(),
            pair.recovery.to_string(),
            pair.tunnel.to_string(),
            pair.workers.len().to_string(),
            pair.ports.iter().map(port).collect::<Vec<_>>().join(", "),
        ]);
    }
    let mut out = table.text("there is no pair of ports");
    for pair in &it.pairs {
        for reason in &pair.reasons {
            // Writing to a string can't fail.
            let _ = writeln!(out, "pair {}: {reason}", pair.pair);
        }
    }
    out
}

/// The name of the pair of ports before other words, if there are several.
pub(crate) fn pair(it: &Status) -> String {
    it.pair.as_ref().map_or_else(String::new, |name| format!("pair {name}, "))
}

/// `/status`.
pub fn status(it: &Status) -> String {
    let mut out = String::new();
    let uptime = format_duration(Duration::from_secs(it.uptime.max(0.0) as u64));
    let boot = some(it.boot, |boot| boot.to_string());
    // Writing to a string can't fail.
    let _ = writeln!(out, "{}node {}, boot {boot}: {}", pair(it), it.node, it.health);
    for reason in &it.reasons {
        let _ = writeln!(out, "  {reason}");
    }
    let _ = writeln!(
        out,
        "lr2-gateway {}, process {}, up {uptime}, log level {}",
        it.version, it.pid, it.log_level
    );
    let _ = writeln!(out, "role {}, recovery {}, tunnel {}", it.role, it.recovery, it.tunnel);
    let _ = writeln!(out, "{} flows, {} of them protected", it.flows, it.flows_protected);
    for worker in &it.workers {
        let state = if worker.stalled { ", shows no sign of life" } else { "" };
        let _ = writeln!(out, "worker {}: {:.0} % busy{state}", worker.worker, worker.busy * 100.0);
    }
    out
}

/// `/peers`.
pub fn peers(it: &Peers) -> String {
    let mut table = Table::new(&[
        "node",
        "tunnel",
        "<via",
        "<state",
        "round trip",
        "<last heard",
        "<last report",
    ]);
    for peer in &it.peers {
        table.row([
            peer.node.to_string(),
            tunnel(peer.tunnel),
            peer.via.to_string(),
            peer.state.to_string(),
            some(peer.round_trip, span),
            time(peer.last_heard),
            some(peer.last_report, time),
        ]);
    }
    let mut out = table.text("no box at the other end is heard");
    for refused in &it.last_refused {
        let of = refused.tunnel.map_or(String::new(), |n| format!(" of tunnel {n}"));
        let from = refused.from.as_ref().map_or(String::new(), |host| format!(", from {host}"));
        let _ = writeln!(
            out,
            "last refused message{of}: {}, {}{from}",
            refused.reason,
            time(refused.time)
        );
    }
    out
}

/// `/lanes`.
pub fn lanes(it: &Lanes) -> String {
    let mut table = Table::new(&[
        "tunnel",
        "lane",
        "<port",
        "<state",
        "round trip",
        "later by",
        "queue",
        "sent",
        "resent",
        "lost",
        "skipped",
        "moved",
        "marked",
        "delivered",
        "waited",
        "given up",
        "misjudged",
        "tolerated",
    ]);
    for lane in &it.lanes {
        table.row([
            lane.tunnel.to_string(),
            lane.lane.to_string(),
            lane.port.to_string(),
            lane.state.to_string(),
            span(lane.round_trip),
            span(lane.later),
            span(lane.queue),
            lane.sent.to_string(),
            lane.resent.to_string(),
            lane.lost.to_string(),
            lane.skipped.to_string(),
            lane.moved.to_string(),
            lane.marked.to_string(),
            lane.delivered.to_string(),
            lane.waited.to_string(),
            lane.given_up.to_string(),
            lane.misjudged.to_string(),
            span(lane.tolerated),
        ]);
    }
    table.text("there is no tunnel, and so there are no lanes")
}

/// `/recovery`.
pub fn recovery(it: &Recovery) -> String {
    let mut table = Table::new(&["<since the start", "count"]);
    for (name, count) in [
        ("gaps in packets from the WAN", it.gaps),
        ("gaps filled", it.filled),
        ("gaps given up", it.given_up),
        ("packets resent to the WAN", it.resent),
        ("missing packets that were not in the cache", it.not_cached),
        ("packets resent to the LAN", it.resent_to_lan),
        ("late packets that the peer resent needlessly", it.needless),
        ("NAKs made for sources", it.naks),
    ] {
        table.row([name.to_owned(), count.to_string()]);
    }
    format!("{}round trip {}\n", table.text(""), some(it.round_trip, span))
}

/// `/flows`.
pub fn flows(it: &Flows) -> String {
    let mut table = Table::new(&[
        "<role",
        "<source",
        "<destination",
        "QPN",
        "source QPN",
        "<state",
        "round trip",
        "held",
        "lost",
        "resent",
        "idle",
        "<why",
    ]);
    for flow in &it.flows {
        table.row([
            flow.role.to_string(),
            flow.source.clone(),
            flow.destination.clone(),
            format!("{:#x}", flow.destination_qpn),
            some(flow.source_qpn, |qpn| format!("{qpn:#x}")),
            flow.state.to_string(),
            some(flow.round_trip, span),
            flow.held.to_string(),
            flow.lost.to_string(),
            flow.resent.to_string(),
            span(flow.idle),
            flow.why.as_ref().map_or(String::new(), |why| why.to_string()),
        ]);
    }
    let mut out = table.text("no such flow");
    let _ = writeln!(out, "{} of {} flows match", it.matched, it.total);
    if let Some(note) = &it.note {
        let _ = writeln!(out, "{note}");
    }
    out
}

/// `/ports`.
pub fn ports(it: &Ports) -> String {
    let mut table = Table::new(&[
        "<port",
        "<link",
        "mtu",
        "received",
        "transmitted",
        "queued",
        "missed",
        "dropped",
        "errors",
        "no mbuf",
        "<device",
    ]);
    for port in &it.ports {
        table.row([
            port.port.to_string(),
            some(port.up, |up| if up { "up" } else { "down" }.to_owned()),
            port.mtu.to_string(),
            port.received.to_string(),
            port.transmitted.to_string(),
            port.queued.to_string(),
            port.missed.to_string(),
            port.dropped.to_string(),
            port.errors.to_string(),
            port.no_mbuf.to_string(),
            port.device.clone(),
        ]);
    }
    table.text("no ports")
}

/// `/pools`.
pub fn pools(it: &Pools) -> String {
    let mut table = Table::new(&["<pool", "frames", "limit", "used"]);
    for pool in &it.pools {
        let used = pool.frames as f64 / pool.limit.max(1) as f64;
        table.row([
            pool.pool.to_string(),
            pool.frames.to_string(),
            pool.limit.to_string(),
            format!("{:.0} %", used * 100.0),
        ]);
    }
    table.text("no pools")
}

/// The stream of a packet.
fn stream(source: &Option<String>, destination: &Option<String>, qpn: Option<u32>) -> String {
    match (source, destination, qpn) {
        (Some(source), Some(destination), Some(qpn)) => {
            format!("{source} to {destination} QP {qpn:#x}")
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// A line of `/trace`.
pub fn traced(it: &Traced) -> String {
    let at = time(it.time);
    let lane = it
        .lane
        .zip(it.number)
        .map_or(String::new(), |(lane, number)| format!(" lane {lane} number {number}"));
    let of = match (&it.opcode, it.psn) {
        (Some(opcode), Some(psn)) => {
            let stream = stream(&it.source, &it.destination, it.destination_qpn);
            format!("{stream} {opcode} PSN {psn}")
        }
        _ => format!("{} bytes, not RoCEv2", it.bytes),
    };
    let decision = |it: &Decision| match it.count {
        1 => it.what.clone(),
        n => format!("{} ({n} times)", it.what),
    };
    let decisions: Vec<_> = it.decisions.iter().map(decision).collect();
    format!("{at} {}{lane} {of}: {}", it.port, decisions.join(", "))
}

/// `/records`.
pub fn records(it: &Records) -> String {
    let mut table =
        Table::new(&["<time", "<flow", "<PSN", "<lane and number", "<what", "<meaning"]);
    for record in &it.records {
        let Record { packets, .. } = record;
        let flow = stream(&record.source, &record.destination, record.destination_qpn);
        let last = |first: u32, bits: u32| {
            first.wrapping_add(packets.saturating_sub(1)) & (u32::MAX >> (32 - bits))
        };
        let range = |first: u32, bits| match packets {
            0 | 1 => first.to_string(),
            _ => format!("{first} to {}", last(first, bits)),
        };
        let place = record.lane.zip(record.number);
        table.row([
            time(record.time),
            flow,
            some(record.psn, |psn| range(psn, 24)),
            some(place, |(lane, number)| format!("{lane}: {}", range(number, 32))),
            record.what.clone(),
            record.meaning.to_string(),
        ]);
    }
    let shown = it.records.len() as u64;
    let more = match it.matched {
        matched if matched > shown => format!("the newest {shown} of {matched}\n"),
        _ => String::new(),
    };
    table.text(
        "no record matches: the packets were forwarded in order, or the records are overwritten",
    ) + &more
}

/// `/events`.
pub fn events(it: &Events) -> String {
    let line = |Event { time: at, worker, tunnel, text, .. }: &Event| {
        let worker = worker.map_or(String::new(), |n| format!("worker {n}: "));
        let tunnel = tunnel.map_or(String::new(), |n| format!("tunnel {n}: "));
        format!("{} {worker}{tunnel}{text}\n", time(*at))
    };
    let mut out: String = it.events.iter().map(line).collect();
    if it.events.is_empty() {
        out.push_str("no events\n");
    }
    if it.missed > 0 {
        let _ =
            writeln!(out, "{} more were not noted, as there were too many at a time", it.missed);
    }
    out
}

/// `/build`.
pub fn build(it: &Build) -> String {
    format!(
        "lr2-gateway {} ({}, {})\n{}\ncontrol messages of version {}, tunnel of version {}\n",
        it.version, it.profile, it.target, it.dpdk, it.message_version, it.tunnel_version
    )
}

/// `/parameters`.
pub fn parameters(it: &Parameters) -> String {
    let mut table = Table::new(&["<parameter", "<value", "<set now", "<allowed"]);
    for parameter in &it.parameters {
        let value = if parameter.value.is_null() {
            UNKNOWN.to_owned()
        } else {
            parameter.value.to_string()
        };
        let settable = if parameter.settable { "yes" } else { "" };
        table.row([parameter.name.clone(), value, settable.to_owned(), parameter.allowed.clone()]);
    }
    table.text("no parameters")
}

/// The answer to a reload.
pub fn reloaded(it: &Reloaded) -> String {
    if it.applied.is_empty() {
        return "nothing is different\n".to_owned();
    }
    format!("applied: {}\n", it.applied.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits_and_a_unit() {
        for (seconds, text) in [
            (0.0, "0"),
            (0.000_004_2, "4.20 us"),
            (0.012, "12.0 ms"),
            (0.999, "999 ms"),
            (61.0, "61.0 s"),
            (f64::NAN, "-"),
            (-1.0, "-"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn a_status_says_why() {
        let reasons = vec!["degraded: the peer refuses our key".to_owned()];
        let it = Status { node: 7, health: "degraded".into(), reasons, ..Status::default() };
        let text = status(&it);
        assert!(
            text.starts_with("node 7, boot -: degraded\n  degraded: the peer refuses our key\n"),
            "{text}"
        );
    }

    #[test]
    fn whatever_a_gateway_says_has_a_text() {
        let odd = api::Peer { last_heard: 1e300, last_report: Some(-5.0), ..api::Peer::default() };
        let peers = peers(&Peers { peers: vec![odd], last_refused: vec![Default::default()] });
        assert!(peers.contains("1970-01-01T00:00:00.000Z"), "{peers}");
        let events = events(&Events { missed: 3, events: Vec::new() });
        assert_eq!(events, "no events\n3 more were not noted, as there were too many at a time\n");
        assert_eq!(lanes(&Lanes::default()), "there is no tunnel, and so there are no lanes\n");
    }
}
