//! `[nic]` and `[nic.dcqcn]`.

use common::time::Span;
use settings::{Section, integer};

use super::network::{RATES, optional};
use crate::scenario::{Connections, Dcqcn, NicModel, Topology};

/// The most PSNs that may be unacknowledged: half of the window of 2^23 in
/// which two PSNs are distinct, since repeats and responses need the rest.
pub(super) const MOST_PACKETS: u32 = 1 << 22;

/// The path MTUs that there are, and that of many network simulations.
const SIMULATED: [u32; 6] = [256, 512, 1000, 1024, 2048, 4096];

/// Longest of the timers here.
const LONGEST: Span = Span::from_millis(60_000);

pub(super) fn read(mut s: Section<'_>, topology: Topology) -> NicModel {
    let nic = NicModel {
        pmtu: s.int_of("pmtu", &SIMULATED, "bytes").unwrap_or(4096),
        window: s.int("window", 1, MOST_PACKETS, "packets"),
        ack_req_every: s.int("ack_req_every", 1, MOST_PACKETS, "packets").unwrap_or(16),
        timeout: s.duration("timeout", Span::from_micros(4), LONGEST),
        retries: retries(&mut s),
        re_nak: s
            .duration("re_nak", Span::from_nanos(100), LONGEST)
            .unwrap_or(Span::from_micros(4)),
        // A single pair of hosts shares its link with no other.
        dcqcn: optional(&mut s, "dcqcn", topology != Topology::Pair).map(dcqcn),
        cnp_with_nak: s.bool("cnp_with_nak").unwrap_or(false),
        irn_cap: s.int("irn_cap", 1, MOST_PACKETS, "packets"),
        content: s.bool("content").unwrap_or(true),
        connections: connections(&mut s),
    };
    s.finish();
    nic
}

fn connections(s: &mut Section<'_>) -> Connections {
    s.read("connections", "\"managed\" or \"known\"", |v| match v.as_str() {
        Some("managed") => Some(Connections::Managed),
        Some("known") => Some(Connections::Known),
        _ => None,
    })
    .unwrap_or(Connections::Managed)
}

/// As the verbs have it, 0 to 7, or without end.
fn retries(s: &mut Section<'_>) -> Option<u8> {
    s.read("retries", "0 to 7 tries, or \"infinite\"", |v| {
        if v.as_str() == Some("infinite") {
            return Some(None);
        }
        integer(v).and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 7).map(Some)
    })
    .flatten()
}

fn dcqcn(mut s: Section<'_>) -> Dcqcn {
    let shortest = Span::from_nanos(100);
    let default = Dcqcn::DEFAULT;
    let dcqcn = Dcqcn {
        g: s.share("g", 1e-6, 1.0).unwrap_or(default.g),
        alpha_timer: s.duration("alpha_timer", shortest, LONGEST).unwrap_or(default.alpha_timer),
        rate_timer: s.duration("rate_timer", shortest, LONGEST).unwrap_or(default.rate_timer),
        byte_counter: s.size("byte_counter", 1 << 10, 1 << 40).unwrap_or(default.byte_counter),
        fast_recovery: s.int("fast_recovery", 1, 1000, "events").unwrap_or(default.fast_recovery),
        r_ai: s.rate("r_ai", 1, RATES.1).unwrap_or(default.r_ai),
        r_hai: s.rate("r_hai", 1, RATES.1).unwrap_or(default.r_hai),
        min_rate: s.rate("min_rate", 1_000, RATES.1).unwrap_or(default.min_rate),
        cnp_interval: s
            .duration("cnp_interval", Span::ZERO, LONGEST)
            .unwrap_or(default.cnp_interval),
    };
    s.finish();
    dcqcn
}
