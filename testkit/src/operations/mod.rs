//! Any sequence of packets, responses, messages and time, for a flow of either pipeline.
//!
//! The bytes of an [`Input`] are the operations, so that a fuzzer and a property test play the same
//! ones. The books are checked after each, and all that leaves the flow.

pub mod depot;
pub mod input;
pub mod messages;
pub mod packets;
pub mod sentry;
pub mod switch;

use common::psn::Psn;
use common::time::Span;
use common::wire::{Headers, Qpn, Response, Vlans, parse};

use crate::timers::Timers;
use input::Input;

/// The flow's first PSN, just before the end of the PSN space.
pub const FIRST: Psn = Psn::new(0xff_fff0);
/// Its destination.
const QPN: Qpn = Qpn::new(0x11);
/// Its source.
const REQUESTER: Qpn = Qpn::new(0x77);

/// A flow under test; its recorder checks its actions.
pub trait Pipeline: Timers + Sized {
    /// Of 16 operations, how many are the next new request.
    const NEW: u8;

    /// A request arrives.
    fn request(&mut self, bytes: Vec<u8>);

    /// A response of the destination arrives.
    fn response(&mut self, bytes: Vec<u8>);

    /// The other gateway is heard of, and the destination responds.
    fn open(peers: &mut Peers<Self>);

    /// A message of the other gateway arrives, about a source that is about to send `next`;
    /// `kind` is 9, 10 or 11.
    fn message(&mut self, kind: u8, next: Psn, input: &mut Input<'_>);

    /// Something unusual happens.
    fn rarely(&mut self, next: Psn, input: &mut Input<'_>);

    /// No response to the source exceeds all PSNs in `known`.
    fn check(&mut self, _: &[Psn]) {}

    /// Nothing comes any more: the flow falls silent within `timers` timers, and holds nothing.
    fn end(&mut self, timers: u32);
}

/// A flow, and the hosts that it connects.
pub struct Peers<P> {
    flow: P,
    headers: Headers,
    back: Headers,
    /// One past the source's newest packet.
    next: Psn,
    /// One past each request and each response so far.
    known: Vec<Psn>,
}

/// How a sequence is played.
pub struct Rules {
    /// Whether it begins with a flow that both gateways know.
    pub is_open: bool,
    /// Whether due timers run after each operation.
    pub is_prompt: bool,
    /// Most timers that may fire at one time.
    pub at_once: u32,
    /// Most timers until a flow without traffic is silent.
    pub until_silent: u32,
}

impl Rules {
    /// As the input says.
    fn any(input: &mut Input<'_>) -> Self {
        let is_prompt = !input.one_in(8);
        let is_open = !input.one_in(4);
        Self { is_open, is_prompt, at_once: 16, until_silent: 20_000 }
    }
}

/// Plays the operations of `input` on a new flow whose first PSN is [`FIRST`].
///
/// # Panics
/// If the flow does something wrong.
pub fn play<P: Pipeline>(flow: P, rules: &Rules, input: &mut Input<'_>) {
    let mut peers = Peers {
        flow,
        headers: packets::headers(1, 2, Vlans::NONE),
        back: packets::headers(2, 1, Vlans::NONE),
        next: FIRST,
        known: Vec::new(),
    };
    if rules.is_open {
        P::open(&mut peers);
    }
    while !input.is_empty() {
        peers.play(input, rules);
        if rules.is_prompt {
            peers.flow.settle(rules.at_once);
        }
        peers.flow.check(&peers.known);
    }
    peers.flow.settle(rules.at_once);
    peers.flow.end(rules.until_silent);
    peers.flow.check(&peers.known);
}

impl<P: Pipeline> Peers<P> {
    fn play(&mut self, input: &mut Input<'_>, rules: &Rules) {
        match input.below(16) {
            n if n < P::NEW => self.request(input, self.next),
            0..=5 => {
                let psn = messages::near(input, self.next, -20, 12);
                self.request(input, psn);
            }
            6..=7 => {
                let psn = messages::near(input, self.next, -20, 3);
                self.response(input, psn);
            }
            8 => {
                // A run of responses, as to a READ.
                let from = messages::near(input, self.next, -20, 3);
                let (kind, flags, count) = (input.byte(), input.byte(), input.below(6));
                for i in 0..count {
                    let kind = packets::part(kind, i, count);
                    self.response(&mut Input::new(&[kind, flags]), from.offset(i.into()));
                }
            }
            kind @ 9..=11 => self.flow.message(kind, self.next, input),
            12 => self.flow.wait(Span::from_micros(u64::from(input.word()))),
            13 => self.flow.wait(Span::from_micros(u64::from(input.byte()) * 20)),
            14 => self.flow.settle(rules.at_once),
            _ => self.flow.rarely(self.next, input),
        }
    }

    fn request(&mut self, input: &mut Input<'_>, psn: Psn) {
        let (bytes, count) = packets::request(input, &self.headers, QPN, psn);
        let end = psn.offset(count);
        if end.distance(self.next) > 0 {
            self.next = end;
        }
        self.known.push(end);
        self.flow.request(bytes);
    }

    fn response(&mut self, input: &mut Input<'_>, psn: Psn) {
        let bytes = packets::respond(input, &self.back, REQUESTER, psn);
        let roce = parse(&bytes).expect("what is made is RoCEv2");
        if Response::of(&roce, &bytes).is_some() {
            self.known.push(psn.offset(1));
            self.flow.response(bytes);
        }
    }
}
