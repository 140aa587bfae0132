//! ACKs that are swallowed, replaced, or come late.

use common::psn::Seq;
use common::time::Time;
use common::wire::Aeth;

use super::differences::differences;
use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::Reply;
use crate::rnic_check::packets;
use crate::rnic_check::trail::{Trail, count};

/// ACKs that are swallowed, at most.
const SWALLOWED: u32 = 4;
/// ACKs that ours replace: for more packets than a requester sends without an ACK.
const REPLACED: u32 = 64;
/// ACKs that overtake the old one.
const NEWER: u32 = 3;

/// Some ACKs are swallowed; the newest passes.
#[derive(Default)]
pub struct Swallowed {
    trail: Option<Trail>,
    swallowed: u32,
    /// The newest that was swallowed.
    newest: Option<(Reply, Vec<u8>)>,
    began: Option<Time>,
}

impl Check for Swallowed {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let flow = cx.flow;
        let trail = self.trail.get_or_insert_with(|| Trail::new(flow, reply.seq, cx.now));
        if reply.is_ack() && self.swallowed < SWALLOWED {
            self.began.get_or_insert(cx.now);
            self.swallowed += 1;
            self.newest = Some((*reply, packet.bytes.to_vec()));
            trail.at = trail.at.max(reply.seq);
            return Fate::Drop;
        }
        trail.on_reply(reply, cx.now);
        if reply.is_ack() {
            self.newest = None;
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let (Some(trail), Some(began)) = (&mut self.trail, self.began) else { return };
        if let Some((reply, bytes)) = &mut self.newest {
            // The requester may wait for it with a full window.
            if cx.now.since(began) >= cx.hold {
                self.swallowed = SWALLOWED.max(self.swallowed);
                cx.send_in_place_of(reply, std::mem::take(bytes));
                self.newest = None;
            }
        } else if trail.is_over(cx.flow, cx.now, cx.hold) {
            let words = format!("ACKs were swallowed and a newer one passed; {}", trail.in_words());
            cx.judge(trail.is_calm(), words);
        }
    }

    fn so_far(&mut self) -> Option<String> {
        let trail = self.trail.as_ref().filter(|_| self.swallowed > 0)?;
        Some(format!("{} swallowed; {}", count(self.swallowed, "ACK"), trail.in_words()))
    }
}

/// An ACK comes once more behind newer ones.
#[derive(Default)]
pub struct Old {
    old: Vec<u8>,
    newer: u32,
    trail: Option<Trail>,
}

impl Check for Old {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_reply(reply, cx.now);
        } else if reply.is_ack() && self.old.is_empty() {
            self.old = packet.bytes.to_vec();
        } else if reply.is_ack() && reply.seq.next() > cx.flow.acked {
            self.newer += 1;
            if self.newer == NEWER {
                self.trail = Some(Trail::new(cx.flow, reply.seq, cx.now));
                cx.send_requester_behind(std::mem::take(&mut self.old));
            }
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        if trail.is_over(cx.flow, cx.now, cx.hold) {
            let words =
                format!("an ACK came again behind {NEWER} newer ones; {}", trail.in_words());
            cx.judge(trail.is_calm(), words);
        }
    }
}

/// The requester gets our ACKs in place of the responder's for a while.
#[derive(Default)]
pub struct Ours {
    replaced: u32,
    /// The next PSN of the requester when the first was replaced, and the last.
    went_on: Option<(Seq, Seq)>,
    trail: Option<Trail>,
    differences: Vec<&'static str>,
}

impl Check for Ours {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let flow = cx.flow;
        let trail = self.trail.get_or_insert_with(|| Trail::new(flow, reply.seq, cx.now));
        let own = reply.response.credits.zip(reply.response.msn).filter(|_| reply.is_ack());
        if let Some((syndrome, msn)) = own
            && self.replaced < REPLACED
            && let Some(ours) = packets::ack(flow, reply.response.psn, Aeth { syndrome, msn })
        {
            self.differences = differences(&ours, packet.bytes, packet.roce);
            cx.send_in_place_of(reply, ours);
            self.replaced += 1;
            let (first, _) = self.went_on.unwrap_or((flow.next, flow.next));
            self.went_on = Some((first, flow.next));
            trail.at = trail.at.max(reply.seq);
            return Fate::Drop;
        }
        trail.on_reply(reply, cx.now);
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let (Some(trail), Some((first, last))) = (&mut self.trail, self.went_on) else { return };
        // Without our ACKs the requester stops, and sends again after its timeout: then its own ones may pass.
        if trail.repeats > 0 {
            self.replaced = REPLACED;
        }
        if self.replaced < REPLACED || !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let mut words = format!(
            "ACKs were replaced while the requester went on by {}; {}",
            count(last.since(first) as u32, "PSN"),
            trail.in_words()
        );
        if !self.differences.is_empty() {
            words += &format!(
                "; ours differ from the responder's own in {}",
                self.differences.join(", ")
            );
        }
        cx.judge(trail.is_calm(), words);
    }

    fn so_far(&mut self) -> Option<String> {
        let trail = self.trail.as_ref().filter(|_| self.replaced > 0)?;
        Some(format!("{} replaced by ours; {}", count(self.replaced, "ACK"), trail.in_words()))
    }
}
