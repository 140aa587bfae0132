//! How a response that a gateway makes differs from the RNIC's own.

use common::wire::{Roce, parse};

/// The fields of `ours` that differ from a response of the responder itself.
pub fn differences(ours: &[u8], theirs: &[u8], roce: &Roce) -> Vec<&'static str> {
    let Ok(our_roce) = parse(ours) else { return vec!["its form"] };
    let byte = |frame: &[u8], at: u16, offset: usize| frame.get(usize::from(at) + offset).copied();
    let differ = |from: fn(&Roce) -> u16, offset: usize, len: usize| {
        (offset..offset + len)
            .any(|i| byte(ours, from(&our_roce), i) != byte(theirs, from(roce), i))
    };
    let is_v4 = roce.src.is_v4();
    let mut found = Vec::new();
    let mut note = |differs: bool, name| {
        if differs {
            found.push(name);
        }
    };
    note(
        ours.get(..usize::from(our_roce.l3)) != theirs.get(..usize::from(roce.l3)),
        "Ethernet header",
    );
    note(differ(|r| r.l3, 1, 1), if is_v4 { "ToS" } else { "traffic class" });
    note(is_v4 && differ(|r| r.l3, 4, 2), "IP identification");
    note(is_v4 && differ(|r| r.l3, 6, 2), "IP flags");
    note(differ(|r| r.l3, if is_v4 { 8 } else { 7 }, 1), if is_v4 { "TTL" } else { "hop limit" });
    note(differ(|r| r.l4, 0, 2), "UDP source port");
    note(differ(|r| r.l4, 6, 2), "UDP checksum");
    note(differ(|r| r.bth, 1, 1), "BTH flags");
    note(differ(|r| r.bth, 2, 2), "partition key");
    note(differ(|r| r.bth, 8, 1), "AckReq and reserved bits");
    note(differ(|r| r.bth, 12, 4), "AETH");
    found
}
