//! What a check sees and may do.

use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::Roce;
use serde::Serialize;

use super::end::End;
use super::flow::{Flow, Reply, Request};
use super::trail::Trail;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes on.
    Forward,
    /// It ends here.
    Drop,
    /// It waits, with those before it, until they are released in order.
    Hold,
}

/// What a check says of the RNICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Verdict {
    /// They do what LR2 relies on.
    #[serde(rename = "as expected")]
    AsExpected,
    /// They do something else.
    #[serde(rename = "differs")]
    Differs,
    /// There was no opportunity.
    #[serde(rename = "not tried")]
    NotTried,
}

impl Verdict {
    /// As in the report.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::AsExpected => "as expected",
            Self::Differs => "differs",
            Self::NotTried => "not tried",
        }
    }
}

/// The end of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// What was seen; or why it was not tried.
    pub observed: String,
}

/// A frame that is sent beside the traffic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injected {
    /// The end that it leaves at.
    pub to: End,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// What a check wants done about an event.
#[derive(Default)]
pub struct Orders {
    /// Sent before the packet of the event.
    pub before: Vec<Injected>,
    /// So many held packets go on, the oldest first, behind those.
    pub release: usize,
    /// Sent behind the packet of the event, and behind those released.
    pub after: Vec<Injected>,
    /// A response that does not go on itself, and whose meaning is that of one of these frames.
    pub delivered: Option<Reply>,
    /// The check is at its end.
    pub outcome: Option<Outcome>,
}

/// The packet of an event.
pub struct Packet<'a> {
    /// The frame.
    pub bytes: &'a mut [u8],
    /// Where things are in it.
    pub roce: &'a Roce,
}

/// The surroundings of an event.
pub struct Context<'a> {
    /// The time.
    pub now: Time,
    /// The flow that is tried; it knows the packet of the event.
    pub flow: &'a Flow,
    /// For how long packets may be held.
    pub hold: Span,
    /// ICMP packets that the hosts have sent since the check began.
    pub icmp: u32,
    /// Packets that are held.
    pub held: usize,
    /// The orders.
    pub orders: &'a mut Orders,
}

impl Context<'_> {
    /// Sends a frame to the responder, before the packet of the event.
    pub fn send_responder(&mut self, bytes: Vec<u8>) {
        self.orders.before.push(Injected { to: self.flow.requester.other(), bytes });
    }

    /// Sends a frame to the requester, before the packet of the event.
    pub fn send_requester(&mut self, bytes: Vec<u8>) {
        self.orders.before.push(Injected { to: self.flow.requester, bytes });
    }

    /// Sends a frame to the requester that has the meaning of a response which does not go on.
    pub fn send_in_place_of(&mut self, reply: &Reply, bytes: Vec<u8>) {
        self.orders.delivered = Some(*reply);
        self.send_requester(bytes);
    }

    /// Sends a frame to the requester, behind the packet of the event.
    pub fn send_requester_behind(&mut self, bytes: Vec<u8>) {
        self.orders.after.push(Injected { to: self.flow.requester, bytes });
    }

    /// Lets the oldest held packet go on.
    pub fn release_first(&mut self) {
        self.orders.release = 1;
    }

    /// Lets all held packets go on.
    pub fn release(&mut self) {
        self.orders.release = usize::MAX;
    }

    /// Ends the check.
    pub fn end(&mut self, verdict: Verdict, observed: impl Into<String>) {
        self.orders.outcome = Some(Outcome { verdict, observed: observed.into() });
    }

    /// Ends the check, as expected or not.
    pub fn judge(&mut self, is_expected: bool, observed: impl Into<String>) {
        self.end(if is_expected { Verdict::AsExpected } else { Verdict::Differs }, observed);
    }

    /// A NAK as a Sentry makes it.
    pub fn nak(&mut self, psn: Psn) -> Option<Vec<u8>> {
        super::packets::nak(self.flow, psn)
    }
}

/// A check of one flow. Its calls are in the order of time.
pub trait Check {
    /// The reactions of the RNICs since the check did something to the flow, if it has.
    fn trail(&mut self) -> Option<&mut Trail>;

    /// A request of the flow has come.
    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = self.trail() {
            trail.on_request(request, cx.now);
        }
        Fate::Forward
    }

    /// A response of the flow has come.
    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = self.trail() {
            trail.on_reply(reply, cx.now);
        }
        Fate::Forward
    }

    /// Time has passed.
    fn on_time(&mut self, cx: &mut Context<'_>);

    /// What was seen so far, if the check has done something to the flow; it may not go on because of that.
    fn so_far(&mut self) -> Option<String> {
        self.trail().map(|trail| trail.in_words())
    }
}
