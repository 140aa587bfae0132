//! A NAK as a Sentry makes it.

use common::time::Time;

use super::differences::differences;
use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// A packet is dropped, the responder's NAK as well, and the requester gets ours in its place; or two of ours.
pub struct Nak {
    twice: bool,
    trail: Option<Trail>,
    /// When ours was sent.
    sent: Option<Time>,
    /// A second one was sent.
    sent_again: bool,
    /// How ours differs from the responder's own.
    differences: Vec<&'static str>,
}

impl Nak {
    /// With `twice` the same NAK follows once the requester has gone back.
    pub fn new(twice: bool) -> Self {
        Self { twice, trail: None, sent: None, sent_again: false, differences: Vec::new() }
    }
}

impl Check for Nak {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if Trail::begin(&mut self.trail, request, cx) {
            return Fate::Drop;
        }
        let Some(trail) = &mut self.trail else { return Fate::Forward };
        trail.on_request(request, cx.now);
        let (at, goes_back) = (trail.at, trail.rounds == 1 && self.sent.is_some());
        // Before the packet goes on: no ACK of it can have come.
        if self.twice
            && goes_back
            && !self.sent_again
            && let Some(nak) = cx.nak(at.psn())
        {
            self.sent_again = true;
            cx.send_requester(nak);
        }
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let Some(trail) = &mut self.trail else { return Fate::Forward };
        let is_for_gap = reply.is_nak() && reply.seq == trail.at && trail.rounds == 0;
        if !is_for_gap {
            trail.on_reply(reply, cx.now);
            return Fate::Forward;
        }
        let at = trail.at;
        if self.sent.is_none()
            && let Some(ours) = cx.nak(at.psn())
        {
            self.differences = differences(&ours, packet.bytes, packet.roce);
            self.sent = Some(cx.now);
            cx.send_requester(ours);
        }
        Fate::Drop
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let (Some(sent), Some((repeat_at, repeated))) = (self.sent, trail.first_repeat) else {
            let why = "the responder sent no NAK that ours could replace";
            return cx.end(Verdict::NotTried, why);
        };
        let after = repeat_at.since(sent);
        // A timeout of the requester takes longer than packets may be held.
        let obeyed = after <= cx.hold * 2 && repeated == trail.at;
        let mut words = Vec::new();
        words.push(match obeyed {
            true => format!(
                "the requester went back {} after our NAK and sent {} again",
                time(after),
                count(trail.repeats, "packet")
            ),
            false => {
                format!("no packet was sent again until {} after our NAK: a timeout", time(after))
            }
        });
        if self.twice && obeyed {
            words.push(match trail.rounds {
                1 => "a second NAK of the same PSN before an ACK was ignored".into(),
                n => {
                    format!("a second NAK of the same PSN made it go back again, {n} times in all")
                }
            });
        } else if !self.twice && !self.differences.is_empty() {
            words.push(format!(
                "ours differs from the responder's own in {}",
                self.differences.join(", ")
            ));
        }
        let is_expected = obeyed && trail.errors == 0 && (!self.twice || trail.rounds == 1);
        cx.judge(is_expected, words.join("; "));
    }

    fn so_far(&mut self) -> Option<String> {
        let trail = self.trail.as_ref()?;
        let ours = if self.sent.is_some() { "our NAK was sent" } else { "our NAK was not sent" };
        Some(format!("{ours}; {}", trail.in_words()))
    }
}
