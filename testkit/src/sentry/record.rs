//! A record of a flow's actions, and the events of a test.

use common::control::{BootId, Epoch, Fetch, LastAck, Reason, Status, SyncMessage};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::histogram::Timing;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::{Aeth, Bth, Opcode, Qpn, parse};
use sentry::{Actions, Config, Recovery};

use super::Harness;
use crate::account;
use crate::books::Books;
use crate::control::ranges;
pub use crate::flow::*;
use crate::timers::Timers;

/// The round trip that STATUSes measure, unless a test sets another.
pub const RTT: Span = Span::from_millis(8);
/// How long a packet counts as under way: the round trip and its margin.
pub const UNDER_WAY: Span = Span::from_millis(9);
/// A round trip with its margin, and the tail timeout of an eighth of one.
pub const TAIL: Span = Span::from_millis(10);
/// A pause after which a queue pair's number may belong to another incarnation.
pub const PAUSE: Span = Span::from_millis(60_000);
/// Most PSNs that are tracked.
pub const WINDOW_MAX: u64 = 1 << 10;
/// The Depot's start.
pub const BOOT: BootId = BootId(7);

/// A flow's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// A request went to the destination.
    Forward(i32, Class),
    /// A frame was dropped.
    Discard(i32, Metric),
    /// A SYNC went to the Depot.
    #[expect(missing_docs)]
    Sync { reason: Reason, next: Option<i32>, class: Class },
    /// The Sentry sent the source a NAK.
    #[expect(missing_docs)]
    Nak { psn: i32, msn: u32 },
    /// The Sentry sent the source an ACK.
    #[expect(missing_docs)]
    Ack { psn: i32, msn: u32 },
}

/// Frames that the source receives, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// From the destination.
    Response(Opcode, i32),
    /// From the Sentry.
    Nak(i32),
    /// From the Sentry.
    Ack(i32),
}

/// A record of a flow's actions.
#[derive(Default)]
pub struct Record {
    /// Actions on requests, and messages, in this order.
    pub did: Vec<Did>,
    /// SYNC messages, with their epoch.
    pub syncs: Vec<(Epoch, SyncMessage)>,
    /// Missing ranges of FETCH messages, from .. to.
    pub fetches: Vec<Vec<(i32, i32)>>,
    /// Their expected PSNs.
    pub expected: Vec<i32>,
    /// All that went to the source.
    pub stream: Vec<Got>,
    /// Responses that went on to the source.
    pub responses: Vec<(Opcode, i32)>,
    /// Times, as they were measured.
    pub times: Vec<(Timing, Span)>,
    /// Counters, and frames that came and went.
    pub books: Books,
    /// The requester, if it is known.
    pub src_qpn: Option<Qpn>,
    /// AckReq of the packets forwarded.
    pub ack_reqs: Vec<bool>,
    /// How often the peer was notified that its messages do not arrive.
    pub unheard: u32,
}

impl Actions<HeapFrame> for Record {
    fn forward(&mut self, packet: Packet<HeapFrame>, class: Class) {
        let roce = parse(packet.bytes()).expect("what is forwarded was received");
        self.did.push(Did::Forward(count_of(roce.psn), class));
        self.ack_reqs.push(roce.ack_req);
        self.books.left += 1;
    }

    fn discard(&mut self, packet: Packet<HeapFrame>, reason: Metric) {
        let roce = parse(packet.bytes()).expect("what is dropped was received");
        self.did.push(Did::Discard(count_of(roce.psn), reason));
        self.books.counters.inc(reason);
        self.books.left += 1;
    }

    fn sync(&mut self, epoch: Epoch, sync: SyncMessage, class: Class) {
        let next = sync.next_psn.map(count_of);
        self.did.push(Did::Sync { reason: sync.reason, next, class });
        self.syncs.push((epoch, sync));
    }

    fn unheard(&mut self) {
        self.unheard += 1;
    }

    fn fetch(&mut self, _: Epoch, fetch: Fetch) {
        self.fetches.push(counted(&fetch.missing));
        self.expected.push(count_of(fetch.expected));
    }

    fn respond(&mut self, frame: HeapFrame) {
        let roce = parse(common::frame::Frame::bytes(&frame)).expect("it was received");
        self.responses.push((roce.opcode, count_of(roce.psn)));
        self.stream.push(Got::Response(roce.opcode, count_of(roce.psn)));
        self.books.left += 1;
    }

    fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn
    }

    fn new_incarnation(&mut self) {
        self.src_qpn = None;
    }

    fn nak(&mut self, psn: Psn, msn: u32) {
        self.did.push(Did::Nak { psn: count_of(psn), msn });
        self.stream.push(Got::Nak(count_of(psn)));
    }

    fn ack(&mut self, ack: LastAck) {
        assert_eq!(ack.syndrome, Aeth::ACK_UNLIMITED);
        self.did.push(Did::Ack { psn: count_of(ack.psn), msn: ack.msn });
        self.stream.push(Got::Ack(count_of(ack.psn)));
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }

    fn record(&mut self, what: Timing, time: Span) {
        self.times.push((what, time));
    }
}

account!(Record);

/// A configuration with derived timeouts.
pub fn config(recovery: Recovery) -> Config {
    Config {
        recovery,
        rtt_guess: RTT,
        tail_timeout: None,
        status_interval: None,
        peer_timeout: None,
        pause: Some(PAUSE),
        window_max: WINDOW_MAX,
        fast_path: true,
    }
}

/// A flow whose actions are recorded.
pub type Bench = Harness<HeapFrame, Record>;

impl Bench {
    /// A flow of which no packet was seen yet; its requester is known.
    pub fn start(recovery: Recovery) -> Self {
        let out = Record { src_qpn: Some(Qpn::new(0x77)), ..Record::default() };
        let mut bench = Self::new(config(recovery), START, FIRST, out);
        bench.assumes_early = true;
        bench.flow.begin();
        bench
    }

    /// A protected flow that has sent `n` packets long enough ago for none to
    /// be under way. The Depot has reported only that it exists; the destination has
    /// acknowledged `acked` packets (one message each).
    pub fn protected(recovery: Recovery, n: i32, acked: Option<i32>) -> Self {
        let mut bench = Self::start(recovery);
        bench.data(0..n);
        assert!(bench.status(0, 0, &[]));
        if let Some(acked) = acked {
            bench.ack(acked - 1, acked as u32);
        }
        bench.wait(UNDER_WAY);
        bench.clear();
        bench
    }

    /// The destination acknowledges packet `n`, having completed `msn`.
    pub fn ack(&mut self, n: i32, msn: u32) {
        self.respond(plain_response(n, Aeth::ACK_UNLIMITED, msn));
    }

    /// The destination asks for packet `n`.
    pub fn nak(&mut self, n: i32) {
        self.respond(plain_response(n, Aeth::NAK_PSN_SEQUENCE, 0));
    }

    /// The Depot reports; `missing` are ranges from .. to.
    pub fn status(&mut self, expected: i32, high: i32, missing: &[(i32, i32)]) -> bool {
        self.status_with(expected, high, missing, |_| {})
    }

    /// The same with something else in it.
    pub fn status_with(
        &mut self,
        expected: i32,
        high: i32,
        missing: &[(i32, i32)],
        change: impl FnOnce(&mut Status),
    ) -> bool {
        let mut status = status(expected, high, missing);
        change(&mut status);
        self.with(|flow, cx| flow.on_status(cx, BOOT, &status))
    }

    /// The Depot hasn't got these responses, from .. to.
    pub fn absent(&mut self, from: i32, to: i32) {
        let absent = Fetch { expected: psn(from), missing: ranges(&[(from, to)], psn) };
        self.with(|flow, cx| flow.on_absent(cx, &absent));
    }

    /// When SYNCs of `reason` went out while the timers ran for `span`, in microseconds from its
    /// start.
    pub fn sync_times(&mut self, reason: Reason, span: Span) -> Vec<u64> {
        let start = self.now;
        self.clear();
        self.run_timers(start + span);
        let syncs = self.out.syncs.iter().filter(|(_, sync)| sync.reason == reason);
        syncs.map(|(_, sync)| sync.sent_at.since(start).as_micros()).collect()
    }

    /// Clears the record.
    pub fn clear(&mut self) {
        self.out.did.clear();
        self.out.syncs.clear();
        self.out.ack_reqs.clear();
        self.out.fetches.clear();
        self.out.expected.clear();
        self.out.stream.clear();
        self.out.responses.clear();
    }

    /// The record since the last call.
    pub fn take(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.out.did)
    }

    /// The number of the flow's epoch.
    pub fn epoch(&self) -> u32 {
        self.flow.epoch().0
    }

    /// The PSNs of the responses that went on to the source since the last time.
    pub fn answered(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.out.responses).into_iter().map(|(_, n)| n).collect()
    }

    /// The missing ranges of the FETCH messages since the last time that ask
    /// for something.
    pub fn fetched(&mut self) -> Vec<Vec<(i32, i32)>> {
        let mut fetches = std::mem::take(&mut self.out.fetches);
        fetches.retain(|missing| !missing.is_empty());
        fetches
    }

    /// The same, but only packets forwarded, with their class.
    pub fn forwarded(&mut self) -> Vec<(i32, Class)> {
        let packet = |did| match did {
            Did::Forward(n, class) => Some((n, class)),
            _ => None,
        };
        self.take().into_iter().filter_map(packet).collect()
    }

    /// The same, but only NAKs to the source.
    pub fn naks(&mut self) -> Vec<i32> {
        let nak = |did| match did {
            Did::Nak { psn, .. } => Some(psn),
            _ => None,
        };
        self.take().into_iter().filter_map(nak).collect()
    }

    /// The same, but only the reasons of SYNCs.
    pub fn syncs(&mut self) -> Vec<Reason> {
        let sync = |did| match did {
            Did::Sync { reason, .. } => Some(reason),
            _ => None,
        };
        self.take().into_iter().filter_map(sync).collect()
    }
}

/// A READ of four packets, 1..5, and one of two, 7..9, with WRITEs between and
/// behind; 0 is acknowledged.
pub fn reading() -> Bench {
    let mut bench = Bench::protected(Recovery::Cached, 1, Some(1));
    // No SYNC is answered here, and none is to be missed.
    bench.config.peer_timeout = Some(PAUSE);
    bench.frame(read(1, 4 * 256));
    bench.data([5, 6]);
    bench.frame(read(7, 2 * 256));
    bench.data([9]);
    bench.clear();
    bench
}

/// These responses come.
pub fn come(bench: &mut Bench, responses: impl IntoIterator<Item = i32>) {
    for n in responses {
        bench.respond(part(if n < 5 { 1..5 } else { 7..9 }, n));
    }
}

/// The STATUS of a Depot that holds everything but `missing`.
pub fn status(expected: i32, high: i32, missing: &[(i32, i32)]) -> Status {
    crate::control::status(expected, high, missing, psn)
}

/// A fetch-and-add.
pub fn atomic(n: i32) -> Vec<u8> {
    with_bth(Bth { ack_req: true, ..Bth::new(Opcode::FETCH_ADD, Qpn::new(0x11), psn(n)) }, &[0; 28])
}

/// Packet `n` of the READ response message that takes these PSNs.
pub fn part(message: std::ops::Range<i32>, n: i32) -> Vec<u8> {
    let opcode = match (n == message.start, n + 1 == message.end) {
        (true, true) => Opcode::READ_RESPONSE_ONLY,
        (true, false) => Opcode::READ_RESPONSE_FIRST,
        (false, false) => Opcode::READ_RESPONSE_MIDDLE,
        (false, true) => Opcode::READ_RESPONSE_LAST,
    };
    response(opcode, n)
}
