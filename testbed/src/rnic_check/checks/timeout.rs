//! A requester that gets no response.

use common::psn::Seq;
use common::time::{Span, Time};

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// Longer than this no timeout is awaited: that of the exponent 20 has passed.
const LONGEST: Span = Span::from_millis(6_000);

/// All responses are swallowed until the requester has sent its packets again twice.
#[derive(Default)]
pub struct Timeout {
    trail: Option<Trail>,
    /// When the newest request came.
    last: Time,
    /// The beginning of each pass of repeats: how long the requester had been silent, and the PSN.
    passes: Vec<(Span, Seq)>,
    /// Responses go on again.
    open: bool,
    swallowed: u32,
    /// The oldest PSN that was not acknowledged then.
    oldest: Option<Seq>,
}

impl Check for Timeout {
    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        match &mut self.trail {
            None if request.is_new_within_message() => {
                self.trail = Some(Trail::new(cx.flow, request.seq, cx.now));
                self.oldest = Some(cx.flow.acked);
            }
            None => {}
            Some(trail) => {
                trail.on_request(request, cx.now);
                let begins_pass = self.passes.last().is_none_or(|(_, first)| request.seq <= *first);
                if request.is_repeat && begins_pass && !self.open {
                    self.passes.push((cx.now.since(self.last), request.seq));
                    self.open = self.passes.len() >= 2;
                }
            }
        }
        self.last = cx.now;
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let Some(trail) = &mut self.trail else { return Fate::Forward };
        trail.on_reply(reply, cx.now);
        if self.open {
            return Fate::Forward;
        }
        self.swallowed += 1;
        Fate::Drop
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        if !self.open && cx.now.since(self.last) >= LONGEST {
            self.open = true;
        }
        if !self.open || !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let swallowed = format!("{} swallowed", count(self.swallowed, "response"));
        let Some(&(first, psn)) = self.passes.first() else {
            let words = format!("{swallowed}; nothing was sent again within {}", time(LONGEST));
            return cx.end(Verdict::NotTried, words);
        };
        let mut words = vec![swallowed, format!("the requester waited {}", time(first))];
        if let Some((second, _)) = self.passes.get(1) {
            let times = second.as_nanos() as f64 / first.as_nanos().max(1) as f64;
            words.push(format!("then {} ({times:.1} times as long)", time(*second)));
        }
        let from_oldest = self.oldest == Some(psn);
        if !from_oldest {
            words.push("it did not begin with the oldest packet that is not acknowledged".into());
        }
        words.push("with the next response it went on".into());
        cx.judge(from_oldest && self.passes.len() >= 2 && trail.errors == 0, words.join("; "));
    }

    fn so_far(&self) -> Option<String> {
        let trail = self.trail.as_ref()?;
        Some(format!("{} swallowed; {}", count(self.swallowed, "response"), trail.in_words()))
    }
}
