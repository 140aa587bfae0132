//! From what a pipeline decides to frames on their way out.

use common::control::{self, Keys, LastAck, Message, Reason, Status, Sync};
use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::wire::{Aeth, Headers, Opcode};

use crate::peers::Peers;

/// What all flows use to speak.
pub(crate) struct Voice {
    pub counters: Counters,
    pub peers: Peers,
    pub keys: Keys,
    pub opcode: Opcode,
}

/// A flow's way out for the time of one event.
pub(crate) struct Output<'a, P, S> {
    pub voice: &'a mut Voice,
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    /// Headers of the flow's requests.
    pub headers: &'a Headers,
    pub dest_qpn: u32,
    pub requester: Option<u32>,
    /// The box that answers, or asks, for this flow.
    pub node: Option<u32>,
    /// Another life of the flow began during the event.
    pub is_reborn: bool,
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

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> Output<'_, P, S> {
    fn send(&mut self, side: Side, class: Class, packet: Packet<F>) {
        transmit(&mut self.voice.counters, self.sink, side, class, packet);
    }

    /// Ends the life of a frame.
    fn end(&mut self, packet: Packet<F>, reason: Metric) {
        self.voice.counters.inc(reason);
        drop(packet);
    }

    fn say(&mut self, message: &Message, epoch: u32, side: Side, class: Class) {
        let (created, failed) = match message {
            Message::Sync(_) => (Metric::CreatedSync, Metric::AllocSync),
            Message::Status(_) => (Metric::CreatedStatus, Metric::AllocStatus),
        };
        // A SYNC goes the way of the flow, a STATUS the way back. Where the
        // requester is unknown any QPN will do: RNICs look at the opcode.
        let (headers, qpn) = match message {
            Message::Sync(_) => (self.headers.clone(), self.dest_qpn),
            Message::Status(_) => {
                (self.headers.reversed(), self.requester.unwrap_or(self.dest_qpn))
            }
        };
        let len = headers.frame_len(control::body_len(message));
        let Some(mut frame) = self.pool.alloc(len) else {
            return self.voice.counters.inc(failed);
        };
        let Voice { peers, keys, opcode, counters } = &mut *self.voice;
        let header = peers.header(self.node, self.dest_qpn, epoch);
        control::encode(&headers, *opcode, qpn, &header, message, keys, frame.bytes_mut());
        counters.inc(created);
        self.send(side, class, Packet::Owned(frame));
    }

    /// Makes an ACK or NAK of the destination's, towards the requester.
    fn answer(&mut self, psn: Psn, aeth: Aeth, created: Metric, failed: Metric) {
        let Some(requester) = self.requester else { return };
        let headers = self.headers.reversed();
        let Some(mut frame) = self.pool.alloc(headers.frame_len(Aeth::LEN)) else {
            return self.voice.counters.inc(failed);
        };
        headers.emit_ack(requester, psn, aeth, frame.bytes_mut());
        self.voice.counters.inc(created);
        // In order with the destination's own answers.
        self.send(Side::Lan, Class::Data, Packet::Owned(frame));
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> sentry::Actions<F> for Output<'_, P, S> {
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
        });
        self.say(&Message::Sync(sync), epoch, Side::Wan, class);
    }

    fn requester(&self) -> Option<u32> {
        self.requester
    }

    fn new_life(&mut self) {
        // Already the SYNC that announces it must not name the old requester.
        self.requester = None;
        self.is_reborn = true;
    }

    fn nak(&mut self, psn: Psn, msn: u32) {
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn };
        self.answer(psn, aeth, Metric::CreatedNak, Metric::AllocNak);
    }

    fn ack(&mut self, ack: LastAck) {
        let aeth = Aeth { syndrome: ack.syndrome, msn: ack.msn };
        self.answer(ack.psn, aeth, Metric::CreatedAck, Metric::AllocAck);
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.voice.counters.add(metric, n);
    }
}

impl<F: Frame, P: Pool<Frame = F>, S: Sink<Frame = F>> depot::Actions<F> for Output<'_, P, S> {
    fn deliver(&mut self, packet: Packet<F>) {
        self.send(Side::Lan, Class::Data, packet);
    }

    fn discard(&mut self, packet: Packet<F>, reason: Metric) {
        self.end(packet, reason);
    }

    fn status(&mut self, epoch: u32, status: Status) {
        self.say(&Message::Status(status), epoch, Side::Wan, Class::High);
    }

    fn requester(&self) -> Option<u32> {
        self.requester
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.voice.counters.add(metric, n);
    }
}
