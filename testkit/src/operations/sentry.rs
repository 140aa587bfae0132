//! Operations on a Sentry's flow.

use common::control::{BootId, Epoch, Fetch, LastAck, PsnRange, Reason, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::Qpn;
use sentry::{Actions, Config, Recovery};

use super::input::Input;
use super::{FIRST, Peers, Pipeline, REQUESTER, Rules, messages, packets, play};
use crate::account;
use crate::books::{Books, assert_empty};
use crate::flow::START;
use crate::sentry::Harness;
use crate::timers::Timers;

/// Keeps the books, and looks at all that leaves.
#[derive(Default)]
pub struct Out {
    src_qpn: Option<Qpn>,
    books: Books,
    /// PSNs that NAKs asked for, and that ACKs acknowledged.
    claimed: Vec<Psn>,
}

account!(Out);

impl Actions<HeapFrame> for Out {
    fn forward(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_request(), "{roce:?}");
        self.books.left += 1;
    }

    fn discard(&mut self, _: Packet<HeapFrame>, _: Metric) {
        self.books.left += 1;
    }

    fn sync(&mut self, _: Epoch, sync: SyncMessage, _: Class) {
        assert_eq!(sync.next_psn.is_none(), sync.reason == Reason::Resent);
    }

    fn unheard(&mut self) {}

    fn fetch(&mut self, _: Epoch, fetch: Fetch) {
        let ahead = |range: &PsnRange| range.start.distance(fetch.expected);
        let ends = fetch.missing.iter().map(|range| ahead(range) + range.len as i32);
        let starts = fetch.missing.iter().skip(1).map(ahead);
        assert!(fetch.missing.iter().all(|range| range.len > 0 && ahead(range) >= 0), "{fetch:?}");
        assert!(ends.zip(starts).all(|(end, start)| end <= start), "{fetch:?}");
    }

    fn respond(&mut self, frame: HeapFrame) {
        let roce = packets::check_intact(frame.bytes());
        assert!(roce.kind().is_response(), "{roce:?}");
        self.books.left += 1;
    }

    fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn
    }

    fn new_incarnation(&mut self) {
        self.src_qpn = None;
    }

    fn nak(&mut self, psn: Psn, msn: u32) {
        assert!(self.src_qpn.is_some() && msn < 1 << 24, "a NAK to whom?");
        self.claimed.push(psn);
    }

    fn ack(&mut self, ack: LastAck) {
        assert!(ack.msn < 1 << 24, "{ack:?}");
        self.claimed.push(ack.psn);
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }
}

/// A flow that checks its actions.
pub type Sentry = Harness<HeapFrame, Out>;

/// A new flow.
pub fn flow(config: Config) -> Sentry {
    Harness::new(config, START, FIRST, Out { src_qpn: Some(REQUESTER), ..Out::default() })
}

/// `data` is a configuration and a sequence of operations.
pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut flow = flow(Config {
        recovery: input.choose(&[Recovery::Auto, Recovery::Cached, Recovery::Lr2]),
        rtt_guess: Span::from_millis(8),
        tail_timeout: input.choose(&[None, None, Some(Span::from_millis(1))]),
        status_interval: input.choose(&[None, None, Some(Span::from_millis(1))]),
        peer_timeout: input.choose(&[None, None, Some(Span::from_millis(30))]),
        pause: input.choose(&[None, Some(Span::from_millis(60_000))]),
        window_max: input.choose(&[1 << 10, 1 << 10, 16, 1 << 19]),
        fast_path: true,
    });
    (flow.cache, flow.pool) = (packets::budget(input), packets::budget(input));
    flow.allowance = packets::allowance(input);
    play(flow, &Rules::any(input), input);
}

impl Pipeline for Sentry {
    const NEW: u8 = 4;

    fn request(&mut self, bytes: Vec<u8>) {
        self.frame(bytes);
    }

    fn response(&mut self, bytes: Vec<u8>) {
        self.respond(bytes);
    }

    fn open(peers: &mut Peers<Self>) {
        peers.request(&mut Input::new(&[]), FIRST);
        let status = messages::status(&mut Input::new(&[30]), FIRST, peers.flow.now);
        peers.flow.with(|flow, cx| flow.on_status(cx, BootId(1), &status));
        peers.response(&mut Input::new(&[]), FIRST);
    }

    fn message(&mut self, _: u8, next: Psn, input: &mut Input<'_>) {
        let status = messages::status(input, next, self.now);
        let boot = BootId(1 + u64::from(input.one_in(16)));
        self.with(|flow, cx| flow.on_status(cx, boot, &status));
    }

    fn rarely(&mut self, next: Psn, input: &mut Input<'_>) {
        match input.below(8) {
            0..=2 => self.out.src_qpn = input.one_in(2).then_some(REQUESTER),
            3 => self.flow.on_doubtful_nak(messages::near(input, next, -20, 3)),
            4 => self.wait(Span::from_millis(u64::from(input.word()))),
            5 => {
                let rtt = input.one_in(2).then(|| Span::from_micros(input.word().into()));
                self.flow.announce(input.choose(&[0, 256, 1024]), input.word().into(), rtt);
            }
            6 => self.with(|flow, cx| flow.release_all(cx)),
            _ => self.with(|flow, cx| flow.bypass(cx)),
        }
    }

    fn check(&mut self, known: &[Psn]) {
        for psn in self.out.claimed.drain(..) {
            let is_known = known.iter().any(|end| (0..1 << 20).contains(&end.distance(psn)));
            assert!(is_known, "{psn:?} is beyond all that was sent");
        }
    }

    fn end(&mut self, timers: u32) {
        self.fall_silent(timers);
        assert_eq!(self.pool.frames(), 0, "responses are held for ever");
        self.with(|flow, cx| flow.release_all(cx));
        assert_empty([&self.cache, &self.pool]);
    }
}
