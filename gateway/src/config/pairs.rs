//! Queue pairs that the operator names: `[[queue_pair]]`.

use std::collections::HashMap;
use std::net::IpAddr;

use common::wire::{Qpn, Vlans};
use settings::{Document, Section, integer};
use switch::{End, QueuePair};

/// QP numbers of RC: 0 and 1 are for management, the last is for multicast.
const QPNS: (u32, u32) = (2, 0xff_fffe);

/// The meaning of an address.
const HOST: &str = "the IP address of a host, e.g. \"10.1.0.5\" or \"fd00::5\"";

/// The keys of the two ends: address and QP number.
const ENDS: [(&str, &str); 2] = [("a", "a_qpn"), ("b", "b_qpn")];

/// The line that pairs a QP, and the QP's peer. The same address in another
/// VLAN is another host.
type Known = HashMap<(Vlans, End), (usize, End)>;

/// Reads every `[[queue_pair]]`, and complains of those that contradict each
/// other.
pub(super) fn read(doc: &Document<'_>, tables: Vec<Section<'_>>) -> Vec<QueuePair> {
    let mut known = Known::new();
    tables.into_iter().filter_map(|table| one(doc, table, &mut known)).collect()
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

fn qpn(table: &mut Section<'_>, key: &'static str) -> Option<Qpn> {
    let (min, max) = QPNS;
    let what = "the number of the host's QP";
    table.require(key, &format!("{min:#x} to {max:#x}, {what}"));
    table.int_hex(key, min, max, what).map(Qpn::new)
}

/// VLAN ids, outermost first; none if the key is missing.
fn vlans(table: &mut Section<'_>, key: &'static str) -> Option<Vlans> {
    let is_set = table.has(key);
    let vlans = table.read(key, "at most two VLAN ids from 1 to 4094, outermost first", |v| {
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
