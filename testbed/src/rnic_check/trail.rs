//! What RNICs do after something was done to them.

use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::Verdict;

use super::check::Context;
use super::flow::{Flow, Reply, Request};

/// The reactions on one flow since a stimulus.
#[derive(Clone, Debug)]
pub struct Trail {
    /// When it began.
    pub since: Time,
    /// The PSN that the stimulus is about.
    pub at: Seq,
    /// One past the highest PSN that had been sent when the requester went back; until it does, when this began.
    pub high: Seq,
    /// One past the highest PSN that was sent.
    sent: Seq,
    /// NAKs (PSN sequence error) seen: number, and the first.
    pub naks: u32,
    /// When the first NAK came, and its PSN.
    pub first_nak: Option<(Time, Seq)>,
    /// NAKs of other kinds: the last one's syndrome is an error of the queue pair, or RNR.
    pub errors: u32,
    /// RNR NAKs.
    pub not_ready: u32,
    /// Packets sent again.
    pub repeats: u32,
    /// When the first packet was sent again, and its PSN.
    pub first_repeat: Option<(Time, Seq)>,
    /// How often the packet with the PSN [`at`](Self::at) was sent again.
    pub rounds: u32,
    /// An ACK covered packets behind a gap that had not been sent again.
    pub kept_behind: bool,
    /// One past the highest PSN that was sent again in order from `at` on.
    repeated_to: Seq,
    /// A request was sent for the first time after the last repeat.
    goes_on: bool,
    /// Since when all that was outstanding is acknowledged.
    over_since: Option<Time>,
}

impl Trail {
    /// Begins now, with a packet of this PSN.
    pub fn new(flow: &Flow, at: Seq, now: Time) -> Self {
        Self {
            since: now,
            at,
            high: flow.next,
            sent: flow.next,
            naks: 0,
            first_nak: None,
            errors: 0,
            not_ready: 0,
            repeats: 0,
            first_repeat: None,
            rounds: 0,
            kept_behind: false,
            repeated_to: at,
            goes_on: false,
            over_since: None,
        }
    }

    /// Begins `trail` with the first request that is new and within a message. Whether this is it.
    pub fn begin(trail: &mut Option<Self>, request: &Request, cx: &Context<'_>) -> bool {
        let begins = trail.is_none() && request.is_new_within_message();
        if begins {
            *trail = Some(Self::new(cx.flow, request.seq, cx.now));
        }
        begins
    }

    /// A request has come.
    pub fn on_request(&mut self, request: &Request, now: Time) {
        if !request.is_repeat {
            self.goes_on = true;
            self.sent = self.sent.max(request.last.next());
            return;
        }
        self.repeats += 1;
        self.goes_on = false;
        if self.first_repeat.is_none() {
            self.first_repeat = Some((now, request.seq));
            self.high = self.sent;
        }
        if (request.seq..=request.last).contains(&self.at) {
            self.rounds += 1;
            self.repeated_to = self.repeated_to.max(self.at.next());
        }
        if request.seq <= self.repeated_to {
            self.repeated_to = self.repeated_to.max(request.last.next());
        }
    }

    /// A response has come.
    pub fn on_reply(&mut self, reply: &Reply, now: Time) {
        match reply.response.verdict {
            Verdict::Missing => {
                self.naks += 1;
                self.first_nak.get_or_insert((now, reply.seq));
            }
            Verdict::NotReady => self.not_ready += 1,
            Verdict::Failed => self.errors += 1,
            Verdict::Acknowledged if self.rounds > 0 => {
                self.kept_behind |= reply.seq >= self.repeated_to && self.repeated_to < self.high;
            }
            Verdict::Acknowledged | Verdict::Response(_) => {}
        }
    }

    /// Whether the queue pair has gone on: all that was outstanding is acknowledged, and nothing was sent again for
    /// `calm` since.
    pub fn is_over(&mut self, flow: &Flow, now: Time, calm: Span) -> bool {
        let settled = flow.acked >= self.high.max(self.at.next());
        if !settled || !(self.goes_on || flow.is_settled()) {
            self.over_since = None;
            return false;
        }
        now.since(*self.over_since.get_or_insert(now)) >= calm
    }

    /// Whether anything happened that an RNIC does only after a loss.
    pub fn is_calm(&self) -> bool {
        self.naks == 0 && self.repeats == 0 && self.errors == 0
    }

    /// Its NAKs and repeats in words.
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.naks > 0 {
            words.push(format!("{} of the responder", count(self.naks, "NAK")));
        }
        if self.errors > 0 {
            words.push(count(self.errors, "NAK") + " that end the queue pair");
        }
        if self.repeats > 0 {
            words.push(count(self.repeats, "packet") + " sent again");
        }
        if self.not_ready > 0 {
            words.push(count(self.not_ready, "RNR NAK"));
        }
        if words.is_empty() { "no NAK, and nothing sent again".into() } else { words.join(", ") }
    }
}

/// `1 NAK`, `2 NAKs`.
pub fn count(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A time for people: `12 µs`, `1.25 ms`, `1.07 s`.
pub fn time(span: Span) -> String {
    let nanos = span.as_nanos();
    match nanos {
        0..10_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        10_000..1_000_000 => format!("{} µs", nanos / 1_000),
        1_000_000..1_000_000_000 => format!("{:.2} ms", nanos as f64 / 1e6),
        _ => format!("{:.2} s", nanos as f64 / 1e9),
    }
}
