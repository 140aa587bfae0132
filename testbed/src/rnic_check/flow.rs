//! What is known of one direction of a queue pair.

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Addr, Headers, PacketKind, Position, Qpn, Response, Roce, Verdict};

use super::end::End;

/// A PSN this far from the next one belongs to another use of the queue pair's number.
const LEAP: i32 = 1 << 17;
/// Responses that must fit before the requester's queue pair is believed.
const VOTES: u32 = 4;
/// Queue pairs of the requesting host that are counted per flow.
const CANDIDATES: usize = 8;
/// A kind of request was seen lately if it was seen within this time.
const LATELY: Span = Span::from_millis(500);

/// A request as it was seen on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The operation.
    pub kind: PacketKind,
    /// Its PSN.
    pub seq: Seq,
    /// The last PSN that it takes.
    pub last: Seq,
    /// It asks for an acknowledgement.
    pub ack_req: bool,
    /// Its PSN was sent before.
    pub is_repeat: bool,
    /// Bytes of payload.
    pub payload: usize,
}

impl Request {
    /// Whether it is a SEND or WRITE behind which more of the same message follows, sent for the first time.
    pub fn is_new_within_message(&self) -> bool {
        !self.is_repeat
            && self.kind.is_plain()
            && matches!(self.kind.position(), Some(Position::First | Position::Middle))
    }
}

/// A response as it was seen on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Its content.
    pub response: Response,
    /// Its PSN, unwrapped next to the requests.
    pub seq: Seq,
}

impl Reply {
    /// Whether it is a plain positive ACK.
    pub fn is_ack(&self) -> bool {
        self.response.verdict == Verdict::Acknowledged
    }

    /// Whether it reports a missing packet.
    pub fn is_nak(&self) -> bool {
        self.response.verdict == Verdict::Missing
    }
}

/// The kind of requests that a check needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// SENDs or WRITEs of several packets.
    Messages,
    /// READs whose responses have several packets.
    Reads,
    /// Atomics.
    Atomics,
    /// Any of them.
    Any,
}

/// Requests of one queue pair to another, and the responses to them.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Where the requests come from.
    pub requester: End,
    /// Address of the requester.
    pub src: Addr,
    /// Address of the responder.
    pub dst: Addr,
    /// Where the requests go.
    pub responder_qpn: Qpn,
    /// Where the responses go, once enough of them were seen.
    pub requester_qpn: Option<Qpn>,
    /// One past the highest PSN that was requested.
    pub next: Seq,
    /// The oldest PSN that no delivered response has acknowledged; until there was one, the first that was seen.
    pub acked: Seq,
    /// When that last grew.
    pub acked_at: Time,
    /// MSN of the newest response that carried one.
    pub msn: u32,
    /// Path MTU in bytes; 0: not known.
    pub pmtu: u16,
    /// Headers of its newest request.
    pub request: Headers,
    /// Headers of its newest response.
    pub response: Option<Headers>,
    /// When anything was seen of it.
    pub last_seen: Time,
    /// PSN of READ data, or of an atomic's answer, that was not delivered: nothing acknowledges it but itself.
    withheld: Option<Seq>,
    last_of: [Time; 3],
    votes: Vec<(Qpn, u32)>,
}

impl Flow {
    /// The flow of a request.
    pub fn new(requester: End, roce: &Roce, frame: &[u8], now: Time) -> Self {
        let first = Seq::first(roce.psn);
        Self {
            requester,
            src: roce.src,
            dst: roce.dst,
            responder_qpn: roce.dest_qpn,
            requester_qpn: None,
            next: first,
            acked: first,
            acked_at: now,
            msn: 0,
            pmtu: 0,
            request: Headers::of(frame, roce),
            response: None,
            last_seen: now,
            withheld: None,
            last_of: [Time::ZERO; 3],
            votes: Vec::with_capacity(CANDIDATES),
        }
    }

    /// Whether a request is of another use of the queue pair's number: it is too far from those before it, or does not
    /// go on where they ended, all being acknowledged and long past.
    pub fn is_another_use(&self, psn: Psn, now: Time) -> bool {
        let ahead = psn.distance(self.next.psn());
        let has_ended = self.is_settled() && now.since(self.last_seen) > LATELY;
        ahead.abs() > LEAP || (has_ended && ahead != 0)
    }

    /// A request of it was seen.
    pub fn on_request(&mut self, roce: &Roce, frame: &[u8], now: Time) -> Request {
        let kind = roce.kind();
        if let Some(pmtu) = roce.path_mtu() {
            self.pmtu = pmtu;
        }
        let seq = roce.psn.unwrap_near(self.next);
        // Without a path MTU the responses of a READ can't be counted; it takes one PSN at least.
        let span = if self.pmtu > 0 { roce.psn_count(frame, u32::from(self.pmtu)) } else { 1 };
        let end = seq + u64::from(span.max(1));
        let is_repeat = seq < self.next;
        self.next = self.next.max(end);
        self.request = Headers::of(frame, roce);
        self.last_seen = now;
        let of = match kind {
            PacketKind::ReadRequest => Some(1),
            PacketKind::Atomic => Some(2),
            PacketKind::Send(position) | PacketKind::Write(position) => {
                (position != Position::Only).then_some(0)
            }
            _ => None,
        };
        if let Some(of) = of {
            self.last_of[of] = now;
        }
        let last = end.prev();
        let payload = roce.payload_len();
        Request { kind, seq, last, ack_req: roce.ack_req, is_repeat, payload }
    }

    /// A response to it was seen. `None`: it is none, or fits nothing that was sent.
    pub fn on_response(&mut self, roce: &Roce, frame: &[u8], now: Time) -> Option<Reply> {
        let response = Response::of(roce, frame)?;
        if matches!(roce.kind(), PacketKind::ReadResponse(Position::First | Position::Middle))
            && let Some(pmtu) = roce.path_mtu()
        {
            self.pmtu = pmtu;
        }
        if let Some(msn) = response.msn {
            self.msn = msn;
        }
        self.response = Some(Headers::of(frame, roce));
        self.last_seen = now;
        Some(Reply { response, seq: response.psn.unwrap_near(self.next) })
    }

    /// A response of it goes on to the requester.
    pub fn delivered(&mut self, reply: &Reply, now: Time) {
        let end = match reply.response.verdict {
            Verdict::Acknowledged | Verdict::Response(_) => reply.seq.next(),
            _ => reply.seq,
        };
        if self.withheld == Some(reply.seq) && is_data(reply) {
            self.withheld = None;
        }
        let end = self.withheld.map_or(end, |withheld| end.min(withheld));
        if end <= self.next && end > self.acked {
            (self.acked, self.acked_at) = (end, now);
        }
    }

    /// A response of it does not go on.
    pub fn dropped(&mut self, reply: &Reply) {
        if is_data(reply) {
            self.withheld = Some(self.withheld.map_or(reply.seq, |other| other.min(reply.seq)));
        }
    }

    /// Whether all that was sent has been acknowledged.
    pub fn is_settled(&self) -> bool {
        self.acked >= self.next
    }

    /// Whether a response with this PSN may be one to it, as long as its requester's queue pair is not known.
    pub fn may_have_asked(&self, psn: Psn) -> bool {
        // Beyond the newest request: responses of READs that could not be counted.
        let back = self.next.psn().distance(psn);
        self.requester_qpn.is_none() && (-1024..=4096).contains(&back)
    }

    /// A response to this queue pair fits it and no other flow. It is believed to be this flow's requester once enough of
    /// them did, and hardly any to other queue pairs.
    pub fn vote(&mut self, qpn: Qpn, pmtu: Option<u16>) -> bool {
        if let Some(pmtu) = pmtu {
            self.pmtu = pmtu;
        }
        match self.votes.iter().position(|(known, _)| *known == qpn) {
            Some(at) => self.votes[at].1 += 1,
            None if self.votes.len() < CANDIDATES => self.votes.push((qpn, 1)),
            None => return false,
        }
        let of = |wanted: bool| {
            let chosen = self.votes.iter().filter(|(known, _)| (*known == qpn) == wanted);
            chosen.map(|(_, votes)| votes).sum::<u32>()
        };
        if of(true) >= VOTES && of(true) >= 4 * of(false) {
            self.requester_qpn = Some(qpn);
        }
        self.requester_qpn.is_some()
    }

    /// Whether it has shown requests of this kind lately, both its queue pairs being known. Checks with messages leave
    /// out a flow that also READs: a late ACK between READ responses ends some queue pairs.
    pub fn offers(&self, need: Need, now: Time) -> bool {
        let lately =
            |of: usize| self.last_of[of] > Time::ZERO && now.since(self.last_of[of]) < LATELY;
        let is_needed = match need {
            Need::Messages => lately(0) && !lately(1) && !lately(2) && self.pmtu > 0,
            Need::Reads => lately(1) && self.pmtu > 0,
            Need::Atomics => lately(2),
            Need::Any => now.since(self.last_seen) < LATELY,
        };
        is_needed && self.requester_qpn.is_some() && self.response.is_some()
    }
}

/// Whether a response carries what was asked for.
const fn is_data(reply: &Reply) -> bool {
    matches!(reply.response.verdict, Verdict::Response(_))
}
