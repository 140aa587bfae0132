//! A Sentry's flow: any sequence of packets, answers, reports and time.

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, PsnRange, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Answer, Headers, Vlans, parse};
use sentry::{Actions, Config, Context, Flow, Recovery};
use testkit::books::{Books, assert_empty};

use crate::flow::{self, FIRST, QPN, REQUESTER, START, settle};
use crate::input::Input;
use crate::{messages, packets};

/// Keeps the books, and looks at all that leaves.
#[derive(Default)]
struct Out {
    src_qpn: Option<u32>,
    books: Books,
}

impl Actions<HeapFrame> for Out {
    fn forward(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_request(), "{roce:?}");
        self.books.left += 1;
    }

    fn discard(&mut self, _: Packet<HeapFrame>, _: Metric) {
        self.books.left += 1;
    }

    fn sync(&mut self, _: u32, sync: SyncMessage, _: Class) {
        assert_eq!(sync.next_psn.is_none(), sync.reason == common::control::Reason::Resent);
    }

    fn unheard(&mut self) {}

    fn fetch(&mut self, _: u32, fetch: Fetch) {
        let ahead = |range: &PsnRange| range.start.distance(fetch.expected);
        let ends = fetch.missing.iter().map(|range| ahead(range) + range.len as i32);
        let starts = fetch.missing.iter().skip(1).map(ahead);
        assert!(fetch.missing.iter().all(|range| range.len > 0 && ahead(range) >= 0), "{fetch:?}");
        assert!(ends.zip(starts).all(|(end, start)| end <= start), "{fetch:?}");
    }

    fn answer(&mut self, frame: HeapFrame) {
        let roce = packets::check_intact(frame.bytes());
        assert!(roce.kind().is_response(), "{roce:?}");
        self.books.left += 1;
    }

    fn src_qpn(&self) -> Option<u32> {
        self.src_qpn
    }

    fn new_incarnation(&mut self) {
        self.src_qpn = None;
    }

    fn nak(&mut self, _: Psn, msn: u32) {
        assert!(self.src_qpn.is_some() && msn < 1 << 24, "a NAK to whom?");
    }

    fn ack(&mut self, ack: LastAck) {
        assert!(ack.msn < 1 << 24, "{ack:?}");
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }
}

struct Bench {
    flow: Flow<HeapFrame>,
    config: Config,
    cache: Budget,
    pool: Budget,
    allowance: Allowance,
    epochs: u32,
    now: Time,
    out: Out,
    headers: Headers,
    back: Headers,
    /// One past the source's newest packet.
    next: Psn,
}

/// `data` is a sequence of operations.
pub fn run(data: &[u8]) {
    flow::run::<Bench>(data);
}

impl flow::Bench for Bench {
    fn new(input: &mut Input<'_>) -> Self {
        let config = Config {
            recovery: input.choose(&[Recovery::Auto, Recovery::Cached, Recovery::Lr2]),
            rtt_guess: Span::from_millis(8),
            tail_timeout: input.choose(&[None, None, Some(Span::from_millis(1))]),
            status_interval: input.choose(&[None, None, Some(Span::from_millis(1))]),
            peer_timeout: input.choose(&[None, None, Some(Span::from_millis(30))]),
            forget: input.choose(&[None, Some(Span::from_millis(60_000))]),
            window_max: input.choose(&[1 << 10, 1 << 10, 16, 1 << 19]),
        };
        let (cache, pool) = (packets::budget(input), packets::budget(input));
        Self {
            flow: Flow::new(&config, START, 1, FIRST),
            config,
            cache,
            pool,
            allowance: packets::allowance(input),
            epochs: 1,
            now: START,
            out: Out { src_qpn: Some(REQUESTER), ..Out::default() },
            headers: packets::headers(1, 2, Vlans::NONE),
            back: packets::headers(2, 1, Vlans::NONE),
            next: FIRST,
        }
    }

    /// The source sends something, the Depot answers, and the destination.
    fn open(&mut self) {
        self.request(&mut Input::new(&[]), FIRST);
        let status = messages::status(&mut Input::new(&[30]), FIRST, self.now);
        self.with(|flow, cx| flow.on_status(cx, 1, &status));
        self.answer(&mut Input::new(&[]), FIRST);
    }

    fn play(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=3 => self.request(input, self.next),
            4..=5 => {
                let psn = messages::near(input, self.next, -20, 12);
                self.request(input, psn);
            }
            6..=7 => {
                let psn = messages::near(input, self.next, -20, 3);
                self.answer(input, psn);
            }
            8 => {
                // A run of answers, as to a READ.
                let from = messages::near(input, self.next, -20, 3);
                let kinds = input.bytes(2);
                (0..input.below(6)).for_each(|i| {
                    self.answer(&mut Input::new(kinds), from.offset(i.into()));
                });
            }
            9..=11 => {
                let status = messages::status(input, self.next, self.now);
                let boot = 1 + u64::from(input.one_in(16));
                self.with(|flow, cx| flow.on_status(cx, boot, &status));
            }
            12 => self.now += Span::from_micros(u64::from(input.word())),
            13 => self.now += Span::from_micros(u64::from(input.byte()) * 20),
            14 => settle(self),
            _ => self.rarely(input),
        }
    }

    fn now(&mut self) -> &mut Time {
        &mut self.now
    }

    fn deadline(&self) -> Time {
        self.flow.deadline(&self.config, self.now, self.allowance.may_be_early(self.now))
    }

    fn timer(&mut self) {
        self.with(|flow, cx| flow.on_timer(cx));
    }

    fn check(&self) {
        self.out.books.check([&self.cache, &self.pool]);
    }

    fn end(&mut self) {
        assert_eq!(self.pool.frames(), 0, "answers are held for ever");
        self.with(|flow, cx| flow.release_all(cx));
        assert_empty([&self.cache, &self.pool]);
    }
}

impl Bench {
    fn with<R>(
        &mut self,
        event: impl FnOnce(&mut Flow<HeapFrame>, &mut Context<'_, Out>) -> R,
    ) -> R {
        let mut cx = Context {
            now: self.now,
            config: &self.config,
            cache: &mut self.cache,
            pool: &mut self.pool,
            allowance: &mut self.allowance,
            epochs: &mut self.epochs,
            out: &mut self.out,
        };
        event(&mut self.flow, &mut cx)
    }

    fn rarely(&mut self, input: &mut Input<'_>) {
        match input.below(8) {
            0..=2 => self.out.src_qpn = input.one_in(2).then_some(REQUESTER),
            3 => {
                let psn = messages::near(input, self.next, -20, 3);
                self.flow.on_doubtful_nak(psn);
            }
            4 => self.now += Span::from_millis(u64::from(input.word())),
            5 => {
                let rtt = input.one_in(2).then(|| Span::from_micros(input.word().into()));
                self.flow.announce(input.choose(&[0, 256, 1024]), input.word().into(), rtt);
            }
            6 => self.with(|flow, cx| flow.release_all(cx)),
            _ => self.with(|flow, cx| flow.bypass(cx)),
        }
    }

    fn request(&mut self, input: &mut Input<'_>, psn: Psn) {
        let (bytes, count) = packets::request(input, &self.headers, QPN, psn);
        let end = psn.offset(count);
        if end.distance(self.next) > 0 {
            self.next = end;
        }
        let roce = parse(&bytes).expect("what is made is RoCEv2");
        self.out.books.entered += 1;
        self.with(|flow, cx| flow.on_data(cx, HeapFrame::from(bytes), &roce));
    }

    fn answer(&mut self, input: &mut Input<'_>, psn: Psn) {
        let bytes = packets::answer(input, &self.back, REQUESTER, psn);
        let roce = parse(&bytes).expect("what is made is RoCEv2");
        let Some(answer) = Answer::of(&roce, &bytes) else { return };
        self.out.books.entered += 1;
        self.with(|flow, cx| flow.on_answer(cx, HeapFrame::from(bytes), &roce, answer));
    }
}
