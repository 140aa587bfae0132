//! The receiving side of a QP.
//!
//! Rules, with the Linux rxe driver as the reference (`rxe_resp.c`):
//!
//! - Packets are accepted in order of their PSN and not otherwise.
//! - A packet ahead of the expected PSN is discarded. The first one brings
//!   forth a NAK with the expected PSN; then there is silence until the
//!   expected packet arrives.
//! - A packet behind is discarded and answered, whether it asks or not, with
//!   an ACK of the newest packet accepted. There is no limit to how far
//!   behind or ahead.
//! - A packet in order that asks is acknowledged with its own PSN, at once or
//!   [coalesced](crate::AckCoalescing). A NAK covers what was still owed.
//! - A request that can't be right (packets of a message out of order, wrong
//!   lengths, an operation that the QP does not allow: 0x61; an address or key
//!   that is not registered: 0x62) is refused and ends the QP.
//!
//! READ and atomic requests will be executed here, with the responses kept
//! for duplicates; as long as the QP allows neither they are refused like on
//! any RNIC. The receive queue, and with it the RNR NAK, has its place before
//! a SEND is accepted.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Aeth, Kind, Position, Roce};

use crate::config::{AckCoalescing, QpConfig, Region};
use crate::content::{Content, Stream};
use crate::stats::ResponderStats;
use crate::work::{MAX_MESSAGE, QpId, Received, WorkKind};

/// An ACK or NAK to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Acknowledge {
    pub(crate) psn: Psn,
    pub(crate) aeth: Aeth,
}

/// The message that packets are being accepted for.
#[derive(Debug)]
struct Open {
    kind: WorkKind,
    content: Content,
    /// Bytes received.
    received: u64,
    /// Bytes that the request announced; a SEND announces nothing.
    announced: Option<u64>,
    corrupt: u64,
}

/// NAK syndrome after which the QP is at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refusal(u8);

const INVALID_REQUEST: Refusal = Refusal(Aeth::NAK_INVALID_REQUEST);
const REMOTE_ACCESS: Refusal = Refusal(Aeth::NAK_REMOTE_ACCESS);

#[derive(Debug)]
pub(crate) struct Responder {
    qp: QpId,
    pmtu: u64,
    coalescing: AckCoalescing,
    re_nak: Option<Span>,
    region: Region,
    stream: Stream,

    /// PSN of the next packet in order.
    expected: Seq,
    /// Messages received completely, modulo 2^24: what an AETH carries.
    msn: u32,
    /// Messages received completely.
    messages: u64,
    open: Option<Open>,
    /// When the NAK for the gap that is open was made.
    nak_at: Option<Time>,
    /// Packets that asked for an ACK and have none yet.
    asked: u32,
    ack_deadline: Option<Time>,
    /// Packets accepted since the last ACK or NAK.
    uncovered: u64,
    failed: bool,
    pub(crate) stats: ResponderStats,
}

impl Responder {
    pub(crate) fn new(qp: QpId, config: &QpConfig) -> Self {
        Self {
            qp,
            pmtu: u64::from(config.pmtu),
            coalescing: config.ack_coalescing,
            re_nak: config.re_nak,
            region: config.local_region,
            stream: Stream::new(
                config.content_seed,
                config.remote_qpn,
                config.local_qpn,
                config.recv_psn.get(),
            ),
            expected: Seq::first(config.recv_psn),
            msn: 0,
            messages: 0,
            open: None,
            nak_at: None,
            asked: 0,
            ack_deadline: None,
            uncovered: 0,
            failed: false,
            stats: ResponderStats::default(),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.ack_deadline
    }

    /// A request with a right ICRC has arrived.
    pub(crate) fn on_request(
        &mut self,
        kind: Kind,
        roce: &Roce,
        frame: &[u8],
        now: Time,
        received: &mut VecDeque<Received>,
    ) -> Option<Acknowledge> {
        let seq = roce.psn.unwrap_near(self.expected);
        if seq > self.expected {
            self.stats.out_of_sequence += 1;
            return self.nak(now);
        }
        let (operation, position) = match kind {
            Kind::Send(position) => (WorkKind::Send, position),
            Kind::Write(position) => (WorkKind::Write, position),
            // Neither allowed, so nothing that could be done again.
            _ if seq < self.expected => {
                self.stats.duplicates += 1;
                return None;
            }
            _ => return Some(self.refuse(roce.psn, INVALID_REQUEST)),
        };
        if seq < self.expected {
            self.stats.duplicates += 1;
            return Some(self.ack());
        }
        self.nak_at = None;
        match self.accept(operation, position, roce, frame, now, received) {
            Err(refusal) => Some(self.refuse(roce.psn, refusal)),
            Ok(()) => {
                let ack = self.answer(roce.ack_req, now);
                self.stats.ack_lag_sum += self.uncovered;
                ack
            }
        }
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(crate) fn on_timer(&mut self, now: Time) -> Option<Acknowledge> {
        self.ack_deadline.is_some_and(|deadline| deadline <= now).then(|| self.ack())
    }

    /// Takes the packet with the expected PSN.
    fn accept(
        &mut self,
        kind: WorkKind,
        position: Position,
        roce: &Roce,
        frame: &[u8],
        now: Time,
        received: &mut VecDeque<Received>,
    ) -> Result<(), Refusal> {
        let payload = roce.payload(frame);
        let len = payload.len() as u64;
        let mut open = match (self.open.take(), position.starts_message()) {
            (None, true) => self.open_message(kind, roce, frame)?,
            (Some(open), false) if open.kind == kind => open,
            _ => return Err(INVALID_REQUEST),
        };
        let fits = match position {
            Position::First | Position::Middle => len == self.pmtu && roce.pad == 0,
            Position::Last => (1..=self.pmtu).contains(&len),
            Position::Only => len <= self.pmtu,
        };
        let total = open.received + len;
        let announced = open.announced.unwrap_or(u64::from(MAX_MESSAGE));
        let complete = !position.ends_message() || open.announced.is_none_or(|len| len == total);
        if !fits || total > announced || !complete {
            return Err(INVALID_REQUEST);
        }
        open.corrupt += open.content.mismatches(open.received, payload);
        open.received = total;

        self.expected = self.expected.next();
        self.uncovered += 1;
        self.stats.accepted += 1;
        if position.ends_message() {
            received.push_back(Received {
                qp: self.qp,
                kind,
                index: self.messages,
                len: total as u32, // at most MAX_MESSAGE, checked above
                corrupt_bytes: open.corrupt,
                at: now,
            });
            self.stats.messages += 1;
            self.stats.message_bytes += total;
            self.stats.corrupt_bytes += open.corrupt;
            self.stats.corrupt_messages += u64::from(open.corrupt > 0);
            self.messages += 1;
            self.msn = (self.msn + 1) % Psn::MODULUS;
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    fn open_message(&self, kind: WorkKind, roce: &Roce, frame: &[u8]) -> Result<Open, Refusal> {
        let announced = match kind {
            WorkKind::Send => None,
            WorkKind::Write => {
                let reth = roce.reth(frame).ok_or(INVALID_REQUEST)?;
                if reth.len > MAX_MESSAGE {
                    return Err(INVALID_REQUEST);
                }
                // A WRITE of nothing need not name a region (IBA C9-88).
                let right = reth.rkey == self.region.rkey
                    && self.region.contains(reth.va, u64::from(reth.len));
                if reth.len > 0 && !right {
                    return Err(REMOTE_ACCESS);
                }
                Some(u64::from(reth.len))
            }
        };
        let content = self.stream.message(self.messages);
        Ok(Open { kind, content, received: 0, announced, corrupt: 0 })
    }

    /// After a packet was accepted: the ACK, if one is due.
    fn answer(&mut self, ack_req: bool, now: Time) -> Option<Acknowledge> {
        if !ack_req {
            return None;
        }
        self.asked += 1;
        if self.asked >= self.coalescing.packets {
            return Some(self.ack());
        }
        self.ack_deadline.get_or_insert(now + self.coalescing.delay);
        None
    }

    /// An ACK of everything accepted.
    fn ack(&mut self) -> Acknowledge {
        self.stats.acks += 1;
        self.acknowledge(self.expected.prev().psn(), Aeth::ACK_UNLIMITED)
    }

    /// A packet ahead of the expected one has been discarded.
    fn nak(&mut self, now: Time) -> Option<Acknowledge> {
        let due = match (self.nak_at, self.re_nak) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(at), Some(interval)) => now.since(at) >= interval,
        };
        due.then(|| {
            self.nak_at = Some(now);
            self.stats.naks += 1;
            self.acknowledge(self.expected.psn(), Aeth::NAK_PSN_SEQUENCE)
        })
    }

    fn refuse(&mut self, psn: Psn, refusal: Refusal) -> Acknowledge {
        self.stats.refused += 1;
        self.fail();
        self.acknowledge(psn, refusal.0)
    }

    fn acknowledge(&mut self, psn: Psn, syndrome: u8) -> Acknowledge {
        self.asked = 0;
        self.ack_deadline = None;
        self.uncovered = 0;
        Acknowledge { psn, aeth: Aeth { syndrome, msn: self.msn } }
    }

    /// The QP is at its end.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        self.open = None;
        self.ack_deadline = None;
    }
}
