//! Responses of READs and atomics that are lost.

use std::collections::VecDeque;

use common::psn::Seq;
use common::time::Time;
use common::wire::{Opcode, PacketKind, Position, Verdict as Meaning};

use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// Requests that are remembered.
const REMEMBERED: usize = 256;

/// A packet within a READ response is dropped.
#[derive(Default)]
pub struct Read {
    /// First and last PSN of the newest requests.
    requests: VecDeque<(Seq, Seq)>,
    trail: Option<Trail>,
    /// First PSN of the READ that lost a packet.
    whole: Option<Seq>,
    /// Responses that passed before it was asked for again.
    behind: u32,
    /// When it was asked for again, and from which PSN on.
    asked: Option<(Time, Seq)>,
    /// The opcode of the first response to that.
    answer: Option<Opcode>,
}

impl Check for Read {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if request.kind != PacketKind::ReadRequest {
            return Fate::Forward;
        }
        match &mut self.trail {
            Some(trail) => {
                trail.on_request(request, cx.now);
                let covers = (request.seq..=request.last).contains(&trail.at);
                if covers && self.asked.is_none() {
                    self.asked = Some((cx.now, request.seq));
                }
            }
            None if !request.is_repeat => {
                if self.requests.len() == REMEMBERED {
                    self.requests.pop_front();
                }
                self.requests.push_back((request.seq, request.last));
            }
            None => {}
        }
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_reply(reply, cx.now);
            match self.asked {
                None => self.behind += 1,
                Some((_, from)) if reply.seq == from => {
                    self.answer.get_or_insert(packet.roce.opcode);
                }
                Some(_) => {}
            }
            return Fate::Forward;
        }
        let within = reply.response.verdict == Meaning::Response(Position::Middle);
        let of = self.requests.iter().find(|(first, last)| (*first..=*last).contains(&reply.seq));
        if let (true, Some((first, _))) = (within, of) {
            self.whole = Some(*first);
            self.trail = Some(Trail::new(cx.flow, reply.seq, cx.now));
            return Fate::Drop;
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        let Some((asked_at, from)) = self.asked else { return };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let what = match from {
            from if from == trail.at => "from the lost packet on",
            from if Some(from) == self.whole => "the whole READ",
            _ => "a part of the READ",
        };
        let mut words = vec![format!(
            "asked for again {} after the loss, behind {}: {what}",
            time(asked_at.since(trail.since)),
            count(self.behind, "response")
        )];
        if let Some(opcode) = self.answer {
            words.push(format!("answered from {opcode} on"));
        }
        words.push(count(trail.repeats, "request") + " sent again");
        cx.judge(trail.errors == 0 && from <= trail.at, words.join("; "));
    }
}

/// The response to an atomic is dropped.
#[derive(Default)]
pub struct Atomic {
    trail: Option<Trail>,
    /// The value in it.
    original: Option<u64>,
    asked: Option<Time>,
    /// The value in the response to the repeated request.
    again: Option<u64>,
}

impl Check for Atomic {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_request(request, cx.now);
            if request.seq == trail.at && self.asked.is_none() {
                self.asked = Some(cx.now);
            }
        }
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let original = packet.roce.atomic_original(packet.bytes);
        match &mut self.trail {
            None if original.is_some() => {
                self.original = original;
                self.trail = Some(Trail::new(cx.flow, reply.seq, cx.now));
                return Fate::Drop;
            }
            None => {}
            Some(trail) => {
                trail.on_reply(reply, cx.now);
                if reply.seq == trail.at && self.again.is_none() {
                    self.again = original;
                }
            }
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        let (Some(asked), Some(again)) = (self.asked, self.again) else { return };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let same = self.original == Some(again);
        let words = format!(
            "asked for again {} after the loss; the value {}",
            time(asked.since(trail.since)),
            if same { "is the one that was lost: not executed twice" } else { "is another one" }
        );
        cx.judge(same && trail.errors == 0, words);
    }
}
