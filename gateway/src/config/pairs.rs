//! Queue pairs that the operator names: `[[queue_pair]]`.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use common::wire::{Qpn, Vlans};
use settings::{Document, Section, integer};
use switch::{End, QueuePair};

use super::row::quoted;

/// QP numbers of RC: 0 and 1 are for management, the last is for multicast.
const QPNS: (u32, u32) = (2, 0xff_fffe);

/// The meaning of an address.
const HOST: &str = "the IP address of a host, e.g. \"10.1.0.5\" or \"fd00::5\"";

/// The keys of the two ends: address and QP number.
const ENDS: [(&str, &str); 2] = [("a", "a_qpn"), ("b", "b_qpn")];

/// The meaning of a QP number.
const QPN: &str = "the number of the host's QP";

/// The meaning of VLAN ids.
const VLANS: &str = "at most two VLAN ids from 1 to 4094, outermost first";

/// The line that pairs a QP, and the QP's peer. The same address in another
/// VLAN is another host.
type Known = HashMap<(Vlans, End), (usize, End)>;

/// Reads every `[[queue_pair]]`, and complains of those that contradict each
/// other.
pub(super) fn read(doc: &Document<'_>, tables: Vec<Section<'_>>) -> Vec<QueuePair> {
    let mut known = Known::new();
    tables.into_iter().filter_map(|table| one(doc, table, &mut known)).collect()
}

/// The keys of a queue pair, with the values that each takes and the value as in the file, in the order of the reference.
fn rows(pair: &QueuePair) -> [(&'static str, String, String); 5] {
    let QueuePair { vlans, ends: [a, b] } = pair;
    let host = |end: &End| (HOST.to_owned(), quoted(&end.addr.to_string()));
    let qpn = |end: &End| (qpns(), end.qpn.to_string());
    let [(a, a_qpn), (b, b_qpn)] = [a, b].map(|end| (host(end), qpn(end)));
    let vlans = (VLANS.to_owned(), format!("{vlans:?}"));
    [("a", a), ("b", b), ("a_qpn", a_qpn), ("b_qpn", b_qpn), ("vlans", vlans)]
        .map(|(key, (allowed, value))| (key, allowed, value))
}

/// Each key with its place among the queue pairs, the values that it takes and its value as in the file.
pub(super) fn values(pairs: &[QueuePair]) -> Vec<(String, String, String)> {
    let named = |(n, pair): (usize, &QueuePair)| {
        rows(pair).map(|(key, allowed, text)| (format!("queue_pair[{n}].{key}"), allowed, text))
    };
    (1..).zip(pairs).flat_map(named).collect()
}

/// Prints every `[[queue_pair]]`.
pub(super) fn print(pairs: &[QueuePair], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for pair in pairs {
        writeln!(f, "\n[[queue_pair]]")?;
        rows(pair).iter().try_for_each(|(key, _, value)| writeln!(f, "{key} = {value}"))?;
    }
    Ok(())
}

fn one(doc: &Document<'_>, mut table: Section<'_>, known: &mut Known) -> Option<QueuePair> {
    let hosts = ENDS.map(|(key, _)| host(doc, &mut table, key));
    let qpns = ENDS.map(|(_, key)| qpn(&mut table, key));
    let vlans = vlans(&mut table, "vlans");
    let (at, name) = (table.at(), table.name().to_owned());
    let path = |key| format!("{name}.{key}");
    table.finish();

    let [a, b] = hosts;
    let (a, b) = (a?, b?);
    if a == b {
        doc.problem(&path("b"), format!("{b}, which is a too"), "the other host");
    } else if a.is_ipv4() != b.is_ipv4() {
        doc.problem(&path("b"), format!("{b} beside a = {a}"), "both IPv4, or both IPv6");
    }
    let ([a_qpn, b_qpn], vlans) = (qpns, vlans?);
    let ends = [End { addr: a.into(), qpn: a_qpn? }, End { addr: b.into(), qpn: b_qpn? }];

    let before = ends.map(|end| known.get(&(vlans, end)).copied());
    match before {
        [Some((line, other)), Some(_)] if other == ends[1] => {
            doc.problem_at(
                at,
                &name,
                format!("the queue pair of line {line} again"),
                "each queue pair once",
            );
        }
        _ => {
            for ((end, (_, key)), before) in ends.iter().zip(ENDS).zip(before) {
                let Some((line, other)) = before else { continue };
                let found = format!(
                    "{} of {}, which line {line} pairs with {} of {}",
                    end.qpn, end.addr, other.qpn, other.addr
                );
                doc.problem(&path(key), found, "each QP in one queue pair");
            }
        }
    }
    let line = at.map_or(0, |at| doc.line(at));
    for (end, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        known.entry((vlans, end)).or_insert((line, other));
    }
    Some(QueuePair { vlans, ends })
}

fn host(doc: &Document<'_>, table: &mut Section<'_>, key: &'static str) -> Option<IpAddr> {
    table.require(key, HOST);
    let host = table.parsed::<IpAddr>(key, HOST)?.to_canonical();
    let is_broadcast = matches!(host, IpAddr::V4(v4) if v4.is_broadcast());
    if host.is_unspecified() || host.is_multicast() || is_broadcast {
        doc.problem(&table.path(key), host.to_string(), HOST);
        return None;
    }
    Some(host)
}

/// The QP numbers that there may be.
fn qpns() -> String {
    let (min, max) = QPNS;
    format!("{min:#x} to {max:#x}, {QPN}")
}

fn qpn(table: &mut Section<'_>, key: &'static str) -> Option<Qpn> {
    let (min, max) = QPNS;
    table.require(key, &qpns());
    table.int_hex(key, min, max, QPN).map(Qpn::new)
}

/// VLAN ids, outermost first; none if the key is missing.
fn vlans(table: &mut Section<'_>, key: &'static str) -> Option<Vlans> {
    let is_set = table.has(key);
    let vlans = table.read(key, VLANS, |v| {
        let ids = v.as_array()?.iter().map(|v| match integer(v.get_ref())? {
            id @ 1..=4094 => u16::try_from(id).ok(),
            _ => None,
        });
        match ids.collect::<Option<Vec<_>>>()?[..] {
            [] => Some(Vlans::NONE),
            [only] => Some(Vlans::new(only, 0)),
            [outer, inner] => Some(Vlans::new(outer, inner)),
            _ => None,
        }
    });
    if is_set { vlans } else { Some(Vlans::NONE) }
}
