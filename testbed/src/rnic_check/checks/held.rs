//! Packets held back and delivered in order, as a Depot does.

use common::time::Time;

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// As many held packets are enough, however short the time.
const ENOUGH: usize = 256;

/// A packet is kept, those behind it are held, then it is delivered and they behind it.
#[derive(Default)]
pub struct Held {
    trail: Option<Trail>,
    kept: Vec<u8>,
    /// Packets held, and when they went on.
    released: Option<(usize, Time)>,
}

impl Check for Held {
    fn on_request(&mut self, request: &Request, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        match &mut self.trail {
            None if request.is_new_within_message() => {
                self.trail = Some(Trail::new(cx.flow, request.seq, cx.now));
                self.kept = packet.bytes.to_vec();
                Fate::Drop
            }
            None => Fate::Forward,
            Some(trail) => {
                trail.on_request(request, cx.now);
                if self.released.is_some() { Fate::Forward } else { Fate::Hold }
            }
        }
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_reply(reply, cx.now);
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        let Some((held, at)) = self.released else {
            if cx.now.since(trail.since) >= cx.hold || cx.held >= ENOUGH {
                self.released = Some((cx.held, cx.now));
                cx.send_responder(std::mem::take(&mut self.kept));
                cx.release();
            }
            return;
        };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        if held == 0 {
            return cx.end(Verdict::NotTried, "no packet came behind the one that was kept");
        }
        let what = format!(
            "a packet was late by {} and the {} behind it with it, in order; {}",
            time(at.since(trail.since)),
            count(held as u32, "packet"),
            trail.in_words()
        );
        cx.judge(trail.is_calm(), what);
    }

    fn so_far(&self) -> Option<String> {
        self.trail.as_ref().map(Trail::in_words)
    }
}
