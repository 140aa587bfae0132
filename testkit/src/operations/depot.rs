//! Operations on a Depot's flow.

use common::control::{BootId, Epoch, Fetch, LastAck, NodeId, PsnRange, Status};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::ids::FlowId;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::verdict::{Mode, Tolerance};
use common::wire::Qpn;
use depot::{Actions, Config, Host, Incarnation};

use super::input::Input;
use super::{FIRST, Peers, Pipeline, REQUESTER, Rules, messages, packets, play};
use crate::account;
use crate::books::{Books, assert_empty};
use crate::depot::Harness;
use crate::flow::START;
use crate::timers::Timers;

const LIFE: Incarnation = Incarnation { node: NodeId(1), boot: BootId(5), epoch: Epoch(9) };

/// Keeps the books, and looks at all that leaves.
#[derive(Default)]
pub struct Out {
    src_qpn: Option<Qpn>,
    books: Books,
    /// Whether a packet was held until its incarnation ended.
    stranded: bool,
    /// Whether that is allowed: with any configuration a flow may be reset before a gap is given
    /// up.
    may_strand: bool,
}

account!(Out);

impl Actions<HeapFrame> for Out {
    fn cnp(&mut self) -> bool {
        true
    }

    fn destination(&self) -> Host {
        Host::default()
    }

    fn id(&self) -> FlowId {
        FlowId(1)
    }

    fn deliver(&mut self, packet: Packet<HeapFrame>) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_request(), "{roce:?}");
        self.books.left += 1;
    }

    fn respond(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let roce = packets::check_intact(packet.bytes());
        assert!(roce.kind().is_response(), "{roce:?}");
        self.books.left += 1;
    }

    fn ack(&mut self, ack: LastAck) {
        assert!(ack.msn < 1 << 24, "{ack:?}");
    }

    fn discard(&mut self, _: Packet<HeapFrame>, reason: Metric) {
        self.stranded |= reason == Metric::DropOldIncarnation;
        self.books.left += 1;
    }

    fn status(&mut self, _: Epoch, status: Status) {
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

    fn absent(&mut self, _: Epoch, _: Fetch, _: Class) {}

    fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }
}

/// A flow that checks its actions.
pub type Depot = Harness<HeapFrame, Out>;

/// A new flow.
pub fn flow(config: Config) -> Depot {
    Harness::new(config, START, FIRST, Out::default())
}

/// `data` is a configuration and a sequence of operations.
pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut flow = flow(Config {
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
        tolerance: Tolerance {
            mode: input.choose(&[Mode::Auto, Mode::Auto, Mode::Fixed, Mode::Off]),
            ..Tolerance::default()
        },
        fast_path: true,
    });
    [flow.pool, flow.backup, flow.cache] = [(); 3].map(|()| packets::budget(input));
    flow.allowance = packets::allowance(input);
    flow.out.may_strand = true;
    play(flow, &Rules::any(input), input);
}

impl Pipeline for Depot {
    const NEW: u8 = 3;

    fn request(&mut self, bytes: Vec<u8>) {
        self.frame(bytes);
    }

    fn response(&mut self, bytes: Vec<u8>) {
        let _ = Harness::response(self, bytes);
    }

    fn open(peers: &mut Peers<Self>) {
        peers.flow.out.src_qpn = Some(REQUESTER);
        let sync = messages::sync(&mut Input::new(&[0, 12, 2]), FIRST, peers.flow.now);
        peers.flow.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
        peers.request(&mut Input::new(&[]), FIRST);
        peers.response(&mut Input::new(&[]), FIRST);
    }

    fn message(&mut self, kind: u8, next: Psn, input: &mut Input<'_>) {
        if kind == 11 {
            let fetch = messages::fetch(input, next);
            return self.with(|flow, cx| flow.on_fetch(cx, &fetch));
        }
        let sync = messages::sync(input, next, self.now);
        let incarnation = match input.byte() {
            255 => Incarnation { node: NodeId(2), ..LIFE },
            254 => Incarnation { boot: LIFE.boot.next(), ..LIFE },
            253 => Incarnation { epoch: LIFE.epoch.next(), ..LIFE },
            252 => Incarnation { epoch: Epoch(8), ..LIFE },
            _ => LIFE,
        };
        self.with(|flow, cx| flow.on_sync(cx, incarnation, &sync));
    }

    fn rarely(&mut self, _: Psn, input: &mut Input<'_>) {
        match input.below(8) {
            0..=2 => self.out.src_qpn = input.one_in(2).then_some(REQUESTER),
            3..=4 => self.wait(Span::from_millis(u64::from(input.word()))),
            5 => self.flow.announce(input.choose(&[0, 256, 1024])),
            6 => self.with(|flow, cx| flow.reset(cx)),
            _ => self.with(|flow, cx| flow.bypass(cx)),
        }
    }

    fn end(&mut self, timers: u32) {
        self.out.stranded = false;
        self.fall_silent(timers);
        let is_stranded = self.out.stranded && !self.out.may_strand;
        assert!(!is_stranded, "a packet was held until the flow was reset");
        assert_empty([&self.pool, &self.backup, &self.cache]);
    }
}
