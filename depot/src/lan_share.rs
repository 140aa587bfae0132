//! A flow's part of its host's [window](crate::lan).

use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;
use common::wire::{parse, request_ack};

use crate::lan::TURN;
use crate::sequence::PacketInfo;
use crate::{Actions, Context, Flow};

/// A flow's share of its host's window.
pub(crate) struct LanShare {
    /// Which window it is.
    window: u32,
    /// One past the newest packet in flight: packets delivered from here on were lost, and are
    /// to be resent.
    sent: Seq,
    /// Bytes on the way: those of the backup pool before `sent`.
    flight: u64,
    /// It waits for its turn.
    waits: bool,
    /// Bytes that are left of its turn, if it is the flow's.
    turn: Option<u64>,
    /// When the source was last sent a CNP.
    notified: Time,
}

/// Packets of a flow that wait from which on its source is told.
const BACKLOG: u64 = 32;

impl<F: Frame> Flow<F> {
    /// Windows have come or gone: looks for that of the flow's host. A flow whose responses
    /// can't be told is not bounded by any, since it would never be known to have room.
    #[inline]
    pub(crate) fn find_window<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.seen != cx.lan.generation() || !self.backup.has_clock() {
            self.look_for_window(cx);
        }
    }

    fn look_for_window<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let is_known = self.incarnation.is_some() && cx.out.src_qpn().is_some();
        self.seen = cx.lan.generation();
        self.backup.find_clock(cx);
        if !is_known && !cx.lan.is_empty() {
            // Its next packet looks again: by then the requester may be known.
            self.look_again(cx);
        }
        let window = cx.lan.find(&cx.out.destination()).filter(|_| is_known);
        if self.share.as_ref().map(|share| share.window) == window {
            return;
        }
        self.leave_window(cx);
        if let Some(window) = window {
            self.ready = false;
            cx.lan.join(window);
            let sent = self.sequence.next();
            self.share = Some(Box::new(LanShare {
                window,
                sent,
                flight: 0,
                waits: false,
                turn: None,
                notified: Time::ZERO,
            }));
            self.set_flight(cx, self.backup.bytes_before(sent));
        }
    }

    /// The flow's next packet looks for a window, by the general way.
    pub(crate) fn look_again<A>(&mut self, cx: &Context<'_, A>) {
        self.seen = cx.lan.generation().wrapping_sub(1);
    }

    /// The flow has nothing more to do with a window.
    pub(crate) fn leave_window<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if let Some(share) = self.share.take() {
            let closed = cx.lan.leave(share.window, share.flight);
            cx.out.count(Metric::LanClosed, u64::from(closed));
        }
    }

    /// So many bytes are on the way.
    fn set_flight<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, flight: u64) {
        let Some(share) = &mut self.share else { return };
        cx.lan.moved(share.window, share.flight, flight);
        if let Some(turn) = &mut share.turn {
            *turn = turn.saturating_sub(flight.saturating_sub(share.flight));
        }
        share.flight = flight;
    }

    /// Releases all copies of packets that the destination has not acknowledged.
    pub(crate) fn clear_backup<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.backup.clear(cx);
        self.set_flight(cx, 0);
    }

    /// Sets the AckReq bit of a packet that is delivered while no response is awaited: a flow with
    /// a window makes room for others only once the destination responds. Returns whether the
    /// bit is set.
    fn set_ack_req<A: Actions<F>>(&self, cx: &mut Context<'_, A>, packet: &mut Packet<F>) -> bool {
        let Packet::Owned(frame) = packet else { return false };
        if self.awaits_ack() || cx.out.src_qpn().is_none() {
            return false;
        }
        let Ok(roce) = parse(frame.bytes()) else { return false };
        let is_set = request_ack(frame.bytes_mut(), &roce);
        cx.out.count(Metric::DepotSetAckReq, u64::from(is_set));
        is_set
    }

    /// Delivers packet `expected - 1`, within the window if there is one.
    #[inline(always)]
    pub(crate) fn deliver<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        packet: Packet<F>,
        info: PacketInfo,
    ) {
        match &self.share {
            None => self.transmit(cx, seq, packet, info),
            Some(_) => self.deliver_within_window(cx, seq, packet, info),
        }
    }

    #[inline(never)]
    fn deliver_within_window<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        mut packet: Packet<F>,
        mut info: PacketInfo,
    ) {
        // A packet behind pending resends counts once it is resent after them.
        let counts = self.resends().is_none();
        info.needs_response = info.needs_response || self.set_ack_req(cx, &mut packet);
        self.release_oldest(cx);
        self.transmit(cx, seq, packet, info);
        if counts {
            self.count_flight(cx, seq, seq + u64::from(info.count));
        }
    }

    /// Makes room for a packet that is to be kept.
    pub(crate) fn release_oldest<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let Some(share) = &self.share else { return };
        let (mut flight, sent) = (share.flight, share.sent);
        while !cx.backup.has_room() {
            let Some((seq, bytes)) = self.backup.release_oldest(cx) else { break };
            flight = flight.saturating_sub(if seq < sent { bytes } else { 0 });
        }
        self.set_flight(cx, flight);
    }

    /// Packet `seq` was delivered, with all up to `end`, and all before it is on the way.
    pub(crate) fn count_flight<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        end: Seq,
    ) {
        let Some(share) = &mut self.share else { return };
        share.sent = end;
        let flight = share.flight + self.backup.bytes_of(seq);
        self.set_flight(cx, flight);
    }

    /// The destination has everything before `acked`, which is about to leave the backup pool.
    pub(crate) fn free_flight<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        acked: Seq,
    ) -> u64 {
        let Some(share) = &mut self.share else { return 0 };
        let freed = self.backup.bytes_before(acked.min(share.sent));
        share.sent = share.sent.max(acked);
        let flight = share.flight.saturating_sub(freed);
        self.set_flight(cx, flight);
        freed
    }

    /// The destination has acknowledged so many bytes.
    pub(crate) fn on_room<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, bytes: u64) {
        let Some(share) = &self.share else { return };
        let closed = cx.lan.acknowledged(share.window, bytes, cx.now);
        cx.out.count(Metric::LanClosed, u64::from(closed));
        if share.waits && !self.awaits_ack() {
            self.deliver_due(cx);
        }
    }

    /// Whether an ACK of packets in flight is to be expected.
    pub(crate) fn awaits_ack(&self) -> bool {
        match &self.share {
            Some(share) => self.backup.awaits_before(share.sent),
            None => self.backup.awaits_response(),
        }
    }

    /// Whether the flow may deliver. One that awaits no response always may: nothing would
    /// show it later that it has room (R-LAN-5).
    pub(crate) fn has_room<A: Actions<F>>(&self, cx: &Context<'_, A>) -> bool {
        let Some(share) = &self.share else { return true };
        let Some(window) = cx.lan.get(share.window) else { return true };
        !self.awaits_ack()
            || window.has_room() && share.turn.map_or(!window.is_crowded(), |turn| turn > 0)
    }

    /// Whether the next packet may pass at once.
    pub(crate) fn may_pass<A: Actions<F>>(&self, cx: &Context<'_, A>) -> bool {
        self.resends().is_none() && self.has_room(cx)
    }

    /// The flow has something to deliver, and no room.
    pub(crate) fn wait_for_room<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if let Some(share) = self.share.as_mut().filter(|share| !share.waits) {
            share.waits = true;
            cx.lan.wait(share.window, cx.out.id(), cx.now);
        }
    }

    /// Whether packets in order wait for room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.waits)
    }

    /// Tells the source that the LAN is congested, unless it was told a moment ago (R-LAN-6).
    fn notify<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, cause: Metric) {
        let (Some(share), Some(interval)) = (&mut self.share, cx.config.cnp_interval) else {
            return;
        };
        if cx.now >= share.notified + interval && cx.out.cnp() {
            share.notified = cx.now;
            cx.out.count(cause, 1);
        }
    }

    /// A packet has arrived in order, and waits.
    pub(crate) fn notify_backlog<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let backlog = self.sequence.expected().since(self.sequence.next());
        if self.waits_for_room() && backlog >= BACKLOG {
            self.notify(cx, Metric::CnpQueue);
        }
    }

    /// It is the flow's turn to deliver.
    pub fn on_turn<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if let Some(share) = &mut self.share {
            (share.waits, share.turn) = (false, Some(TURN));
            self.deliver_due(cx);
        }
        if let Some(share) = &mut self.share {
            share.turn = None;
        }
    }

    /// `seq` and all packets behind it were lost on the LAN: all are resent, as far as there is
    /// room.
    pub(crate) fn resend_from<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        self.find_window(cx);
        match &self.share {
            Some(share) => {
                // R-LAN-2
                if cx.lan.lost(share.window, cx.now) {
                    cx.out.count(Metric::LanHalved, 1);
                }
            }
            None => {
                // R-LAN-1
                let bytes = self.backup.bytes_before(self.sequence.next());
                cx.lan.open(cx.out.destination(), bytes / 2, self.backup.clock(), cx.now);
                cx.out.count(Metric::LanOpened, 1);
                self.find_window(cx);
            }
        }
        self.backup.doubt_responses(seq);
        if let Some(share) = &mut self.share {
            share.sent = seq;
        }
        self.set_flight(cx, self.backup.bytes_before(seq));
        self.notify(cx, Metric::CnpLoss);
        self.catch_up(cx);
    }

    /// The packet that is to be resent next.
    pub(crate) fn resends(&self) -> Option<Seq> {
        let seq = self.backup.first_from(self.share.as_ref()?.sent)?;
        (seq < self.sequence.next()).then_some(seq)
    }

    /// Resends lost packets. False if the rest has no room.
    pub(crate) fn catch_up<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> bool {
        while let Some(seq) = self.resends() {
            if !self.has_room(cx) {
                self.wait_for_room(cx);
                return false;
            }
            if let Some(nak) = self.nak.as_mut().filter(|nak| nak.seq == seq) {
                nak.at = cx.now;
            }
            if !self.backup.resend(cx, seq, Metric::LocalNak) {
                // The source has to repeat a damaged one.
                self.go_back(cx, seq);
                return true;
            }
            self.count_flight(cx, seq, seq.next());
        }
        true
    }
}
