//! The backup pool: what was delivered and the destination has not
//! acknowledged, and when it is resent.

use std::collections::VecDeque;

use common::frame::{Frame, Kept, Packet, Shared};
use common::metrics::Metric;
use common::psn::Seq;
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::window::{FEW, Window};
use common::wire::{BTH_LEN, parse};

use crate::sequence::Held;
use crate::{Actions, Config, Cx, Flow};

/// Round trip to the destination until one was measured.
const DOWNSTREAM_RTT: Span = Span::from_millis(1);
/// Shortest derived `t_out`: RNICs coalesce ACKs.
const T_OUT_MIN: Span = Span::from_micros(500);

/// Percent of the pool that flows with unknown requester may fill.
const UNPAIRED_PRESSURE: u8 = 50;

/// Why packets are resent to the destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Local {
    /// It sent a NAK.
    Nak,
    /// It did not answer in time.
    Timeout,
}

/// The newest packets that were delivered, without a hole, up to `expected`.
#[repr(C)]
pub(crate) struct Backup<F: Frame> {
    /// The places of a READ request but the first are vacant.
    kept: Window<Kept<F::Shared>>,
    /// Delivered packets that the destination has yet to answer, oldest first,
    /// with the time of their delivery.
    asks: VecDeque<(Seq, Time)>,
    /// When the destination last acknowledged something new, or packets were
    /// last resent.
    touched: Time,
    /// Resends because of a timeout since the destination acknowledged
    /// something.
    retries: u32,
    rtt: Rtt,
}

impl<F: Frame> Backup<F> {
    /// Memory of one PSN, in bytes.
    pub const SLOT: usize = size_of::<Kept<F::Shared>>();
    /// One past what a packet touches that asks for no answer.
    pub const KEPT: usize = size_of::<Window<Kept<F::Shared>>>();

    pub fn new(next: Seq) -> Self {
        Self {
            kept: Window::new(next),
            asks: VecDeque::new(),
            touched: Time::ZERO,
            retries: 0,
            rtt: Rtt::guess(DOWNSTREAM_RTT),
        }
    }

    /// Whether `seq` and all that was delivered after it can be resent.
    pub fn holds_from(&self, seq: Seq) -> bool {
        self.kept.get(seq).is_some()
    }

    /// The oldest packet that can be resent, or the next to be delivered if none can.
    pub fn oldest(&self) -> Seq {
        self.kept.start()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether the destination is to answer something.
    pub fn awaits_answer(&self) -> bool {
        !self.asks.is_empty()
    }

    /// The packet with the number `seq`, as if it had come at `at` and were yet
    /// to be delivered.
    pub fn copy(&self, seq: Seq, at: Time) -> Option<Held<F>> {
        let Kept { handle, len } = self.kept.get(seq)?;
        let end = self.kept.first_from(seq.next()).unwrap_or(self.kept.end());
        let count = end.since(seq) as u32;
        let asks = self.asks.binary_search_by_key(&seq, |(asked, _)| *asked).is_ok();
        Some(Held { packet: Packet::Shared(handle.clone()), len: *len, count, asks, at })
    }

    /// Whether `seq` is a request that an ACK answers, rather than a READ or an
    /// atomic; `None` if it is not held.
    pub fn is_plain(&self, seq: Seq) -> Option<bool> {
        // The further PSNs of a READ have no handle.
        let (at, Kept { handle, .. }) =
            self.kept.last_to(seq).filter(|_| seq >= self.kept.start() && seq < self.kept.end())?;
        Some(at == seq && parse(handle.bytes()).is_ok_and(|roce| roce.kind().is_plain()))
    }

    /// Keeps a packet that is being delivered, and says what to transmit. What
    /// the destination hasn't acknowledged and the pool has no room for is
    /// forgotten, oldest first.
    pub fn keep<A: Actions<F>>(
        &mut self,
        cx: &mut Cx<'_, A>,
        seq: Seq,
        count: u32,
        asks: bool,
        packet: Packet<F>,
        len: u32,
    ) -> Packet<F> {
        if self.kept.end() != seq {
            self.clear(cx);
        }
        self.kept.skip_to(seq);
        if asks {
            self.asks.push_back((seq, cx.now));
        }
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
        let shared = match packet {
            Packet::Owned(frame) => frame.share(),
            Packet::Shared(shared) => shared,
        };
        self.kept.push(Kept { handle: shared.clone(), len });
        if count > 1 {
            self.kept.extend_to(seq + u64::from(count));
        }
        Packet::Shared(shared)
    }

    /// The destination has everything before `acked`.
    pub fn acknowledge<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, acked: Seq) {
        let mut answered = None;
        while let Some((seq, at)) = self.asks.front().copied().filter(|(seq, _)| *seq < acked) {
            answered = Some((seq, at));
            self.asks.pop_front();
        }
        // An answer after a resend may be to either copy; to take it for one to
        // the first errs on the side of patience.
        if let Some((seq, at)) = answered
            && seq.next() == acked
        {
            let limit = self.t_out(cx.config) * 4;
            self.rtt.sample(cx.now.since(at).min(limit));
        }
        self.touched = cx.now;
        self.retries = 0;
        self.release(cx, acked);
    }

    /// The source sends `seq` again, which was delivered. If it is not the very
    /// same packet, the queue pair may be in another life, and nothing of what
    /// is kept may be delivered to that†.
    pub fn doubt<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, seq: Seq, bytes: &[u8]) {
        let kept = self.kept.get(seq);
        let is_same = kept.is_some_and(|kept| same_packet(kept.handle.bytes(), bytes));
        if !is_same {
            self.clear(cx);
        }
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.kept.shrink();
        self.asks.shrink_to(FEW);
    }

    /// Memory that the lists take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.kept.heap_bytes() + self.asks.capacity() * size_of::<(Seq, Time)>()
    }

    /// Forgets everything.
    pub fn clear<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        self.asks.clear();
        self.release(cx, self.kept.end());
    }

    fn release<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, floor: Seq) {
        while let Some((_, Kept { handle, len })) = self.kept.pop_before(floor) {
            cx.backup.give(len as usize);
            cx.out.discard(Packet::Shared(handle), Metric::DropReleased);
        }
        // The further PSNs of a READ request are of no use without it.
        self.kept.skip_vacant();
    }

    /// Sends `from ..= to` to the destination again, in order.
    pub fn resend<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, from: Seq, to: Seq, why: Local) {
        let mut n = 0;
        let mut seq = from;
        while let Some(at) = self.kept.first_from(seq).filter(|at| *at <= to)
            && let Some(Kept { handle, .. }) = self.kept.get(at)
        {
            n += 1;
            cx.out.deliver(Packet::Shared(handle.clone()));
            seq = at.next();
        }
        cx.out.count(Metric::CreatedHandle, n);
        cx.out.count(if why == Local::Nak { Metric::LocalNak } else { Metric::LocalTimeout }, n);
        self.touched = cx.now;
    }

    /// Time that the destination is given to answer.
    pub fn t_out(&self, config: &Config) -> Span {
        config.t_out.unwrap_or_else(|| (self.rtt.with_margin() * 2).max(T_OUT_MIN))
    }

    /// Takes one of the resends that are left.
    pub fn may_retry(&mut self, config: &Config) -> bool {
        let may = self.retries < u32::from(config.local_retries);
        self.retries += u32::from(may);
        may
    }

    /// Time until the next resend: doubled by each that brought no answer.
    pub fn patience(&self, config: &Config) -> Span {
        self.t_out(config) * (1 << self.retries.min(8))
    }

    /// When the oldest packet that asks for an answer counts as lost.
    fn due(&self, config: &Config) -> Time {
        let Some((_, at)) = self.asks.front() else { return Time::NEVER };
        self.touched.max(*at) + self.patience(config)
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

impl<F: Frame> Flow<F> {
    /// Delivers the packet with the number `expected` was before, keeping a
    /// handle. While the destination's answers to this flow can't be told, a
    /// pool that is half full is left to those that can make use of it.
    pub(crate) fn hand_over<A: Actions<F>>(
        &mut self,
        cx: &mut Cx<'_, A>,
        seq: Seq,
        count: u32,
        asks: bool,
        packet: Packet<F>,
        len: u32,
    ) {
        let packet = if cx.out.requester().is_some() {
            self.backup.keep(cx, seq, count, asks, packet, len)
        } else if !cx.backup.is_filled(UNPAIRED_PRESSURE) {
            self.backup.keep(cx, seq, count, false, packet, len)
        } else {
            packet
        };
        cx.out.deliver(packet);
    }

    pub(crate) fn local_due(&self, config: &Config) -> Time {
        self.backup.due(config)
    }

    /// The destination hasn't answered in time: all that it has not
    /// acknowledged, up to and including the packet that asked, goes again, in
    /// order†.
    pub(crate) fn resend_unanswered<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        let Some((asked, _)) = self.backup.asks.front().copied() else { return };
        let from = self.acked.unwrap_or(self.backup.kept.start());
        if !self.backup.holds_from(from) || !self.backup.may_retry(cx.config) {
            // From here on the source has to find out by itself.
            cx.out.count(Metric::LocalExhausted, 1);
            self.backup.clear(cx);
            return self.forward_nak(cx, Metric::NakAfterGiveUp);
        }
        self.backup.resend(cx, from, asked, Local::Timeout);
    }
}
