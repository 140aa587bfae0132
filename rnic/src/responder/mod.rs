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
//!   [coalesced](crate::AckCoalescing). A NAK covers owed ACKs.
//! - A request that can't be right (packets of a message out of order, wrong
//!   lengths, an operation that the QP does not allow: 0x61; an address or key
//!   that is not registered: 0x62) is refused and ends the QP.
//!
//! - A READ is answered with its data, an atomic with the word before it; each
//!   stands for an ACK of everything before. The newest of them are kept: a
//!   duplicate is answered again from the kept copy, an atomic never executed
//!   again, and a duplicate of an older one discarded.
//! - Like rxe, and unlike the InfiniBand specification, the ACK of a duplicate carries
//!   the PSN of the newest SEND, WRITE or atomic, not that of a READ behind
//!   it.
//! - A SEND takes a receive buffer with its first packet. Without one an RNR
//!   NAK is made and the packet discarded; those behind it bring forth a NAK
//!   as after a loss.

mod buffers;
mod fetch;
mod responses;

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use common::wire::{Aeth, PacketKind, Position, Reth, Roce};

use self::buffers::Buffers;
use self::fetch::Resources;
use self::responses::{Acknowledge, Response, Responses};
use crate::config::QpConfig;
use crate::content::{Content, Stream};
use crate::packet::Packet;
use crate::stats::ResponderStats;
use crate::work::{MAX_MESSAGE, QpId, Received, WorkKind};

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
    config: QpConfig,
    stream: Stream,

    /// PSN of the next packet in order.
    expected: Seq,
    /// One past the newest packet of a SEND or WRITE, or atomic, accepted.
    acknowledged: Seq,
    /// Messages received completely, and READs and atomics executed, modulo
    /// 2^24: the MSN of an AETH.
    msn: u32,
    /// Messages received completely.
    messages: u64,
    open: Option<Open>,
    resources: Resources,
    /// The word that atomics work on.
    word: u64,
    buffers: Option<Buffers>,
    /// Responses to be sent.
    responses: Responses,
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
            config: config.clone(),
            stream: Stream::received(config),
            expected: Seq::first(config.recv_psn),
            acknowledged: Seq::first(config.recv_psn),
            msn: 0,
            messages: 0,
            open: None,
            resources: Resources::new(config.max_rd_atomic),
            word: 0,
            buffers: config.receive_queue.map(Buffers::new),
            responses: Responses::default(),
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
        kind: PacketKind,
        roce: &Roce,
        frame: &[u8],
        now: Time,
        received: &mut VecDeque<Received>,
    ) {
        let seq = roce.psn.unwrap_near(self.expected);
        let operation = match kind {
            PacketKind::Send(position) => Some((WorkKind::Send, position)),
            PacketKind::Write(position) => Some((WorkKind::Write, position)),
            _ => None,
        };
        if operation.is_none() && self.responses.is_full() {
            self.stats.responses_dropped += 1;
            return;
        }
        if seq > self.expected {
            self.stats.out_of_sequence += 1;
            return self.nak(now);
        }
        if seq < self.expected {
            self.stats.duplicates += 1;
            return match operation {
                Some(_) => self.ack(),
                None => self.repeat(seq, roce, frame),
            };
        }
        self.nak_at = None;
        let taken = match (operation, kind) {
            (Some((WorkKind::Send, position)), _) if !self.has_buffer(position, now) => {
                return self.not_ready();
            }
            (Some((kind, position)), _) => self.accept(kind, position, roce, frame, now, received),
            (None, PacketKind::ReadRequest | PacketKind::Atomic) => self.fetch(roce, frame),
            _ => Err(INVALID_REQUEST),
        };
        if let Err(refusal) = taken {
            return self.refuse(roce.psn, refusal);
        }
        if operation.is_some() {
            self.respond(roce.ack_req, now);
        }
        self.stats.ack_lag_sum += self.uncovered;
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.ack_deadline.is_some_and(|deadline| deadline <= now) {
            self.ack();
        }
    }

    /// Whether the next response is data of a READ, if there is one.
    pub(crate) fn data_waits(&self) -> Option<bool> {
        self.responses.front_is_data()
    }

    /// The response to be sent next.
    pub(crate) fn next_packet(&self) -> Option<Packet> {
        self.responses.next_packet(self.pmtu)
    }

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    pub(crate) fn sent(&mut self, packet: &Packet) {
        if self.data_waits() == Some(true) {
            self.stats.read_responses += 1;
            self.stats.read_bytes += packet.payload_len() as u64;
        }
        self.responses.sent(self.pmtu);
    }

    /// The number that atomics work on.
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Gives `n` receive buffers, as far as there is room.
    pub(crate) fn post_receives(&mut self, n: u32) {
        if let Some(buffers) = &mut self.buffers {
            buffers.add(n);
        }
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
        self.acknowledged = self.expected;
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
            self.msn_up();
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    fn open_message(&self, kind: WorkKind, roce: &Roce, frame: &[u8]) -> Result<Open, Refusal> {
        let announced = if kind == WorkKind::Write {
            let reth = roce.reth(frame).ok_or(INVALID_REQUEST)?;
            if reth.len > MAX_MESSAGE {
                return Err(INVALID_REQUEST);
            }
            self.check_access(&reth)?;
            Some(u64::from(reth.len))
        } else {
            None
        };
        let content = self.stream.message(self.messages);
        Ok(Open { kind, content, received: 0, announced, corrupt: 0 })
    }

    /// Whether the peer may access the named region. A READ or WRITE of nothing
    /// need not name a region (IBA C9-88).
    fn check_access(&self, reth: &Reth) -> Result<(), Refusal> {
        let right = reth.rkey == self.config.local_region.rkey
            && self.config.local_region.contains(reth.va, u64::from(reth.len));
        if reth.len == 0 || right { Ok(()) } else { Err(REMOTE_ACCESS) }
    }

    /// Whether there is a receive buffer for this packet of a SEND. The first
    /// one takes it.
    fn has_buffer(&mut self, position: Position, now: Time) -> bool {
        let Some(buffers) = &mut self.buffers else { return true };
        !position.starts_message() || self.open.is_some() || buffers.take(now)
    }

    fn msn_up(&mut self) {
        self.msn = (self.msn + 1) % Psn::MODULUS;
    }

    /// After a packet of a SEND or WRITE was accepted: the ACK, if one is due.
    fn respond(&mut self, ack_req: bool, now: Time) {
        if !ack_req {
            return;
        }
        self.asked += 1;
        if self.asked >= self.config.ack_coalescing.packets {
            self.ack();
        } else {
            self.ack_deadline.get_or_insert(now + self.config.ack_coalescing.delay);
        }
    }

    /// An ACK of everything accepted.
    fn ack(&mut self) {
        self.stats.acks += 1;
        self.acknowledge(self.acknowledged.prev().psn(), Aeth::ACK_UNLIMITED);
    }

    /// A packet ahead of the expected one has been discarded.
    fn nak(&mut self, now: Time) {
        let due = match (self.nak_at, self.config.re_nak) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(at), Some(interval)) => now.since(at) >= interval,
        };
        if due {
            self.nak_at = Some(now);
            self.stats.naks += 1;
            self.acknowledge(self.expected.psn(), Aeth::NAK_PSN_SEQUENCE);
        }
    }

    /// There is no receive buffer for the expected packet.
    fn not_ready(&mut self) {
        let Some(buffers) = &self.buffers else { return };
        let syndrome = Aeth::RNR | buffers.queue.rnr_timer;
        self.stats.rnr_naks += 1;
        self.acknowledge(self.expected.psn(), syndrome);
    }

    fn refuse(&mut self, psn: Psn, refusal: Refusal) {
        self.stats.refused += 1;
        self.failed = true;
        self.open = None;
        self.acknowledge(psn, refusal.0);
    }

    fn acknowledge(&mut self, psn: Psn, syndrome: u8) {
        self.settled();
        let acknowledge = Acknowledge { psn, aeth: Aeth { syndrome, msn: self.msn } };
        if acknowledge.aeth.is_ack() {
            // Duplicates are acknowledged one by one, all with the same PSN.
            if self.responses.ends_with(&acknowledge) {
                return;
            }
            if self.responses.is_full() {
                self.stats.responses_dropped += 1;
                return;
            }
        }
        self.responses.push(Response::Acknowledge(acknowledge));
    }

    /// No acknowledgement is owed any more.
    fn settled(&mut self) {
        self.asked = 0;
        self.ack_deadline = None;
        self.uncovered = 0;
    }

    /// The QP is at its end. Nothing is answered any more.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        self.open = None;
        self.ack_deadline = None;
        self.responses.clear();
    }
}
