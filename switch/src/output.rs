//! From what a pipeline decides to frames on their way out.

use arrayvec::ArrayVec;
use common::control::{self, Fetch, Keys, LastAck, Message, Reason, Status, Sync};
use common::frame::{Class, Frame, Packet, Pool, Shared, Side, Sink};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::wire::{Aeth, CNP_LEN, Headers, Opcode};

use crate::entry::Id;
use crate::key::FlowKey;
use crate::peers::Peers;
use crate::switch::Io;

/// What all flows use to speak.
pub(crate) struct Voice {
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
    pub voice: &'a mut Voice,
    pub released: &'a mut Released<F::Shared>,
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    pub flow: Speaker<'a>,
    /// Another life of the flow began during the event.
    pub is_reborn: bool,
}

/// The flow that something happens to.
pub(crate) struct Speaker<'a> {
    /// Headers of its requests.
    pub headers: &'a Headers,
    /// Where its requests leave; their answers leave on the other side.
    pub onward: Side,
    pub key: &'a FlowKey,
    pub id: Id,
    pub requester: Option<u32>,
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
        voice: &'a mut Voice,
        released: &'a mut Released<F::Shared>,
        io: &'a mut Io<'b, P, S>,
        flow: Speaker<'a>,
    ) -> Self {
        let Io { pool, sink, .. } = io;
        Self { voice, released, pool, sink, flow, is_reborn: false }
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> Output<'_, F, P, S> {
    fn send(&mut self, side: Side, class: Class, packet: Packet<F>) {
        transmit(&mut self.voice.counters, self.sink, side, class, packet);
    }

    /// Ends the life of a frame.
    fn end(&mut self, packet: Packet<F>, reason: Metric) {
        self.voice.counters.inc(reason);
        match packet {
            Packet::Shared(handle) => self.released.push(handle),
            Packet::Owned(frame) => drop(frame),
        }
    }

    /// Sends a control message to the peer.
    fn say(&mut self, message: &Message, epoch: u32, class: Class) {
        let Speaker { headers, key, requester, ref node, .. } = self.flow;
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
                let qpn = requester.unwrap_or(dest_qpn);
                (headers.reversed(), qpn, Metric::CreatedStatus, Metric::AllocStatus)
            }
            Message::Absent(_) => {
                let qpn = requester.unwrap_or(dest_qpn);
                (headers.reversed(), qpn, Metric::CreatedAbsent, Metric::AllocAbsent)
            }
        };
        let len = headers.frame_len(control::body_len(message));
        let Some(mut frame) = self.pool.alloc(len) else {
            return self.voice.counters.inc(failed);
        };
        let Voice { peers, keys, opcode, counters } = &mut *self.voice;
        let header = peers.header(**node, dest_qpn, epoch);
        control::encode(&headers, *opcode, qpn, &header, message, keys, frame.bytes_mut());
        counters.inc(created);
        self.send(Side::Wan, class, Packet::Owned(frame));
    }

    /// Makes an ACK or NAK of the destination's, towards the requester.
    fn make_answer(&mut self, psn: Psn, aeth: Aeth, created: Metric, failed: Metric) {
        let Some(requester) = self.flow.requester else { return };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.pool.alloc(headers.frame_len(Aeth::LEN)) else {
            return self.voice.counters.inc(failed);
        };
        headers.emit_ack(requester, psn, aeth, frame.bytes_mut());
        self.voice.counters.inc(created);
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

    fn sync(&mut self, epoch: u32, sync: Sync, class: Class) {
        self.voice.counters.inc(match sync.reason {
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
        self.voice.peers.forget_route(&self.flow.headers.dst());
    }

    fn fetch(&mut self, epoch: u32, fetch: Fetch) {
        self.say(&Message::Fetch(fetch), epoch, Class::High);
    }

    fn answer(&mut self, frame: F) {
        self.send(Side::Lan, Class::Data, Packet::Owned(frame));
    }

    fn requester(&self) -> Option<u32> {
        self.flow.requester
    }

    fn new_life(&mut self) {
        // Already the SYNC that announces it must not name the old requester.
        self.flow.requester = None;
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
        self.voice.counters.add(metric, n);
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
        let Some(requester) = self.flow.requester else { return false };
        let headers = self.flow.headers.reversed();
        let Some(mut frame) = self.pool.alloc(headers.frame_len(CNP_LEN)) else {
            self.voice.counters.inc(Metric::AllocCnp);
            return false;
        };
        headers.emit_cnp(requester, frame.bytes_mut());
        self.voice.counters.inc(Metric::CreatedCnp);
        self.send(Side::Wan, Class::High, Packet::Owned(frame));
        true
    }

    fn requester(&self) -> Option<u32> {
        self.flow.requester
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.voice.counters.add(metric, n);
    }
}
