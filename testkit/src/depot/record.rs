//! A record of a flow's actions, and the events of a test.

use common::control::{BootId, Epoch, Fetch, LastAck, NodeId, Reason, Status};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::histogram::Timing;
use common::ids::FlowId;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::verdict::Tolerance;
use common::wire::{Addr, Aeth, Opcode, Qpn, Vlans, parse};
use depot::{Actions, Config, Host, Incarnation, Known};

use super::{Harness, Timers};
use crate::account;
use crate::books::Books;
pub use crate::control::sync;
pub use crate::flow::*;

/// The round trip of the long-haul link.
pub const RTT: Span = Span::from_millis(8);
/// How long a gap may stay open.
pub const GIVE_UP: Span = Span::from_millis(48);
/// Silence after which an incarnation ends: four times [`GIVE_UP`].
pub const PAUSE: Span = Span::from_millis(192);
/// How long the destination may take to respond.
pub const T_OUT: Span = Span::from_millis(1);
/// Most PSNs by which a packet may be ahead.
pub const WINDOW_MAX: u64 = 1 << 10;
/// The incarnation of a flow.
pub const LIFE: Incarnation = Incarnation { node: NodeId(1), boot: BootId(5), epoch: Epoch(9) };

/// A host of the LAN.
pub fn host(last: u8) -> Host {
    (Addr::from_v4([10, 0, 0, last]), Vlans::NONE)
}

/// The fate of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Became {
    /// It went on to the source.
    Forward,
    /// It ended here.
    Absorb,
    /// It went on and ended an incarnation.
    NewIncarnation,
}

/// Records a flow's actions.
#[derive(Default)]
pub struct Record {
    /// Delivered to the destination, in this order.
    pub delivered: Vec<i32>,
    /// Dropped, with the reason.
    pub discarded: Vec<(i32, Metric)>,
    /// STATUS messages, with their epoch.
    pub statuses: Vec<(Epoch, Status)>,
    /// Responses that went on to the source, with their class.
    pub responses: Vec<(Opcode, i32, Class)>,
    /// Ranges of responses that are not to be had, from .. to.
    pub absent: Vec<(Vec<(i32, i32)>, Class)>,
    /// ACKs made.
    pub acks: Vec<(i32, u32)>,
    /// Times, as they were measured.
    pub times: Vec<(Timing, Span)>,
    /// Counters, and frames that came and went.
    pub books: Books,
    /// The requester, if it is known.
    pub src_qpn: Option<Qpn>,
    /// CNPs made, by the requester that they went to.
    pub cnps: Vec<Qpn>,
    /// The destination.
    pub host: Host,
    /// The flow's number.
    pub id: FlowId,
}

impl Actions<HeapFrame> for Record {
    fn deliver(&mut self, packet: Packet<HeapFrame>) {
        let roce = parse(packet.bytes()).expect("what is delivered was received");
        self.delivered.push(count_of(roce.psn));
        self.books.left += 1;
    }

    fn discard(&mut self, packet: Packet<HeapFrame>, reason: Metric) {
        let roce = parse(packet.bytes()).expect("what is dropped was received");
        self.discarded.push((count_of(roce.psn), reason));
        self.books.left += 1;
    }

    fn respond(&mut self, packet: Packet<HeapFrame>, class: Class) {
        let roce = parse(packet.bytes()).expect("what is sent on was received");
        self.responses.push((roce.opcode, count_of(roce.psn), class));
        self.books.left += 1;
    }

    fn ack(&mut self, ack: LastAck) {
        assert_eq!(ack.syndrome, Aeth::ACK_UNLIMITED);
        self.acks.push((count_of(ack.psn), ack.msn));
    }

    fn status(&mut self, epoch: Epoch, status: Status) {
        self.statuses.push((epoch, status));
    }

    fn cnp(&mut self) -> bool {
        self.cnps.extend(self.src_qpn);
        self.src_qpn.is_some()
    }

    fn destination(&self) -> Host {
        self.host
    }

    fn id(&self) -> FlowId {
        self.id
    }

    fn absent(&mut self, _: Epoch, absent: Fetch, class: Class) {
        self.absent.push((counted(&absent.missing), class));
    }

    fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }

    fn record(&mut self, what: Timing, time: Span) {
        self.times.push((what, time));
    }
}

account!(Record);

/// A configuration with given timeouts.
pub fn config() -> Config {
    Config {
        rtt_guess: RTT,
        // Long, so that no STATUS comes but for a reason.
        status_interval: Some(Span::from_millis(1_000)),
        give_up: Some(GIVE_UP),
        t_out: Some(T_OUT),
        t_out_min: Span::from_micros(500),
        cnp_interval: Some(Span::from_micros(50)),
        local_retries: 2,
        keeps_responses: true,
        window_max: WINDOW_MAX,
        pacing: true,
        tolerance: Tolerance::default(),
        fast_path: true,
    }
}

/// A flow whose actions are recorded.
pub type Bench = Harness<HeapFrame, Record>;

impl Default for Bench {
    fn default() -> Self {
        Self::new(config(), START, FIRST, Record { host: host(2), ..Record::default() })
    }
}

impl Bench {
    /// A flow that a SYNC opened, and whose destination has acknowledged one
    /// packet.
    pub fn synced() -> Self {
        let mut bench = Self::default();
        bench.sync(LIFE, Reason::Open, 0);
        bench.data([0]);
        assert_eq!(bench.ack(0), Became::Forward);
        bench.clear();
        bench
    }

    /// The same, and its requester is known.
    pub fn paired() -> Self {
        let mut bench = Self::synced();
        bench.out.src_qpn = Some(Qpn::new(0x77));
        bench
    }

    /// Nothing is delivered until `at`, and then these packets.
    ///
    /// # Panics
    /// If it is otherwise.
    #[track_caller]
    pub fn assert_delivers(&mut self, at: Time, psns: &[i32]) {
        self.run_timers(at - Span::from_nanos(1));
        assert!(self.delivered().is_empty(), "before {at:?}");
        self.run_timers(at);
        assert_eq!(self.delivered(), psns);
    }

    /// A SYNC with `next` as its next PSN; sent just now.
    pub fn sync(&mut self, incarnation: Incarnation, reason: Reason, next: i32) {
        let sync = sync(reason, psn(next), self.now);
        self.with(|flow, cx| flow.on_sync(cx, incarnation, &sync));
    }

    /// A SYNC(resent); sent just now.
    pub fn sync_resent(&mut self, incarnation: Incarnation) {
        let sync = sync(Reason::Resent, None, self.now);
        self.with(|flow, cx| flow.on_sync(cx, incarnation, &sync));
    }

    /// The destination answers with this frame.
    pub fn respond(&mut self, bytes: Vec<u8>) -> Became {
        let before = self.out.responses.len();
        let known = self.response(bytes);
        match self.out.responses.len() - before {
            0 => Became::Absorb,
            _ if known == Known::NewIncarnation => Became::NewIncarnation,
            _ => Became::Forward,
        }
    }

    /// The destination acknowledges packet `n`.
    pub fn ack(&mut self, n: i32) -> Became {
        self.respond(plain_response(n, Aeth::ACK_UNLIMITED, 3))
    }

    /// The destination asks for packet `n`.
    pub fn nak(&mut self, n: i32) -> Became {
        self.respond(plain_response(n, Aeth::NAK_PSN_SEQUENCE, 3))
    }

    /// The destination isn't ready for packet `n`.
    pub fn rnr(&mut self, n: i32) -> Became {
        self.respond(plain_response(n, Aeth::RNR, 3))
    }

    /// Clears the record.
    pub fn clear(&mut self) {
        self.out.delivered.clear();
        self.out.discarded.clear();
        self.out.statuses.clear();
        self.out.responses.clear();
        self.out.acks.clear();
    }

    /// PSNs delivered since the last call.
    pub fn delivered(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.out.delivered)
    }

    /// The STATUS messages since the last time.
    pub fn statuses(&mut self) -> Vec<Status> {
        std::mem::take(&mut self.out.statuses).into_iter().map(|(_, status)| status).collect()
    }

    /// The missing ranges of the STATUS messages since the last time.
    pub fn nacks(&mut self) -> Vec<Vec<(i32, i32)>> {
        self.statuses().iter().map(missing).collect()
    }
}

/// The ranges that a STATUS lists, as from .. to.
pub fn missing(status: &Status) -> Vec<(i32, i32)> {
    counted(&status.missing)
}

/// The last packet of a WRITE, which asks for an ACK.
pub fn asking(n: i32) -> Vec<u8> {
    crate::flow::asking(n)
}

/// A READ of `packets` packets of 256 bytes.
pub fn read(n: i32, packets: u32) -> Vec<u8> {
    crate::flow::read(n, packets * 256)
}

/// A middle packet of a READ response.
pub fn response(n: i32) -> Vec<u8> {
    crate::flow::response(Opcode::READ_RESPONSE_MIDDLE, n)
}

/// The first packet of a READ response.
pub fn first_response(n: i32) -> Vec<u8> {
    crate::flow::response(Opcode::READ_RESPONSE_FIRST, n)
}
