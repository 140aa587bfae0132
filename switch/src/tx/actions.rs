//! From what a pipeline decides to frames on their way out.

use arrayvec::ArrayVec;
use common::control::{self, Fetch, Keys, LastAck, Message, Reason, Status, SyncMessage};
use common::frame::{Class, Frame, Packet, Pool, Shared, Side, Sink};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::wire::{Aeth, CNP_LEN, Headers, Opcode};

use crate::flow::entry::Id;
use crate::flow::key::FlowKey;
use crate::switch::Io;
use crate::tx::peers::Peers;

/// What all flows use to speak.
pub(crate) struct TxContext {
    pub counters: Counters,
    pub peers: Peers,
    pub keys: Keys,
    pub opcode: Opcode,
}

/// Handles that pools have let go of in this burst. They are booked already.
/// Each takes a look at its mbuf, which is cold by now: it is fetched when the
/// handle comes here, and released at the end with all others.
pub(crate) struct Released<S: Shared>(ArrayVec<S, 64>);

impl<S: Shared> Released<S> {
    pub fn new() -> Self {
        Self(ArrayVec::new())
    }

    fn push(&mut self, handle: S) {
        if self.0.is_full() {
            self.flush();
        }
        handle.prefetch();
        self.0.push(handle);
    }

    /// To be called at the end of a burst.
    pub fn flush(&mut self) {
        if !self.0.is_empty() {
            S::release_all(&mut self.0);
        }
    }
}

/// A flow's way out for the time of one event.
pub(crate) struct Output<'a, F: Frame, P, S> {
    pub tx: &'a mut TxContext,
    pub released: &'a mut Released<F::Shared>,
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    pub flow: FlowRef<'a>,
    /// Another incarnation of the flow began during the event.
    pub is_reborn: bool,
}

/// The flow that something happens to.
pub(crate) struct FlowRef<'a> {
    /// Headers of its requests.
    pub headers: &'a Headers,
    /// Where its requests leave; their answers leave on the other side.
    pub onward: Side,
    pub key: &'a FlowKey,
    pub id: Id,
    pub src_qpn: Option<u32>,
    /// The box that answers, or asks, for it.
    pub node: &'a mut Option<u32>,
}

/// Hands a frame to the sink and books it.
pub(crate) fn transmit<S: Sink>(
    counters: &mut Counters,
    sink: &mut S,
    side: Side,
    class: Class,
    packet: Packet<S::Frame>,
) {
    counters.inc(match side {
        Side::Lan => Metric::TransmittedLan,
        Side::Wan => Metric::TransmittedWan,
    });
    sink.transmit(side, class, packet);
}

impl<'a, F: Frame, P, S> Output<'a, F, P, S> {
    #[inline]
    pub fn new<'b: 'a>(
        tx: &'a mut TxContext,
        released: &'a mut Released<F::Shared>,
        io: &'a mut Io<'b, P, S>,
        flow: FlowRef<'a>,
    ) -> Self {
        let Io { pool, sink, .. } = io;
        Self { tx, released, pool, sink, flow, is_reborn: false }
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> Output<'_, F, P, S> {
    fn send(&mut self, side: Side, class: Class, packet: Packet<F>) {
        transmit(&mut self.tx.counters, self.sink, side, class, packet);
    }

    /// Frees a frame.
    fn end(&mut self, packet: Packet<F>, reason: Metric) {
        self.tx.counters.inc(reason);
        match packet {
            Packet::Shared(handle) => self.released.push(handle),
            Packet::Owned(frame) => drop(frame),
        }
    }

    /// Sends a control message to the peer.
    fn say(&mut self, message: &Message, epoch: u32, class: Class) {
        let FlowRef { headers, key, src_qpn, ref node, .. } = self.flow;
        let dest_qpn = key.dest_qpn;
        // What the Sentry says goes the way of the flow, a STATUS the way back.
        // Where the requester is unknown any QPN will do: RNICs look at the
        // opcode.
        let (headers, qpn, created, failed) = match message {
            Message::Sync(_) => (headers.clone(), dest_qpn, Metric::CreatedSync, Metric::AllocSync),
            Message::Fetch(_) => {
                (headers.clone(), dest_qpn, Metric::CreatedFetch, Metric::AllocFetch)
            }
            Message::Status(_) => {
                let qpn = src_qpn.unwrap_or(dest_qpn);
                (headers.reversed(), qpn, Metric::CreatedStatus, Metric::AllocStatus)
            }
            Message::Absent(_) => {
                let qpn = src_qpn.unwrap_or(dest_qpn);
                (headers.reversed(), qpn, Metric::CreatedAbsent, Metric::AllocAbsent)
            }
        };
        let len = headers.frame_len(control::body_len(message));
        let Some(mut frame) = self.pool.alloc(len) else {
            return self.tx.counters.inc(failed);
        };
        let TxContext { peers, keys, opcode, counters } = &mut *self.tx;
        let header = peers.header(**node, dest_qpn, epoch);
        control::encode(&headers, *opcode, qpn, &header, message, keys, frame.bytes_mut());
        counters.inc(created);
        self.send(Side::Wan, class, Packet::Owned(frame));
    }

    /// Makes an ACK or NAK of the destination's, towards the requester.
    fn make_answer(&mut self, psn: Psn, aeth: Aeth, created: Metric, failed: Metric) {
        let Some(src_qpn) = self.flow.src_qpn else { return };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.pool.alloc(headers.frame_len(Aeth::LEN)) else {
            return self.tx.counters.inc(failed);
        };
        headers.emit_ack(src_qpn, psn, aeth, frame.bytes_mut());
        self.tx.counters.inc(created);
        // In order with the destination's own answers.
        self.send(self.flow.onward.other(), Class::Data, Packet::Owned(frame));
    }

    fn make_ack(&mut self, ack: LastAck) {
        let aeth = Aeth { syndrome: ack.syndrome, msn: ack.msn };
        self.make_answer(ack.psn, aeth, Metric::CreatedAck, Metric::AllocAck);
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> sentry::Actions<F> for Output<'_, F, P, S> {
    fn forward(&mut self, packet: Packet<F>, class: Class) {
        self.send(Side::Wan, class, packet);
    }

    fn discard(&mut self, packet: Packet<F>, reason: Metric) {
        self.end(packet, reason);
    }

    fn sync(&mut self, epoch: u32, sync: SyncMessage, class: Class) {
        self.tx.counters.inc(match sync.reason {
            Reason::Open => Metric::SyncOpen,
            Reason::Tail => Metric::SyncTail,
            Reason::Resent => Metric::SyncResent,
            Reason::Keepalive => Metric::SyncKeepalive,
            Reason::Release => Metric::SyncRelease,
            Reason::Lost => Metric::SyncLost,
        });
        self.say(&Message::Sync(sync), epoch, class);
    }

    fn unheard(&mut self) {
        *self.flow.node = None;
        self.tx.peers.forget_route(&self.flow.headers.dst());
    }

    fn fetch(&mut self, epoch: u32, fetch: Fetch) {
        self.say(&Message::Fetch(fetch), epoch, Class::High);
    }

    fn answer(&mut self, frame: F) {
        self.send(Side::Lan, Class::Data, Packet::Owned(frame));
    }

    fn src_qpn(&self) -> Option<u32> {
        self.flow.src_qpn
    }

    fn new_incarnation(&mut self) {
        // Already the SYNC that announces it must not name the old requester.
        self.flow.src_qpn = None;
        self.is_reborn = true;
    }

    fn nak(&mut self, psn: Psn, msn: u32) {
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn };
        self.make_answer(psn, aeth, Metric::CreatedNak, Metric::AllocNak);
    }

    fn ack(&mut self, ack: LastAck) {
        self.make_ack(ack);
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.tx.counters.add(metric, n);
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> depot::Actions<F> for Output<'_, F, P, S> {
    fn deliver(&mut self, packet: Packet<F>) {
        self.send(Side::Lan, Class::Data, packet);
    }

    fn discard(&mut self, packet: Packet<F>, reason: Metric) {
        self.end(packet, reason);
    }

    fn status(&mut self, epoch: u32, status: Status) {
        self.say(&Message::Status(status), epoch, Class::High);
    }

    fn absent(&mut self, epoch: u32, absent: Fetch, class: Class) {
        self.say(&Message::Absent(absent), epoch, class);
    }

    fn answer(&mut self, packet: Packet<F>, class: Class) {
        self.send(Side::Wan, class, packet);
    }

    fn ack(&mut self, ack: LastAck) {
        self.make_ack(ack);
    }

    fn destination(&self) -> depot::Host {
        (self.flow.key.hosts.dst, self.flow.key.hosts.vlans)
    }

    fn id(&self) -> u32 {
        self.flow.id
    }

    fn cnp(&mut self) -> bool {
        let Some(src_qpn) = self.flow.src_qpn else { return false };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.pool.alloc(headers.frame_len(CNP_LEN)) else {
            self.tx.counters.inc(Metric::AllocCnp);
            return false;
        };
        headers.emit_cnp(src_qpn, frame.bytes_mut());
        self.tx.counters.inc(Metric::CreatedCnp);
        self.send(Side::Wan, Class::High, Packet::Owned(frame));
        true
    }

    fn src_qpn(&self) -> Option<u32> {
        self.flow.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.tx.counters.add(metric, n);
    }
}
