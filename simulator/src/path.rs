//! A path from host to host: its rate and its delays.

use common::time::Span;
use link::wire_bytes;
use rnic::local_ack_timeout;

use crate::scenario::{Scenario, Topology};

/// Headers of a data packet in front of the payload, and the ICRC behind:
/// Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4.
const HEADERS: u64 = 58;
/// Length of an ACK frame: headers and AETH.
const ACK: usize = 62;

/// Bytes on the wire of a data packet, without RETH.
pub const fn packet_wire_bytes(payload: u64) -> u64 {
    wire_bytes((payload + HEADERS) as usize)
}

/// The time of a byte at `rate` bit/s, in picoseconds.
const fn per_byte_ps(rate: u64) -> u64 {
    8_000_000_000_000 / rate
}

/// A path from host to host, alone on it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// bit/s of its slowest cable.
    pub rate: u64,
    /// Propagation there and back.
    propagation: Span,
    /// The time of each byte on all its cables, one after the other, in
    /// picoseconds.
    per_byte_ps: u64,
}

impl Path {
    /// The longest path of a scenario if `long_haul`, else the longest within a
    /// site.
    pub fn longest(scenario: &Scenario, long_haul: bool) -> Self {
        let site = &scenario.site;
        let host = (site.host_rate, site.delay);
        let fabric = (site.fabric_rate, site.delay);
        // Towards the gateway a switch sends at the long haul's rate, a gateway to
        // its switch at the fabric's.
        let border = (scenario.long_haul.rate, site.delay);
        let inner: &[(u64, Span)] = match (scenario.topology, long_haul) {
            (Topology::Pair | Topology::Dumbbell { .. }, _) => &[host],
            (Topology::LeafSpine { .. }, false) => &[host, fabric],
            (Topology::LeafSpine { .. }, true) => &[host, fabric, fabric],
        };
        let middle: &[(u64, Span)] = match (scenario.topology, long_haul) {
            (_, false) => &[],
            (Topology::Pair, true) => {
                &[(scenario.long_haul.rate, scenario.long_haul.longest_delay())]
            }
            (_, true) => {
                &[border, (scenario.long_haul.rate, scenario.long_haul.longest_delay()), fabric]
            }
        };
        // The line of one of several paths is one more, at which a message that uses all of them does not queue.
        let lines = scenario.long_haul.paths.iter().filter_map(|path| path.rate);
        let line = lines.min().filter(|_| long_haul).map_or(0, per_byte_ps);
        let mut path = Self { rate: u64::MAX, propagation: Span::ZERO, per_byte_ps: line };
        for &(rate, delay) in inner.iter().chain(middle).chain(inner) {
            path.rate = path.rate.min(rate);
            path.propagation = path.propagation + delay * 2;
            path.per_byte_ps += per_byte_ps(rate);
        }
        path
    }

    /// A data packet with `payload` bytes there and its ACK back.
    fn round_trip(&self, payload: u64) -> Span {
        let bytes = packet_wire_bytes(payload) + wire_bytes(ACK);
        self.propagation + Span::from_nanos(bytes * self.per_byte_ps / 1_000)
    }

    /// A full data packet there and its ACK back.
    pub fn rtt(&self, pmtu: u32) -> Span {
        self.round_trip(pmtu.into())
    }

    /// Packets of `pmtu` that fill it.
    pub fn packets(&self, pmtu: u32) -> u64 {
        let bits = u128::from(self.rate) * u128::from(self.rtt(pmtu).as_nanos()) / 1_000_000_000;
        (bits / 8) as u64 / packet_wire_bytes(pmtu.into()) + 1
    }

    /// How long a message of `bytes` takes alone: all but its last packet on
    /// the slowest cable, and the round trip of that.
    pub fn ideal(&self, bytes: u64, pmtu: u32) -> Span {
        let pmtu = u64::from(pmtu);
        let full = bytes.div_ceil(pmtu).max(1) - 1;
        let before = Span::from_nanos(full * packet_wire_bytes(pmtu) * 8);
        before.scale(1_000_000_000, self.rate) + self.round_trip(bytes - full * pmtu)
    }
}

/// How long a host waits for an answer before it sends again.
pub fn timeout(scenario: &Scenario) -> Span {
    let rtt = Path::longest(scenario, true).rtt(scenario.nic.pmtu);
    scenario.nic.timeout.unwrap_or((rtt * 4).max(local_ack_timeout(12)))
}

/// Packets that a queue pair may have unacknowledged.
pub fn window(scenario: &Scenario) -> u32 {
    let nic = &scenario.nic;
    let packets = Path::longest(scenario, true).packets(nic.pmtu);
    nic.window.unwrap_or((3 * packets).clamp(64, 1 << 22) as u32)
}
