//! One packet for a responder that has nothing else to answer: the requests behind it are held meanwhile.

use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Verdict as Meaning, request_ack};

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, time};

/// What is sent into the silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stimulus {
    /// A packet that has just been delivered, once more.
    Duplicate,
    /// A packet that asked for no ACK, with its AckReq bit set and its ICRC made anew.
    AckRequest,
}

/// Where it is.
enum Phase {
    /// A fitting packet is awaited.
    Waiting,
    /// The responder is to fall silent; since when it is.
    Settling(Time),
    /// The packet was sent at this time.
    Asked(Time),
    /// Requests go on.
    Released,
}

/// The check.
pub struct Quiet {
    stimulus: Stimulus,
    phase: Phase,
    trail: Option<Trail>,
    /// The packet that is to be delivered twice.
    copy: Vec<u8>,
    /// The first response to it: how long it took, meaning, PSN.
    answer: Option<(Span, Meaning, Seq)>,
    /// Requests seen before a fitting one.
    seen: u32,
}

impl Quiet {
    /// Of this kind.
    pub fn new(stimulus: Stimulus) -> Self {
        Self {
            stimulus,
            phase: Phase::Waiting,
            trail: None,
            copy: Vec::new(),
            answer: None,
            seen: 0,
        }
    }

    fn judge(&self, cx: &mut Context<'_>) {
        let Some(trail) = &self.trail else { return };
        let (what, wanted) = match self.stimulus {
            Stimulus::Duplicate => ("the packet that came twice", "an ACK"),
            Stimulus::AckRequest => ("the packet whose AckReq bit was set", "an ACK of it"),
        };
        let (answered, mut words) = match self.answer {
            Some((after, Meaning::Acknowledged, seq)) if seq >= trail.at => {
                let words = format!("{wanted} came {} after {what}", time(after));
                (true, words)
            }
            Some((after, Meaning::Acknowledged, seq)) => {
                let back = trail.at.since(seq);
                let words =
                    format!("an ACK that is {back} PSNs older came {} after {what}", time(after));
                (self.stimulus == Stimulus::Duplicate, words)
            }
            Some((after, meaning, _)) => {
                (false, format!("{meaning:?} came {} after {what}", time(after)))
            }
            None => (false, format!("no response to {what} within {}", time(cx.hold))),
        };
        words += &format!("; then {}", trail.in_words());
        cx.judge(answered && trail.is_calm(), words);
    }
}

impl Check for Quiet {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_request(request, cx.now);
            return if let Phase::Released = self.phase { Fate::Forward } else { Fate::Hold };
        }
        self.seen += 1;
        // A duplicate of a packet that asked for no ACK: what answers it is no late answer to the first copy.
        if !request.is_new_within_message() || request.ack_req {
            if self.seen > 4096 {
                cx.end(Verdict::NotTried, "every packet within a message asks for an ACK");
            }
            return Fate::Forward;
        }
        if self.stimulus == Stimulus::AckRequest && !request_ack(packet.bytes, packet.roce) {
            cx.end(Verdict::Differs, "a request's ICRC is not the one that is computed here");
            return Fate::Forward;
        }
        self.trail = Some(Trail::new(cx.flow, request.seq, cx.now));
        self.phase = Phase::Settling(cx.now);
        match self.stimulus {
            Stimulus::Duplicate => {
                self.copy = packet.bytes.to_vec();
                Fate::Forward
            }
            Stimulus::AckRequest => Fate::Hold,
        }
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_reply(reply, cx.now);
        }
        match &mut self.phase {
            Phase::Settling(since) => *since = cx.now,
            Phase::Asked(at) if self.answer.is_none() => {
                self.answer = Some((cx.now.since(*at), reply.response.verdict, reply.seq));
            }
            _ => {}
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        match self.phase {
            Phase::Settling(since) if cx.now.since(since) >= cx.hold / 2 => {
                self.phase = Phase::Asked(cx.now);
                match self.stimulus {
                    Stimulus::Duplicate => cx.send_responder(std::mem::take(&mut self.copy)),
                    Stimulus::AckRequest => cx.release_first(),
                }
            }
            Phase::Asked(at) if self.answer.is_some() || cx.now.since(at) >= cx.hold => {
                self.phase = Phase::Released;
                cx.release();
            }
            Phase::Released if trail.is_over(cx.flow, cx.now, cx.hold) => self.judge(cx),
            _ => {}
        }
    }
}
