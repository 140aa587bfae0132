//! Packets between gateways that reach RNICs: control messages, and frames of the tunnel.

use common::wire::{Position, Verdict as Meaning};

use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::packets;
use crate::rnic_check::trail::{Trail, count};

/// What is put among the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// SYNC and STATUS of the recovery modes.
    Control,
    /// The same, STATUS between the packets of READ responses.
    ControlAmongReads,
    /// Frames of the tunnel, over Ethernet and over UDP.
    Tunnel,
}

/// As many go each way.
const EACH_WAY: u32 = 16;
/// Packets of the flow between two of them.
const EVERY: u32 = 4;

/// The check.
pub struct Strange {
    stranger: Stranger,
    trail: Option<Trail>,
    passed: u32,
    /// To the responder, to the requester.
    sent: [u32; 2],
}

impl Strange {
    /// With these packets.
    pub fn new(stranger: Stranger) -> Self {
        Self { stranger, trail: None, passed: 0, sent: [0; 2] }
    }

    fn is_done(&self) -> bool {
        // Responses may be few.
        self.sent[0] >= EACH_WAY && self.sent[1] >= EVERY
    }

    /// One more towards the responder.
    fn send_responder(&mut self, cx: &mut Context<'_>) {
        let seq = u64::from(self.sent[0]) + 1;
        let sync = packets::sync(cx.flow, seq, cx.now);
        let wrapped = match self.stranger {
            Stranger::Tunnel if seq.is_multiple_of(2) => packets::over_ethernet(&sync, seq as u32),
            Stranger::Tunnel => packets::over_udp(&cx.flow.request, &sync, seq as u32),
            _ => Some(sync),
        };
        if let Some(frame) = wrapped {
            cx.send_responder(frame);
            self.sent[0] += 1;
        }
    }

    /// One more towards the requester, behind the response that has come.
    fn send_requester(&mut self, cx: &mut Context<'_>) {
        let seq = u64::from(self.sent[1]) + 1;
        let Some(status) = packets::status(cx.flow, seq, cx.now) else { return };
        let wrapped = match self.stranger {
            Stranger::Tunnel if seq.is_multiple_of(2) => {
                packets::over_ethernet(&status, seq as u32)
            }
            Stranger::Tunnel => packets::over_udp(&cx.flow.request.reversed(), &status, seq as u32),
            _ => Some(status),
        };
        if let Some(frame) = wrapped {
            cx.send_requester_behind(frame);
            self.sent[1] += 1;
        }
    }
}

impl Check for Strange {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let flow = cx.flow;
        let trail = self.trail.get_or_insert_with(|| Trail::new(flow, request.seq, cx.now));
        trail.on_request(request, cx.now);
        self.passed += 1;
        let is_due =
            self.passed.is_multiple_of(EVERY) || self.stranger == Stranger::ControlAmongReads;
        if is_due && self.sent[0] < EACH_WAY {
            self.send_responder(cx);
        }
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let Some(trail) = &mut self.trail else { return Fate::Forward };
        trail.on_reply(reply, cx.now);
        let is_place = self.stranger != Stranger::ControlAmongReads
            || matches!(
                reply.response.verdict,
                Meaning::Response(Position::First | Position::Middle)
            );
        if is_place && self.sent[1] < EACH_WAY {
            self.send_requester(cx);
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let is_done = self.is_done();
        let Some(trail) = &mut self.trail else { return };
        if !is_done || !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let what = match self.stranger {
            Stranger::Control | Stranger::ControlAmongReads => "control message",
            Stranger::Tunnel => "tunnel frame",
        };
        let [there, back] = self.sent;
        let icmp = match cx.icmp {
            0 => "no ICMP".into(),
            n => count(n, "ICMP packet") + " of the hosts",
        };
        let words = format!(
            "{there} to the responder and {back} to the requester ({what}s); {}; {icmp}",
            trail.in_words()
        );
        let may_answer = self.stranger == Stranger::Tunnel;
        cx.judge(trail.is_calm() && (cx.icmp == 0 || may_answer), words);
    }

    fn so_far(&mut self) -> Option<String> {
        let trail = self.trail.as_ref().filter(|_| self.sent != [0; 2])?;
        Some(trail.in_words())
    }
}
