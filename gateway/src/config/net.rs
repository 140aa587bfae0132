//! Networks in configuration files: VLANs and IP prefixes.

use common::wire::Vlans;
use settings::{Document, Section, integer};
use switch::IpNet;

/// VLAN ids, outermost first; none if the key is missing.
pub(super) fn vlans(table: &mut Section<'_>, key: &'static str) -> Option<Vlans> {
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

/// A list of IP prefixes. Each that is wrong is a problem of its own.
pub(super) fn prefixes(
    doc: &Document<'_>,
    table: &mut Section<'_>,
    key: &'static str,
) -> Option<Vec<IpNet>> {
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
