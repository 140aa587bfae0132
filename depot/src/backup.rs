//! The backup pool: packets that were delivered and the destination has not
//! acknowledged, and when they are resent.

use std::collections::VecDeque;

use common::cpu::prefetch;
use common::frame::{Frame, Kept, Packet, Shared};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::{Span, Time};
use common::window::{FEW, Window};
use common::wire::{BTH_LEN, icrc_ok, parse};

use crate::hosts::ClockId;
use crate::sequence::{Held, PacketInfo};
use crate::{Actions, Context, Flow};

/// `t_out` is doubled so often at most.
const MOST_BACKOFF: u8 = 7;

/// Percent of the pool that flows with unknown requester may fill.
const UNPAIRED_PRESSURE: u8 = 50;

/// The newest packets that were delivered, without a gap, up to `expected`.
#[repr(C)]
pub(crate) struct Backup<F: Frame> {
    /// The places of a READ request but the first are vacant.
    kept: Window<Kept<F::Shared>>,
    /// When the destination last acknowledged something new, or packets were
    /// last resent.
    touched: Time,
    /// Delivered packets whose response is awaited, oldest first,
    /// with the time of their delivery, or of their resend after a NAK; zero if they were resent after
    /// a timeout, since a response may be to either copy (Karn's rule).
    awaited: VecDeque<(Seq, Time)>,
    /// Resends because of a timeout since the destination acknowledged
    /// something.
    retries: u8,
    /// How often `t_out` was doubled since a round trip was last measured.
    backoff: u8,
    /// Response times of the destination's host.
    clock: ClockId,
    /// Resends, for an operator.
    resent: u32,
    /// Time from a resend, or an acknowledgement, to the next look at what is unanswered.
    wait: Span,
}

impl<F: Frame> Backup<F> {
    /// Memory of one PSN, in bytes.
    pub const SLOT: usize = size_of::<Kept<F::Shared>>();
    /// One past the last byte that a packet touches which requests no ACK.
    pub const KEPT: usize = size_of::<Window<Kept<F::Shared>>>();

    pub fn new(next: Seq) -> Self {
        Self {
            kept: Window::new(next),
            awaited: VecDeque::new(),
            touched: Time::ZERO,
            retries: 0,
            backoff: 0,
            clock: ClockId::NONE,
            wait: Span::ZERO,
            resent: 0,
        }
    }

    /// Prefetches the fields that follow `kept`.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.awaited);
    }

    /// Prefetches the entries of the oldest packet in `kept` and `awaited`.
    #[inline]
    pub fn prefetch_oldest(&self) {
        if let (Some(kept), Some(awaited)) = (self.kept.front(), self.awaited.front()) {
            prefetch(kept);
            prefetch(awaited);
        }
    }

    /// Whether `seq` can be resent, and all that was delivered after it is kept.
    pub fn holds_from(&self, seq: Seq) -> bool {
        self.kept.get(seq).is_some_and(|kept| is_intact(kept.handle.bytes()))
    }

    /// The oldest packet that can be resent, or the next to be delivered if none can.
    pub fn oldest(&self) -> Seq {
        self.kept.start()
    }

    /// How often a packet was resent.
    pub fn resent(&self) -> u32 {
        self.resent
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether a packet with AckReq is unacknowledged.
    pub fn awaits_response(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The packet with the number `seq`, as if it had come at `at` and were yet
    /// to be delivered.
    pub fn copy(&self, seq: Seq, at: Time) -> Option<Held<F>> {
        let Kept { handle, len } = self.kept.get(seq)?;
        if !is_intact(handle.bytes()) {
            return None;
        }
        let end = self.kept.first_from(seq.next()).unwrap_or(self.kept.end());
        let count = end.since(seq) as u32;
        let needs_response = self.awaited.binary_search_by_key(&seq, |(asked, _)| *asked).is_ok();
        let info = PacketInfo { len: *len, count, needs_response };
        Some(Held { packet: Packet::Shared(handle.clone()), info, at })
    }

    /// Whether `seq` is a request that an ACK answers, rather than a READ or an
    /// atomic; `None` if it is not held.
    pub fn is_plain(&self, seq: Seq) -> Option<bool> {
        // The further PSNs of a READ have no handle.
        let (at, Kept { handle, .. }) =
            self.kept.last_to(seq).filter(|_| seq >= self.kept.start() && seq < self.kept.end())?;
        Some(at == seq && parse(handle.bytes()).is_ok_and(|roce| roce.kind().is_plain()))
    }

    /// As [`keep`](Self::keep), for a packet of one PSN that follows the newest one.
    ///
    /// # Errors
    /// The frame, and no change, where it does not or there is no room.
    #[inline(always)]
    pub fn keep_next<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        frame: F,
        len: usize,
        needs_response: bool,
    ) -> Result<Packet<F>, F> {
        if self.kept.end() != seq || !cx.backup.take(len) {
            return Err(frame);
        }
        if needs_response {
            self.awaited.push_back((seq, cx.now));
        }
        cx.out.count(Metric::CreatedHandle, 1);
        let (sent, handle) = frame.share_twice();
        self.kept.push(Kept { handle, len: len as u32 });
        Ok(Packet::Shared(sent))
    }

    /// Keeps a packet that is being delivered, and returns the packet to transmit. Where the pool
    /// has no room, the oldest unacknowledged packets are released first.
    // In line it would cost a packet that is not kept a quarter more.
    #[inline(never)]
    pub fn keep<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        packet: Packet<F>,
        PacketInfo { len, count, needs_response }: PacketInfo,
    ) -> Packet<F> {
        if self.kept.end() != seq {
            self.clear(cx);
        }
        self.kept.skip_to(seq);
        if needs_response {
            self.awaited.push_back((seq, cx.now));
        }
        // R-ORDER-16
        while !cx.backup.take(len as usize) {
            cx.out.count(Metric::BackupFull, 1);
            if self.kept.is_empty() {
                self.kept.skip_to(seq + u64::from(count));
                return packet;
            }
            let oldest = self.kept.start();
            self.release(cx, oldest.next());
        }
        cx.out.count(Metric::CreatedHandle, 1);
        let (shared, handle) = match packet {
            Packet::Owned(frame) => frame.share_twice(),
            Packet::Shared(shared) => (shared.clone(), shared),
        };
        self.kept.push(Kept { handle, len });
        if count > 1 {
            self.kept.extend_to(seq + u64::from(count));
        }
        Packet::Shared(shared)
    }

    /// The destination has everything before `acked`.
    pub fn acknowledge<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, acked: Seq) {
        let mut newest = None;
        while let Some((seq, at)) = self.awaited.front().copied().filter(|(seq, _)| *seq < acked) {
            newest = Some((seq, at));
            self.awaited.pop_front();
        }
        let exact = newest.filter(|(seq, at)| seq.next() == acked && *at > Time::ZERO);
        let clock = cx.lan.clocks.get_mut(self.clock);
        if let Some((_, at)) = exact {
            clock.sample(at, cx.now);
            self.backoff = 0;
        }
        if self.retries > 0 {
            clock.answered(cx.now.since(self.touched));
            self.retries = 0;
        }
        self.wait = clock.t_out(cx.config) * (1 << self.backoff);
        self.touched = cx.now;
        self.release(cx, acked);
    }

    /// Whether `bytes`, which the source sends as `seq`, is the kept packet. If it is
    /// not, the queue pair may be in another incarnation, which must receive none of the
    /// kept packets (R-INC-11).
    pub fn is_same(&self, seq: Seq, bytes: &[u8]) -> bool {
        self.kept.get(seq).is_some_and(|kept| same_packet(kept.handle.bytes(), bytes))
    }

    /// Whether `bytes` is certainly another packet than the one that is kept as `seq`. A
    /// damaged one proves nothing (R-INC-10).
    pub fn is_another(&self, seq: Seq, bytes: &[u8]) -> bool {
        let kept = self.kept.get(seq).map(|kept| kept.handle.bytes());
        kept.is_some_and(|kept| !same_packet(kept, bytes) && is_intact(kept)) && is_intact(bytes)
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.kept.shrink();
        self.awaited.shrink_to(FEW);
    }

    /// Memory that the lists take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.kept.heap_bytes() + self.awaited.capacity() * size_of::<(Seq, Time)>()
    }

    /// Forgets everything.
    pub fn clear<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.awaited.clear();
        self.release(cx, self.kept.end());
    }

    fn release<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, floor: Seq) {
        self.kept.drain_before(floor, |_, Kept { handle, len }| {
            cx.backup.give(len as usize);
            cx.out.discard(Packet::Shared(handle), Metric::DropReleased);
        });
        // The further PSNs of a READ request are of no use without it.
        self.kept.skip_vacant();
    }

    /// The oldest packet at `seq` or beyond that is kept.
    pub fn first_from(&self, seq: Seq) -> Option<Seq> {
        self.kept.first_from(seq)
    }

    /// Bytes of packet `seq`, if it is kept.
    pub fn bytes_of(&self, seq: Seq) -> u64 {
        self.kept.get(seq).map_or(0, |kept| u64::from(kept.len))
    }

    /// Bytes of all that is kept before `end`.
    pub fn bytes_before(&self, end: Seq) -> u64 {
        let kept = self.kept.iter().take_while(|(seq, _)| *seq < end);
        kept.map(|(_, kept)| u64::from(kept.len)).sum()
    }

    /// Forgets the oldest packet; returns its number and bytes.
    pub fn release_oldest<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> Option<(Seq, u64)> {
        let seq = self.kept.start();
        let bytes = self.bytes_of(seq);
        if self.kept.is_empty() {
            return None;
        }
        cx.out.count(Metric::BackupFull, 1);
        self.release(cx, seq.next());
        Some((seq, bytes))
    }

    /// Whether the destination is to answer something before `end`.
    pub fn awaits_before(&self, end: Seq) -> bool {
        self.awaited.front().is_some_and(|(seq, _)| *seq < end)
    }

    /// Packets from `to` on were lost: responses to them no longer measure the round trip.
    pub fn doubt_responses(&mut self, to: Seq) {
        let first = self.awaited.partition_point(|(seq, _)| *seq < to);
        self.awaited.range_mut(first..).for_each(|(_, at)| *at = Time::ZERO);
    }

    /// Resends one packet; false if it isn't there or its copy is damaged.
    pub fn resend<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        why: Metric,
    ) -> bool {
        let Some(Kept { handle, .. }) = self.kept.get(seq) else { return false };
        if !is_intact(handle.bytes()) {
            return false;
        }
        cx.out.deliver(Packet::Shared(handle.clone()));
        cx.out.count(Metric::CreatedHandle, 1);
        cx.out.about(seq.psn(), 1, |out| out.count(why, 1));
        self.resent = self.resent.saturating_add(1);
        if let Ok(i) = self.awaited.binary_search_by_key(&seq, |(asked, _)| *asked) {
            // After a timeout the response may be to either packet. A NAK says that the first one is lost: a LAN
            // keeps packets in order.
            self.awaited[i].1 = if why == Metric::LocalNak { cx.now } else { Time::ZERO };
        }
        self.touched = cx.now;
        true
    }

    /// The destination is silent: resends the oldest packet, and the newest before `end` that
    /// asks for a response. A destination that has not sent a NAK for a gap between them sends
    /// it now. One that has is silent until the gap is filled: then the oldest packet brings an
    /// ACK up to the gap, and the next timeout fills it (R-NAK-18).
    fn ask_again<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, end: Seq) {
        let oldest = self.kept.start();
        let asking = self.awaited.partition_point(|(seq, _)| *seq < end);
        let newest = asking.checked_sub(1).and_then(|i| self.awaited.get(i));
        let asked = newest.map_or(oldest, |(seq, _)| *seq);
        self.touched = cx.now;
        self.resend(cx, oldest, Metric::LocalTimeout);
        if asked != oldest {
            self.resend(cx, asked, Metric::LocalTimeout);
        }
    }

    /// The clock of the destination's host.
    pub fn clock(&self) -> ClockId {
        self.clock
    }

    /// Whether the destination's host was looked up.
    #[inline]
    pub fn has_clock(&self) -> bool {
        self.clock != ClockId::NONE
    }

    /// Looks up the destination's host.
    pub fn find_clock<A: Actions<F>>(&mut self, cx: &Context<'_, A>) {
        if !self.has_clock() {
            self.clock = ClockId::of(&cx.out.destination());
            self.wait = self.patience(cx);
        }
    }

    /// Time that the destination is given to answer: that of its host, doubled by each resend
    /// until the response to a packet that was sent once tells how long responses take
    /// (RFC 6298, Karn's rule).
    fn patience<A>(&self, cx: &Context<'_, A>) -> Span {
        cx.lan.clocks.get(self.clock).t_out(cx.config) * (1 << self.backoff)
    }

    /// Whether the destination has been silent for too long since `since`, and its host may be asked
    /// now. If not, sets the time of the next look (R-LAN-7).
    pub fn may_ask<A>(&mut self, cx: &Context<'_, A>, since: Time) -> bool {
        let next = cx.lan.clocks.get(self.clock).next_question(since, cx.config);
        self.wait = self.patience(cx).max(next.since(since));
        cx.now >= since + self.wait
    }

    /// Takes one of the resends that are left.
    pub fn may_retry<A>(&mut self, cx: &mut Context<'_, A>) -> bool {
        let may = self.retries < cx.config.local_retries;
        if may {
            cx.lan.clocks.get_mut(self.clock).ask(cx.now, self.retries > 0);
            self.retries += 1;
            self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
            self.wait = self.patience(cx);
        }
        may
    }

    /// See the field.
    pub fn wait(&self) -> Span {
        self.wait
    }

    /// When the oldest packet that asks for a response was sent, or later: when the
    /// destination last acknowledged something.
    fn silent_since(&self) -> Option<Time> {
        self.awaited.front().map(|(_, at)| self.touched.max(*at))
    }

    /// When the oldest packet that asks for a response counts as lost.
    pub(crate) fn due(&self) -> Time {
        self.silent_since().map_or(Time::NEVER, |since| since + self.wait)
    }
}

/// Whether two frames carry the same packet: from the transport header's end
/// on. Before it, marks and the request for an ACK may differ.
pub(crate) fn same_packet(a: &[u8], b: &[u8]) -> bool {
    match (parse(a), parse(b)) {
        (Ok(x), Ok(y)) => {
            let from = usize::from(x.bth) + BTH_LEN;
            let end = x.icrc_at();
            x.opcode == y.opcode && (x.bth, x.end) == (y.bth, y.end) && a[from..end] == b[from..end]
        }
        _ => false,
    }
}

/// Whether a frame's ICRC is right.
fn is_intact(bytes: &[u8]) -> bool {
    parse(bytes).is_ok_and(|roce| icrc_ok(bytes, &roce))
}

/// Whether packets of this flow are not kept: one whose `src_qpn` is unknown can't match responses, and keeps none while
/// the pool is more than half full.
#[inline]
pub(crate) fn keeps_none<F: Frame, A: Actions<F>>(cx: &Context<'_, A>) -> bool {
    cx.out.src_qpn().is_none() && cx.backup.is_filled(UNPAIRED_PRESSURE)
}

impl<F: Frame> Flow<F> {
    /// Transmits packet `expected - 1`, and keeps a handle of it in the backup pool unless the flow
    /// [keeps none](keeps_none).
    #[inline(always)]
    pub(crate) fn transmit<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        packet: Packet<F>,
        info: PacketInfo,
    ) {
        if keeps_none(cx) {
            return cx.out.deliver(packet);
        }
        let needs_response = info.needs_response && cx.out.src_qpn().is_some();
        let info = PacketInfo { needs_response, ..info };
        let other = match packet {
            Packet::Owned(frame) if info.count == 1 => {
                let len = info.len as usize;
                match self.backup.keep_next(cx, seq, frame, len, needs_response) {
                    Ok(packet) => return cx.out.deliver(packet),
                    Err(frame) => Packet::Owned(frame),
                }
            }
            packet => packet,
        };
        let packet = self.backup.keep(cx, seq, other, info);
        cx.out.deliver(packet);
    }

    pub(crate) fn local_due(&self) -> Time {
        // No response is expected to a packet that is still to be resent.
        if self.awaits_ack() { self.backup.due() } else { Time::NEVER }
    }

    /// The destination has sent no response in time.
    pub(crate) fn on_silence<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let since = self.backup.silent_since().unwrap_or(cx.now);
        if !self.backup.may_ask(cx, since) {
            return;
        }
        let from = self.acked.unwrap_or(self.backup.kept.start());
        if !self.backup.holds_from(from) || !self.backup.may_retry(cx) {
            // From here on the source has to find out by itself.
            cx.out.count(Metric::LocalExhausted, 1);
            self.clear_backup(cx);
            return self.forward_nak(cx);
        }
        let end = self.resends().unwrap_or(self.sequence.next());
        self.backup.ask_again(cx, end);
    }
}
