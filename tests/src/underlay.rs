//! The network under a tunnel: how frames are carried, on how many lanes, chosen how, over one path or two.

use std::sync::OnceLock;

use common::time::Span;
use rand::{Rng, RngExt};
use tunnel::encapsulation::{
    DEFAULT_ETHERTYPE, DEFAULT_PORT, Encapsulation, Udp, UdpConfig, source_ports,
};
use tunnel::session::{EndPoint, SessionConfig};
use tunnel::spray::Policy;
use tunnel::{Part, Plan};

use crate::link::Impairment;

/// How frames are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// By Ethernet.
    Ethernet,
    /// In UDP over IPv4.
    UdpV4,
    /// In UDP over IPv6.
    UdpV6,
}

/// A path between the boxes beside the long-haul link, from a port of its own at both.
#[derive(Clone, Debug)]
pub struct SecondPath {
    /// One-way delay.
    pub delay: Span,
    /// Impairments, from box 0 to box 1 and back.
    pub impairments: [Impairment; 2],
    /// From when to when it carries nothing in either direction, from the start on.
    pub outages: Vec<(Span, Span)>,
}

/// The network under a tunnel.
#[derive(Clone, Debug)]
pub struct Underlay {
    /// How frames are carried.
    pub carried: Carried,
    /// Lanes of both boxes, at least as many as paths.
    pub lanes: u8,
    /// A second path, if there is one.
    pub second: Option<SecondPath>,
    /// How each box chooses among its lanes.
    pub sprays: [Policy; 2],
    /// How often each box sends a lost frame again.
    pub resend_copies: [u8; 2],
    /// By which each box sends repair frames, if it does. Boxes use them if both do.
    pub plans: [Option<Plan>; 2],
    /// The first sessions of both boxes begin less than 1,000 numbers before the transmitted 32 bits wrap.
    pub wraps: bool,
}

impl Default for Underlay {
    fn default() -> Self {
        Self {
            carried: Carried::Ethernet,
            lanes: 1,
            second: None,
            sprays: [Policy::default(); 2],
            resend_copies: [2; 2],
            plans: [None; 2],
            wraps: false,
        }
    }
}

const POLICIES: [Policy; 5] =
    [Policy::Pinned, Policy::Oblivious, Policy::Reps, Policy::Strack, Policy::Earliest];

/// See [`Underlay::wraps`].
const BEFORE_WRAP: u32 = 1_000;

impl Underlay {
    /// Any, beside a long-haul link of this one-way delay; the second path fails within `adverse_for`.
    pub(crate) fn any(delay: Span, adverse_for: Span, rng: &mut impl Rng) -> Self {
        use Carried::{Ethernet, UdpV4, UdpV6};
        let second = rng.random_bool(0.3).then(|| SecondPath {
            delay: Span::from_nanos(delay.as_nanos() * rng.random_range(80..200) / 100),
            impairments: [Impairment::of_long_haul(rng), Impairment::of_long_haul(rng)],
            outages: (0..[0, 1, 3][rng.random_range(0..3)])
                .map(|_| {
                    let from = Span::from_nanos(rng.random_range(0..adverse_for.as_nanos()));
                    (from, from + Span::from_millis([2, 30, 1_500][rng.random_range(0..3)]))
                })
                .collect(),
        });
        let lanes = [1, 1, 2, 4, 8][rng.random_range(0..5)];
        let mut underlay = Self {
            carried: [Ethernet, Ethernet, UdpV4, UdpV6][rng.random_range(0..4)],
            lanes: if second.is_some() { lanes.max(2) } else { lanes },
            second,
            wraps: rng.random(),
            ..Self::default()
        };
        // The last ones drawn: all else stays as it was.
        underlay.sprays = [(); 2].map(|()| POLICIES[rng.random_range(0..POLICIES.len())]);
        underlay.resend_copies = [(); 2].map(|()| rng.random_range(1..=2));
        let has_plans = [(); 2].map(|()| rng.random_bool(0.7));
        let plans = [(); 2].map(|()| {
            let (streams, every) = (rng.random_range(0..4), rng.random_range(2..7));
            Plan::new(1 << streams, 1 << every, rng.random_range(1..=8))
        });
        underlay.plans = [0, 1].map(|me: usize| plans[me].filter(|_| has_plans[me]));
        underlay
    }

    /// WAN ports of each box.
    pub(crate) fn ports(&self) -> u8 {
        if self.second.is_some() { 2 } else { 1 }
    }

    /// The headers of the tunnel `part` at each port of box `me`.
    pub(crate) fn encapsulations(&self, me: usize, part: Part) -> Vec<Encapsulation> {
        (0..self.ports()).map(|port| self.encapsulation(me, port, part)).collect()
    }

    fn encapsulation(&self, me: usize, port: u8, part: Part) -> Encapsulation {
        let mac = |of: usize| [2, 0, 0, 0, 9 + port, of as u8];
        let udp = |address: [core::net::IpAddr; 2]| {
            let [here, there] = [address[me], address[1 - me]];
            let mut udp = Encapsulation::Udp(Udp::new(&UdpConfig {
                mac: mac(me),
                address: here,
                peer: there,
                port: DEFAULT_PORT,
                source_ports: source_ports(part, here, there, DEFAULT_PORT, self.lanes),
                dscp: None,
                vlan: None,
            }));
            udp.set_next_hop(Some(mac(1 - me)));
            udp
        };
        match self.carried {
            Carried::Ethernet => {
                Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: mac(me) }
            }
            Carried::UdpV4 => udp([1, 2].map(|host| [192, 0, 2 + port, host].into())),
            Carried::UdpV6 => {
                udp([1, 2].map(|host| [0x2001, 0xdb8, u16::from(port), 0, 0, 0, 0, host].into()))
            }
        }
    }
}

/// The random bits of box `me` with which its first session has numbers that [wrap soon](Underlay::wraps). Those of
/// several tunnels differ in the low bits that say which one it is.
pub(crate) fn wrapping_bits(me: usize, config: &SessionConfig) -> u64 {
    static BITS: OnceLock<[u64; 2]> = OnceLock::new();
    BITS.get_or_init(|| {
        let wraps = |random: &u64| {
            let part = Part::WHOLE;
            let end = EndPoint::new(&SessionConfig { random: *random, part, ..*config });
            end.own().first().get() > u64::from(u32::MAX - BEFORE_WRAP)
        };
        let mut found = (0..).filter(wraps);
        [(); 2].map(|()| found.next().expect("some do"))
    })[me]
}
