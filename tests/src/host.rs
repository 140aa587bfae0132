//! A host that takes packets at a bounded rate, as an emulated or busy one does.

use common::time::{Span, Time};

/// How fast a host takes the packets of its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowHost {
    /// Time that the host needs for one packet.
    pub per_packet: Span,
    /// Packets that its ring holds; further ones are lost.
    pub ring: u64,
    /// The host stands still once in this time, counted from a run's start.
    pub pause_every: Span,
    /// Length of such a pause; zero for a host that never stands still.
    pub pause: Span,
}

/// The ring of a [`SlowHost`].
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    host: SlowHost,
    /// When the host has taken all packets of the ring.
    free_at: Time,
    /// Packets that the ring had no room for.
    pub lost: u64,
}

impl Ring {
    pub fn new(host: SlowHost) -> Self {
        Self { host, free_at: Time::ZERO, lost: 0 }
    }

    /// When the host takes a packet that reaches its port at `at`; `None` if the ring is full.
    pub fn takes(&mut self, at: Time) -> Option<Time> {
        let SlowHost { per_packet, ring, .. } = self.host;
        let start = self.free_at.max(at);
        // The ring is as long as the host needs for its packets, without the pauses in between.
        if start.since(at) > per_packet * ring + self.host.pause {
            self.lost += 1;
            return None;
        }
        self.free_at = self.awake(start) + per_packet;
        Some(self.free_at)
    }

    /// `at`, or the end of the pause that `at` is in.
    fn awake(&self, at: Time) -> Time {
        let SlowHost { pause_every, pause, .. } = self.host;
        if pause == Span::ZERO {
            return at;
        }
        let within = at.as_nanos() % pause_every.as_nanos();
        if within < pause.as_nanos() {
            return at + Span::from_nanos(pause.as_nanos() - within);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_takes_packets_in_turn_loses_what_its_ring_cannot_hold_and_pauses() {
        let at = |micros: u64| Time::ZERO + Span::from_micros(micros);
        let host = SlowHost {
            per_packet: Span::from_micros(100),
            ring: 2,
            pause_every: Span::from_millis(100),
            pause: Span::ZERO,
        };
        let mut ring = Ring::new(host);
        let taken = [0, 0, 0, 0, 150].map(|micros| ring.takes(at(micros)));
        assert_eq!(taken, [Some(at(100)), Some(at(200)), Some(at(300)), None, Some(at(400))]);
        assert_eq!(ring.lost, 1);
        let mut ring = Ring::new(SlowHost { pause: Span::from_millis(20), ..host });
        assert_eq!(ring.takes(at(5_000)), Some(at(20_100)));
        assert_eq!(ring.takes(at(30_000)), Some(at(30_100)));
    }
}
