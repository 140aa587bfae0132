//! A requester that gets no response.

use common::psn::Seq;
use common::time::{Span, Time};

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// Longer than this no timeout is awaited: that of the exponent 20 has passed. After its own timeout the requester goes on.
const LONGEST: Span = Span::from_millis(6_000);

/// All responses are swallowed until the requester has sent its packets again twice.
#[derive(Default)]
pub struct Timeout {
    trail: Option<Trail>,
    /// When the newest request came.
    last: Time,
    /// When the newest response went on.
    answered: Option<Time>,
    /// For how long the requester was silent before it sent anything again.
    silence: Span,
    /// The beginning of each pass of repeats, and its PSN.
    passes: Vec<(Time, Seq)>,
    /// Responses go on again.
    open: bool,
    swallowed: u32,
    /// The oldest PSN that was not acknowledged then.
    oldest: Option<Seq>,
}

impl Check for Timeout {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

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
                    if self.passes.is_empty() {
                        self.silence = cx.now.since(self.last);
                    }
                    self.passes.push((cx.now, request.seq));
                    self.open = self.passes.len() >= 2;
                }
            }
        }
        self.last = cx.now;
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let Some(trail) = &mut self.trail else {
            self.answered = Some(cx.now);
            return Fate::Forward;
        };
        trail.on_reply(reply, cx.now);
        if self.open {
            return Fate::Forward;
        }
        self.swallowed += 1;
        Fate::Drop
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        let swallowed = format!("{} swallowed", count(self.swallowed, "response"));
        if !self.open && self.swallowed > 0 && cx.now.since(self.last) >= LONGEST {
            let again = if self.passes.is_empty() { "nothing" } else { "nothing more" };
            let words = format!("{swallowed}; {again} was sent again within {}", time(LONGEST));
            return cx.end(Verdict::NotTried, words);
        }
        let [(first, psn), (second, _), ..] = self.passes[..] else { return };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let waited = first.since(self.answered.unwrap_or(trail.since));
        let mut words = vec![
            swallowed,
            format!(
                "the requester sent again {} after the newest response, {} after its newest packet",
                time(waited),
                time(self.silence)
            ),
        ];
        let then = second.since(first);
        let times = then.as_nanos() as f64 / waited.as_nanos().max(1) as f64;
        words.push(format!("and {} later once more ({times:.1} times as long)", time(then)));
        let from_oldest = self.oldest == Some(psn);
        if !from_oldest {
            words.push("it did not begin with the oldest packet that is not acknowledged".into());
        }
        words.push("with the next response it went on".into());
        cx.judge(from_oldest && trail.errors == 0, words.join("; "));
    }

    fn so_far(&mut self) -> Option<String> {
        let trail = self.trail.as_ref()?;
        Some(format!("{} swallowed; {}", count(self.swallowed, "response"), trail.in_words()))
    }
}
