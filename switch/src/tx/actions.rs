//! The actions of pipelines become frames that are transmitted.

use arrayvec::ArrayVec;
use common::control::{Epoch, Fetch, LastAck, Message, NodeId, Status, SyncMessage};
use common::frame::{Class, Frame, Packet, Shared, Side};
use common::histogram::Timing;
use common::ids::FlowId;
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::recorder::Recorder;
use common::time::Span;
use common::wire::{Aeth, CNP_LEN, Headers, Qpn};

use crate::config::Config;
use crate::flow::key::FlowKey;
use crate::io::{Io, transmit};
use crate::tx::peers::{Address, Peers};
use crate::tx::release::Releases;

/// State that all flows transmit with.
pub(crate) struct Tx<F: Frame> {
    pub counters: Counters,
    pub peers: Peers,
    pub releases: Releases,
    pub released: Released<F::Shared>,
    pub recorder: Recorder,
}

impl<F: Frame> Tx<F> {
    /// Nothing was transmitted yet.
    pub fn new(config: &Config) -> Self {
        Self {
            counters: Counters::default(),
            peers: Peers::new(config),
            releases: Releases::new(config.tuning.rtt_guess, config.hash_seed),
            released: Released(ArrayVec::new()),
            recorder: Recorder::new(config.records),
        }
    }

    /// Forwards a frame that arrived on `side` unchanged, in arrival order.
    pub fn forward<I: Io<Frame = F>>(&mut self, io: &mut I, side: Side, frame: F) {
        transmit(&mut self.counters, io, side.other(), Class::Data, Packet::Owned(frame));
    }

    /// The same for a frame that no pipeline takes, and books why.
    pub fn pass<I: Io<Frame = F>>(&mut self, io: &mut I, side: Side, frame: F, reason: Metric) {
        self.counters.inc(reason);
        self.forward(io, side, frame);
    }
}

/// Handles that pools have given up in this burst. They are booked already.
/// Each takes a look at its mbuf, which is cold by now: it is fetched when the
/// handle comes here, and released at the end with all others.
pub(crate) struct Released<S: Shared>(ArrayVec<S, 64>);

impl<S: Shared> Released<S> {
    #[inline(always)]
    fn push(&mut self, handle: S) {
        if self.0.is_full() {
            self.flush();
        }
        handle.prefetch();
        self.0.push(handle);
    }

    /// To be called at the end of a burst.
    #[inline(never)]
    pub fn flush(&mut self) {
        if !self.0.is_empty() {
            S::release_all(&mut self.0);
        }
    }
}

/// The actions of a flow's pipeline, for the time of one event.
pub(crate) struct Output<'a, I: Io> {
    pub tx: &'a mut Tx<I::Frame>,
    pub io: &'a mut I,
    pub flow: FlowRef<'a>,
    /// Another incarnation of the flow began during the event.
    pub is_reborn: bool,
}

/// The flow that an event happens to.
pub(crate) struct FlowRef<'a> {
    /// Headers of its requests.
    pub headers: &'a Headers,
    /// Where its requests leave; their responses leave on the other side.
    pub onward: Side,
    pub key: &'a FlowKey,
    pub id: FlowId,
    pub src_qpn: Option<Qpn>,
    /// The box at the other end of it.
    pub node: &'a mut Option<NodeId>,
}

impl<F: Frame, I: Io<Frame = F>> Output<'_, I> {
    #[inline(always)]
    fn send(&mut self, side: Side, class: Class, packet: Packet<F>) {
        transmit(&mut self.tx.counters, self.io, side, class, packet);
    }

    #[inline(always)]
    fn add(&mut self, metric: Metric, n: u64) {
        self.tx.counters.add(metric, n);
        if metric.is_recorded() && n > 0 {
            self.note(metric, n);
        }
    }

    /// What `act` counts is recorded of these packets.
    #[inline(always)]
    fn record_about(&mut self, psn: Psn, packets: u64, act: impl FnOnce(&mut Self)) {
        let before = self.tx.recorder.about(psn, packets);
        act(self);
        self.tx.recorder.restore(before);
    }

    /// For the flight recorder.
    #[cold]
    #[inline(never)]
    fn note(&mut self, metric: Metric, n: u64) {
        self.tx.recorder.note(self.flow.key.stream(), metric, n);
    }

    /// Frees a frame. In line: that of a handle is done for each packet that an ACK covers.
    #[inline(always)]
    fn end(&mut self, packet: Packet<F>, reason: Metric) {
        self.add(reason, 1);
        match packet {
            Packet::Shared(handle) => self.tx.released.push(handle),
            Packet::Owned(frame) => drop(frame),
        }
    }

    /// Sends a control message to the peer.
    fn send_message(&mut self, message: &Message, epoch: Epoch, class: Class) {
        let FlowRef { headers, key, src_qpn, ref node, .. } = self.flow;
        let dest_qpn = key.dest_qpn;
        let (headers, qpn) = match message {
            Message::Sync(_) | Message::Fetch(_) => (headers.clone(), dest_qpn),
            // Where `src_qpn` is unknown any QPN will do: RNICs look at the opcode.
            Message::Status(_) | Message::Absent(_) => {
                (headers.reversed(), src_qpn.unwrap_or(dest_qpn))
            }
        };
        let to = Address { headers: &headers, qpn, node: **node, dest_qpn, epoch };
        let Tx { counters, peers, .. } = &mut *self.tx;
        peers.send(counters, self.io, &to, message, class);
    }

    /// Makes an ACK or NAK in the destination's name, to the requester.
    fn make_response(&mut self, psn: Psn, aeth: Aeth, created: Metric, failed: Metric) {
        let Some(src_qpn) = self.flow.src_qpn else { return };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.io.alloc(headers.frame_len(Aeth::LEN)) else {
            return self.tx.counters.inc(failed);
        };
        headers.emit_ack(src_qpn, psn, aeth, frame.bytes_mut());
        self.record_about(psn, 1, |out| out.add(created, 1));
        // In order with the destination's own responses.
        self.send(self.flow.onward.other(), Class::Data, Packet::Owned(frame));
    }

    fn make_ack(&mut self, ack: LastAck) {
        let aeth = Aeth { syndrome: ack.syndrome, msn: ack.msn };
        self.make_response(ack.psn, aeth, Metric::CreatedAck, Metric::AllocAck);
    }
}

impl<F: Frame, I: Io<Frame = F>> sentry::Actions<F> for Output<'_, I> {
    #[inline(always)]
    fn forward(&mut self, packet: Packet<F>, class: Class) {
        self.send(Side::Wan, class, packet);
    }

    #[inline(always)]
    fn discard(&mut self, packet: Packet<F>, reason: Metric) {
        self.end(packet, reason);
    }

    fn sync(&mut self, epoch: Epoch, sync: SyncMessage, class: Class) {
        self.send_message(&Message::Sync(sync), epoch, class);
    }

    fn unheard(&mut self) {
        *self.flow.node = None;
        self.tx.peers.forget_route(&self.flow.headers.dst());
    }

    fn fetch(&mut self, epoch: Epoch, fetch: Fetch) {
        self.send_message(&Message::Fetch(fetch), epoch, Class::High);
    }

    fn respond(&mut self, frame: F) {
        self.send(Side::Lan, Class::Data, Packet::Owned(frame));
    }

    #[inline(always)]
    fn src_qpn(&self) -> Option<Qpn> {
        self.flow.src_qpn
    }

    fn new_incarnation(&mut self) {
        // Already the SYNC that announces it must not name the old `src_qpn`.
        self.flow.src_qpn = None;
        self.is_reborn = true;
    }

    fn nak(&mut self, psn: Psn, msn: u32) {
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn };
        self.make_response(psn, aeth, Metric::CreatedNak, Metric::AllocNak);
    }

    fn ack(&mut self, ack: LastAck) {
        self.make_ack(ack);
    }

    #[inline(always)]
    fn count(&mut self, metric: Metric, n: u64) {
        self.add(metric, n);
    }

    #[inline(always)]
    fn about(&mut self, psn: Psn, packets: u64, act: impl FnOnce(&mut Self)) {
        self.record_about(psn, packets, act);
    }

    #[inline]
    fn record(&mut self, what: Timing, time: Span) {
        self.tx.counters.record(what, time);
    }
}

impl<F: Frame, I: Io<Frame = F>> depot::Actions<F> for Output<'_, I> {
    #[inline(always)]
    fn deliver(&mut self, packet: Packet<F>) {
        self.send(Side::Lan, Class::Data, packet);
    }

    #[inline(always)]
    fn discard(&mut self, packet: Packet<F>, reason: Metric) {
        self.end(packet, reason);
    }

    fn status(&mut self, epoch: Epoch, status: Status) {
        self.send_message(&Message::Status(status), epoch, Class::High);
    }

    fn absent(&mut self, epoch: Epoch, absent: Fetch, class: Class) {
        self.send_message(&Message::Absent(absent), epoch, class);
    }

    fn respond(&mut self, packet: Packet<F>, class: Class) {
        self.send(Side::Wan, class, packet);
    }

    fn ack(&mut self, ack: LastAck) {
        self.make_ack(ack);
    }

    fn destination(&self) -> depot::Host {
        (self.flow.key.hosts.dst, self.flow.key.hosts.vlans)
    }

    fn id(&self) -> FlowId {
        self.flow.id
    }

    fn cnp(&mut self) -> bool {
        let Some(src_qpn) = self.flow.src_qpn else { return false };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.io.alloc(headers.frame_len(CNP_LEN)) else {
            self.tx.counters.inc(Metric::AllocCnp);
            return false;
        };
        headers.emit_cnp(src_qpn, frame.bytes_mut());
        self.add(Metric::CreatedCnp, 1);
        self.send(Side::Wan, Class::High, Packet::Owned(frame));
        true
    }

    #[inline(always)]
    fn src_qpn(&self) -> Option<Qpn> {
        self.flow.src_qpn
    }

    #[inline(always)]
    fn count(&mut self, metric: Metric, n: u64) {
        self.add(metric, n);
    }

    #[inline(always)]
    fn about(&mut self, psn: Psn, packets: u64, act: impl FnOnce(&mut Self)) {
        self.record_about(psn, packets, act);
    }

    #[inline]
    fn record(&mut self, what: Timing, time: Span) {
        self.tx.counters.record(what, time);
    }
}
