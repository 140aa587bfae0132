//! A Depot's flow: any sequence of packets, messages, answers and time.

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, PsnRange, Status};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Answer, Headers, Vlans, parse};
use depot::{Actions, Config, Context, Flow, Host, Incarnation, Lan};
use testkit::books::{Books, assert_empty};

use crate::flow::{self, FIRST, QPN, REQUESTER, START, settle};
use crate::input::Input;
use crate::{messages, packets};

const LIFE: Incarnation = Incarnation { node: 1, boot: 5, epoch: 9 };

/// Keeps the books, and looks at all that leaves.
#[derive(Default)]
struct Out {
    src_qpn: Option<u32>,
    books: Books,
}

impl Actions<HeapFrame> for Out {
    fn cnp(&mut self) -> bool {
        true
    }

    fn destination(&self) -> Host {
        Host::default()
    }

    fn id(&self) -> u32 {
        1
    }

    fn deliver(&mut self, packet: Packet<HeapFrame>) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_request(), "{roce:?}");
        self.books.left += 1;
    }

    fn answer(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_response(), "{roce:?}");
        self.books.left += 1;
    }

    fn ack(&mut self, ack: LastAck) {
        assert!(ack.msn < 1 << 24, "{ack:?}");
    }

    fn discard(&mut self, _: Packet<HeapFrame>, _: Metric) {
        self.books.left += 1;
    }

    fn status(&mut self, _: u32, status: Status) {
        let ahead = |psn: Psn| psn.distance(status.expected);
        let order = [0, ahead(status.from), ahead(status.to)];
        assert!(order.is_sorted(), "{status:?}");
        let start = |range: &PsnRange| ahead(range.start);
        let end = |range: &PsnRange| start(range) + range.len as i32;
        let pairs = status.missing.windows(2).all(|pair| end(&pair[0]) <= start(&pair[1]));
        let first = status.missing.first().is_none_or(|range| order[1] <= start(range));
        let last = status.missing.last().is_none_or(|range| end(range) <= order[2]);
        let lens = status.missing.iter().all(|range| range.len > 0);
        assert!(pairs && first && last && lens, "{status:?}");
    }

    fn absent(&mut self, _: u32, _: Fetch, _: Class) {}

    fn src_qpn(&self) -> Option<u32> {
        self.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }
}

struct Bench {
    flow: Flow<HeapFrame>,
    config: Config,
    pool: Budget,
    backup: Budget,
    cache: Budget,
    lan: Lan,
    allowance: Allowance,
    now: Time,
    out: Out,
    headers: Headers,
    back: Headers,
    /// One past the newest packet.
    next: Psn,
}

/// `data` is a sequence of operations.
pub fn run(data: &[u8]) {
    flow::run::<Bench>(data);
}

impl flow::Bench for Bench {
    fn new(input: &mut Input<'_>) -> Self {
        let config = Config {
            rtt_guess: Span::from_millis(8),
            status_interval: input.choose(&[None, Some(Span::from_millis(1_000))]),
            give_up: input.choose(&[None, None, Some(Span::from_millis(20))]),
            t_out: input.choose(&[None, None, Some(Span::from_millis(1))]),
            t_out_min: Span::from_micros(500),
            cnp_interval: Some(Span::from_micros(50)),
            local_retries: input.below(4),
            pacing: input.below(4) > 0,
            keeps_responses: !input.one_in(4),
            window_max: input.choose(&[1 << 10, 1 << 10, 16, 1 << 19]),
        };
        let [pool, backup, cache] = [(); 3].map(|()| packets::budget(input));
        Self {
            flow: Flow::new(&config, START, FIRST),
            config,
            pool,
            backup,
            cache,
            lan: Lan::default(),
            allowance: packets::allowance(input),
            now: START,
            out: Out::default(),
            headers: packets::headers(1, 2, Vlans::NONE),
            back: packets::headers(2, 1, Vlans::NONE),
            next: FIRST,
        }
    }

    /// The Sentry announces itself, and the destination has answered.
    fn open(&mut self) {
        self.out.src_qpn = Some(REQUESTER);
        let sync = messages::sync(&mut Input::new(&[0, 12, 2]), FIRST, self.now);
        self.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
        self.request(&mut Input::new(&[]), FIRST);
        self.answer(&mut Input::new(&[]), FIRST);
    }

    fn play(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=2 => self.request(input, self.next),
            3..=5 => {
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
            9..=10 => {
                let sync = messages::sync(input, self.next, self.now);
                let incarnation = match input.byte() {
                    255 => Incarnation { node: 2, ..LIFE },
                    254 => Incarnation { boot: LIFE.boot + 1, ..LIFE },
                    253 => Incarnation { epoch: LIFE.epoch + 1, ..LIFE },
                    252 => Incarnation { epoch: LIFE.epoch - 1, ..LIFE },
                    _ => LIFE,
                };
                self.with(|flow, cx| flow.on_sync(cx, incarnation, &sync));
            }
            11 => {
                let fetch = messages::fetch(input, self.next);
                self.with(|flow, cx| flow.on_fetch(cx, &fetch));
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
        self.flow.deadline(&self.config)
    }

    fn timer(&mut self) {
        self.with(|flow, cx| flow.on_timer(cx));
    }

    fn check(&self) {
        self.out.books.check([&self.pool, &self.backup, &self.cache]);
    }

    fn end(&mut self) {
        assert_empty([&self.pool, &self.backup, &self.cache]);
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
            pool: &mut self.pool,
            backup: &mut self.backup,
            cache: &mut self.cache,
            lan: &mut self.lan,
            allowance: &mut self.allowance,
            out: &mut self.out,
        };
        event(&mut self.flow, &mut cx)
    }

    fn rarely(&mut self, input: &mut Input<'_>) {
        match input.below(8) {
            0..=2 => self.out.src_qpn = input.one_in(2).then_some(REQUESTER),
            3..=4 => self.now += Span::from_millis(u64::from(input.word())),
            5 => self.flow.announce(input.choose(&[0, 256, 1024])),
            6 => self.with(|flow, cx| flow.reset(cx)),
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
        let _ = self.with(|flow, cx| flow.on_answer(cx, HeapFrame::from(bytes), answer));
    }
}
