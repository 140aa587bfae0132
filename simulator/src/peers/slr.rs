//! SLR: a switch near the sender that reports loss to it at once.
//!
//! It watches the packets of each queue pair. A gap before it is reported to
//! the sender without waiting for the other site, and packets that the receiver would
//! drop anyway, everything between the first missing packet and its repeat, is
//! dropped here already. Loss beyond it is told by the receiver, a long-haul
//! round trip later; the NAK then starts the same filter. Nothing is kept and
//! nothing resent.
//!
//! Modelled after the digest of LR2's paper, which says no more than that loss is
//! found quickly and told locally, and that over a long link the feedback is slow all the same;
//! the original isn't at hand. Its NAKs need a RNIC that knows them, as LR2's
//! do: a plain NAK would acknowledge packets still on their way.
//!
//! A packet that is dropped here with a congestion mark brings forth the CNP that its
//! receiver would have sent, at most one per queue pair in the receivers'
//! interval. Without that sources behind a marking switch are told less the
//! more is filtered, and fill its queue: at a loss of 1e-2 SLR then takes longer than
//! go-back-N.

use common::frame::{Class, Frame, Side};
use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Response, Verdict, parse};

use super::{Map, Peer, Ports, answered, flow, marks};
use crate::frame::SimFrame;

/// ECN code point of a frame that met congestion.
const CONGESTION_EXPERIENCED: u8 = 3;

#[derive(Clone, Copy)]
struct Flow {
    /// One past the newest packet in order.
    next: Seq,
    /// The first missing packet: until it comes all behind it are dropped.
    awaited: Option<Seq>,
    /// No CNP before.
    quiet_until: Time,
}

/// The switch near the sender. Near the receiver it only lets pass.
pub struct Slr {
    flows: Map<Flow>,
    cnp_interval: Span,
}

impl Slr {
    /// A switch that sends at most one CNP per queue pair in `cnp_interval`.
    pub fn new(cnp_interval: Span) -> Self {
        Self { flows: Map::default(), cnp_interval }
    }
}

impl Peer for Slr {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut impl Ports) {
        let Ok(roce) = parse(frame.bytes()) else {
            return out.send(side.other(), Class::Data, frame);
        };
        if side == Side::Lan && roce.opcode.kind().is_request() {
            let first = Seq::first(roce.psn);
            let state = self.flows.entry(flow(&roce)).or_insert(Flow {
                next: first,
                awaited: None,
                quiet_until: Time::ZERO,
            });
            let seq = roce.psn.unwrap_near(state.next);
            if state.awaited.is_none() && seq > state.next {
                state.awaited = Some(state.next);
                let nak = marks::nak(&frame, &roce, state.next, seq.since(state.next));
                out.send(Side::Lan, Class::Data, nak);
            }
            if state.awaited.is_some_and(|awaited| seq > awaited) {
                if roce.ecn == CONGESTION_EXPERIENCED && now >= state.quiet_until {
                    state.quiet_until = now + self.cnp_interval;
                    out.send(Side::Lan, Class::Data, marks::cnp(&frame, &roce));
                }
                return;
            }
            state.awaited = None;
            state.next = state.next.max(seq.next());
        } else if side == Side::Wan
            && let Some(response) = Response::of(&roce, frame.bytes())
            && response.verdict == Verdict::Missing
            && let Some(state) = self.flows.get_mut(&answered(&roce))
        {
            let seq = response.psn.unwrap_near(state.next);
            if seq < state.next {
                state.awaited = Some(seq);
            }
        }
        out.send(side.other(), Class::Data, frame);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use common::frame::{Packet, Sink};
    use common::wire::{Bth, Headers, Opcode, Qpn, Vlans, has_switch_bit, mark_congestion};

    use super::*;

    /// Opcodes of the frames that left, by their side.
    #[derive(Default)]
    struct Sends(Vec<(Side, Opcode)>);

    impl Sink for Sends {
        type Frame = SimFrame;

        fn transmit(&mut self, side: Side, _: Class, packet: Packet<SimFrame>) {
            let frame = SimFrame::of(packet);
            let roce = parse(frame.bytes()).expect("RoCE");
            assert_eq!(has_switch_bit(frame.bytes(), &roce), roce.opcode == Opcode::ACK);
            self.0.push((side, roce.opcode));
        }
    }

    fn data(n: u32, is_marked: bool) -> SimFrame {
        let ip = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        let headers = Headers::new([2; 6], [3; 6], Vlans::default(), ip(1), ip(2), 50_000, 2, 64);
        let mut bytes = vec![0; headers.frame_len(256)];
        let bth = Bth::new(Opcode::WRITE_MIDDLE, Qpn::new(0x21), common::psn::Psn::new(n));
        headers.emit(&bth, &mut bytes, |payload| payload.fill(7));
        if is_marked {
            let roce = parse(&bytes).expect("RoCE");
            mark_congestion(&mut bytes, &roce);
        }
        bytes.into()
    }

    #[test]
    fn a_gap_is_reported_once_and_what_follows_is_dropped_but_for_its_marks() {
        let mut slr = Slr::new(Span::from_micros(4));
        let mut now = Time::from_nanos(1_000_000);
        let mut arrive = |slr: &mut Slr, n, is_marked| {
            let mut sends = Sends::default();
            now += Span::from_micros(1);
            slr.receive(Side::Lan, data(n, is_marked), now, &mut sends);
            sends.0
        };
        let (passes, nak, cnp) =
            ((Side::Wan, Opcode::WRITE_MIDDLE), (Side::Lan, Opcode::ACK), (Side::Lan, Opcode::CNP));
        assert_eq!(arrive(&mut slr, 0, true), [passes]);
        assert_eq!(arrive(&mut slr, 2, false), [nak]);
        assert_eq!(arrive(&mut slr, 3, false), []);
        // Its receiver would have sent it, and not so soon again.
        assert_eq!(arrive(&mut slr, 4, true), [cnp]);
        for n in 5..8 {
            assert_eq!(arrive(&mut slr, n, true), []);
        }
        assert_eq!(arrive(&mut slr, 8, true), [cnp]);
        assert_eq!(arrive(&mut slr, 1, false), [passes]);
        assert_eq!(arrive(&mut slr, 2, false), [passes]);
    }
}
