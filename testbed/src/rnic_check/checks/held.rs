//! Packets held back and delivered in order, as a Depot does.

use common::time::Time;

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::Request;
use crate::rnic_check::trail::{Trail, count, time};

/// As many held packets are enough, however short the time.
const ENOUGH: usize = 256;

/// A packet and those behind it are held, then they are delivered in order.
#[derive(Default)]
pub struct Held {
    trail: Option<Trail>,
    /// Packets held, and when they went on.
    released: Option<(usize, Time)>,
}

impl Check for Held {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if Trail::begin(&mut self.trail, request, cx) {
            return Fate::Hold;
        }
        let Some(trail) = &mut self.trail else { return Fate::Forward };
        trail.on_request(request, cx.now);
        if self.released.is_some() { Fate::Forward } else { Fate::Hold }
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        let Some((held, at)) = self.released else {
            // Besides the late packet itself.
            let behind = cx.held.saturating_sub(1);
            if cx.now.since(trail.since) >= cx.hold || behind >= ENOUGH {
                self.released = Some((behind, cx.now));
                cx.release();
            }
            return;
        };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        if held == 0 {
            return cx.end(Verdict::NotTried, "no packet came behind the late one");
        }
        let what = format!(
            "a packet was late by {} and the {} behind it with it, in order; {}",
            time(at.since(trail.since)),
            count(held as u32, "packet"),
            trail.in_words()
        );
        cx.judge(trail.is_calm(), what);
    }
}
