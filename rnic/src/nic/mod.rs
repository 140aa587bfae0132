//! A port and its queue pairs.

mod qp;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use common::frame::{Frame, Pool};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Addr, NotRoce, Opcode, PacketKind, Roce, icrc_ok, parse};
use hashbrown::HashMap;

use self::qp::Qp;
use crate::config::{NicConfig, QpConfig, QpError};
use crate::pacer::Pacer;
use crate::requester::Response;
use crate::stats::{PortStats, QpStats};
use crate::timers::{Timer, Timers};
use crate::work::{Completion, PostError, QpId, Received, Status, WorkRequest};

/// A port with its queue pairs. The [crate documentation](crate) says how to
/// drive it.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
    ip: Addr,
    qps: Vec<Qp>,
    by_qpn: HashMap<u32, u32, foldhash::fast::RandomState>,
    /// QPs with a CNP to send, each once; served before all others.
    notifying: VecDeque<u32>,
    /// QPs with an ACK, NAK or answer to an atomic to send, each once; served
    /// in turn, before those with data.
    answering: VecDeque<u32>,
    /// QPs that may have a request or READ data to send, each once; served in
    /// turn.
    ready: VecDeque<u32>,
    /// QPs that are taken out of `ready` until their congestion control lets
    /// them send again.
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    timers: Timers,
    pacer: Pacer,
    completions: VecDeque<Completion>,
    received: VecDeque<Received>,
    stats: PortStats,
}

impl Nic {
    /// A port without QPs.
    pub fn new(config: NicConfig) -> Self {
        Self {
            ip: config.ip.into(),
            pacer: Pacer::new(config.rate, config.pacing_slack),
            config,
            qps: Vec::new(),
            by_qpn: HashMap::default(),
            notifying: VecDeque::new(),
            answering: VecDeque::new(),
            ready: VecDeque::new(),
            paced: BinaryHeap::new(),
            timers: Timers::default(),
            completions: VecDeque::new(),
            received: VecDeque::new(),
            stats: PortStats::default(),
        }
    }

    /// Sets up a connected QP.
    ///
    /// # Errors
    /// If a field of `config` is out of range or the QP number is in use.
    pub fn add_qp(&mut self, config: QpConfig) -> Result<QpId, QpError> {
        config.check(&self.config)?;
        let index = self.qps.len() as u32; // below 2^24, like QP numbers
        if self.by_qpn.contains_key(&config.local_qpn) {
            return Err(QpError::Duplicate(config.local_qpn));
        }
        self.by_qpn.insert(config.local_qpn, index);
        self.timers.add_qp();
        let qp = QpId(index);
        self.qps.push(Qp::new(qp, config, &self.config));
        Ok(qp)
    }

    /// Begins another incarnation of a QP with the same numbers: work requests that
    /// are pending are flushed, unfinished received messages are
    /// forgotten, answers are not sent any more, messages are counted from 0,
    /// the receive queue is full, the word that atomics work on 0, the rate
    /// that of the line. Messages have other content. Statistics go on. The peer
    /// has to do the same, with the PSNs the other way round.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn reset_qp(&mut self, qp: QpId, send_psn: Psn, recv_psn: Psn, now: Time) {
        let state = &mut self.qps[qp.index()];
        state.requester.fail(Status::Flushed, now, &mut self.completions);
        state.restart(qp, send_psn, recv_psn, &self.config);
    }

    /// Queues a message. Returns its number on this QP, counted from 0: its
    /// completion and, at the other end, its arrival carry the same. READs and
    /// atomics have a count of their own.
    ///
    /// # Errors
    /// If the QP has failed, or the message can't be sent on any QP.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        let index = self.qps[qp.index()].requester.post(work, now)?;
        self.make_ready(qp.0);
        Ok(index)
    }

    /// Work requests of `qp` that are posted and not completed.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn pending(&self, qp: QpId) -> usize {
        self.qps[qp.index()].requester.pending()
    }

    /// Gives the responder of `qp` buffers for `n` SENDs, as far as its
    /// [receive queue](crate::QpConfig::receive_queue) has room.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn post_receives(&mut self, qp: QpId, n: u32) {
        self.qps[qp.index()].responder.post_receives(n);
    }

    /// The value that the peer's atomics have left in the word at the beginning of our
    /// region.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn atomic_word(&self, qp: QpId) -> u64 {
        self.qps[qp.index()].responder.word()
    }

    /// The rate in bit/s that its congestion control allows `qp`; `None`: it has
    /// none.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn rate(&mut self, qp: QpId, now: Time) -> Option<u64> {
        self.qps[qp.index()].congestion.as_mut().map(|congestion| congestion.rate(now))
    }

    /// Whether `qp` has failed, as requester or as responder.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn has_failed(&self, qp: QpId) -> bool {
        self.qps[qp.index()].has_failed()
    }

    /// A frame has arrived. One that is not for a QP of this NIC, or that is
    /// damaged, is dropped and counted, as RNICs do.
    pub fn receive(&mut self, frame: &[u8], now: Time) {
        self.stats.frames_in += 1;
        self.stats.bytes_in += frame.len() as u64;
        match self.find_qp(frame) {
            Ok((index, roce)) => self.deliver(index, &roce, frame, now),
            Err(dropped) => *dropped(&mut self.stats) += 1,
        }
    }

    /// The QP that a frame is for, or the counter of why there is none.
    fn find_qp(&self, frame: &[u8]) -> Result<(u32, Roce), Counter> {
        let roce = match parse(frame) {
            Ok(roce) => roce,
            Err(NotRoce::Other | NotRoce::MacControl) => return Err(|stats| &mut stats.not_roce),
            Err(NotRoce::Malformed(_)) => return Err(|stats| &mut stats.malformed),
        };
        if !frame.starts_with(&self.config.mac) {
            return Err(|stats| &mut stats.not_ours);
        }
        let Some(&index) = self.by_qpn.get(&roce.dest_qpn) else {
            return Err(match roce.dst == self.ip {
                true => |stats| &mut stats.unknown_qp,
                false => |stats| &mut stats.not_ours,
            });
        };
        let qp = &self.qps[index as usize];
        if roce.dst != qp.local || roce.src != qp.remote || roce.vlans != qp.config.vlans {
            return Err(|stats| &mut stats.not_ours);
        }
        if roce.opcode.kind() == PacketKind::Other && roce.opcode != Opcode::CNP {
            return Err(|stats| &mut stats.unknown_opcode);
        }
        if !icrc_ok(frame, &roce) {
            return Err(|stats| &mut stats.bad_icrc);
        }
        if qp.has_failed() {
            return Err(|stats| &mut stats.qp_in_error);
        }
        Ok((index, roce))
    }

    fn deliver(&mut self, index: u32, roce: &Roce, frame: &[u8], now: Time) {
        let qp = &mut self.qps[index as usize];
        let kind = roce.opcode.kind();
        if qp.on_mark(roce, now) {
            self.notifying.push_back(index);
        }
        if roce.opcode == Opcode::CNP {
            qp.on_cnp(now);
        } else if kind.is_response() {
            let response = Response::of(kind, roce, frame);
            qp.requester.on_response(response, roce.psn, now, &mut self.completions);
            self.after_requester(index);
        } else {
            qp.responder.on_request(kind, roce, frame, now, &mut self.received);
            if qp.responder.has_failed() {
                qp.requester.fail(Status::Flushed, now, &mut self.completions);
            }
            self.after_responder(index);
        }
    }

    /// Looks at all timers that are due.
    pub fn on_timers(&mut self, now: Time) {
        while let Some((index, timer)) = self.timers.pop(now) {
            let qp = &mut self.qps[index as usize];
            match timer {
                Timer::Retransmit => {
                    qp.requester.on_timer(now, &mut self.completions);
                    self.after_requester(index);
                }
                Timer::Ack => {
                    qp.responder.on_timer(now);
                    self.after_responder(index);
                }
            }
        }
    }

    /// When [`on_timers`](Self::on_timers) and
    /// [`poll_transmit`](Self::poll_transmit) have to be called next, if
    /// nothing else happens before. A time that has come already means: now.
    /// It may turn out that there was nothing to do.
    pub fn next_deadline(&self) -> Option<Time> {
        let free_at = self.pacer.free_at();
        let waiting = [&self.notifying, &self.answering, &self.ready];
        let port = waiting.iter().any(|qps| !qps.is_empty()).then_some(free_at);
        let paced = self.paced.peek().map(|Reverse((until, _))| free_at.max(*until));
        [port, paced, self.timers.next()].into_iter().flatten().min()
    }

    /// The port has been told by priority flow control to stop, or to go on
    /// (IEEE 802.1Qbb). While it is stopped nothing leaves; timers go on.
    pub fn set_paused(&mut self, paused: bool) {
        self.pacer.set_paused(paused);
    }

    /// The next frame, if one may leave now: CNPs first, then ACKs, NAKs and
    /// answers to atomics, then the QPs in turn, a request or a packet of READ
    /// data each; a QP with both takes them by turns, and one that its
    /// congestion control holds back is left out. Answers of one QP leave in the order
    /// they were decided on, so an ACK may have to wait for READ data. `None`
    /// also if `pool` has none to give; then everything stays as it is.
    pub fn poll_transmit<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<P::Frame> {
        if !self.pacer.is_free(now) {
            return None;
        }
        let frame = match self.transmit_cnp(pool) {
            Some(frame) => frame,
            None => match self.transmit_answer(now, pool) {
                Some(frame) => frame,
                None => self.transmit_data(now, pool)?,
            },
        };
        let Some(frame) = frame else {
            self.stats.no_frame += 1;
            return None;
        };
        let len = frame.bytes().len();
        self.stats.frames_out += 1;
        self.stats.bytes_out += len as u64;
        self.pacer.sent(len, now);
        Some(frame)
    }

    /// The next CNP. `None`: there is none; `Some(None)`: there is no frame for
    /// it.
    fn transmit_cnp<P: Pool>(&mut self, pool: &mut P) -> Option<Option<P::Frame>> {
        loop {
            let qp = &mut self.qps[*self.notifying.front()? as usize];
            let due = qp.cnp_due();
            let frame = if due { qp.emit_cnp(pool) } else { None };
            if due && frame.is_none() {
                return Some(None);
            }
            self.notifying.pop_front();
            // Otherwise it was due before a reset.
            if frame.is_some() {
                return Some(frame);
            }
        }
    }

    /// The next ACK, NAK or answer to an atomic. `None`: there is none;
    /// `Some(None)`: there is no frame for it.
    fn transmit_answer<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<Option<P::Frame>> {
        loop {
            let index = *self.answering.front()?;
            let qp = &mut self.qps[index as usize];
            let frame = match qp.responder.data_waits() {
                Some(false) => {
                    let Some(frame) = qp.emit_answer(now, pool) else { return Some(None) };
                    Some(frame)
                }
                // Answered before a reset.
                _ => None,
            };
            self.answering.pop_front();
            if qp.responder.data_waits() == Some(false) {
                self.answering.push_back(index);
            } else {
                qp.answering = false;
                self.make_ready(index);
            }
            if frame.is_some() {
                return Some(frame);
            }
        }
    }

    /// The next request or packet of READ data. `None`: there is none;
    /// `Some(None)`: there is no frame for it.
    fn transmit_data<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<Option<P::Frame>> {
        while let Some(&Reverse((until, index))) = self.paced.peek()
            && until <= now
        {
            self.paced.pop();
            self.ready.push_back(index);
        }
        loop {
            let index = *self.ready.front()?;
            let qp = &mut self.qps[index as usize];
            let request = qp.requester.next_packet();
            let data = qp.responder.data_waits() == Some(true);
            if let Some(until) = qp.paced_until()
                && until > now
                && (data || request.is_some())
            {
                self.ready.pop_front();
                self.paced.push(Reverse((until, index)));
                continue;
            }
            let frame = match request {
                Some(request) if !data || qp.data_last => qp.emit_request(&request, now, pool),
                _ if data => qp.emit_answer(now, pool),
                _ => {
                    qp.ready = false;
                    self.ready.pop_front();
                    continue;
                }
            };
            if frame.is_none() {
                return Some(None);
            }
            self.ready.rotate_left(1);
            if let Some(deadline) = qp.requester.deadline() {
                self.timers.arm(index, Timer::Retransmit, deadline);
            }
            self.make_answering(index);
            return Some(frame);
        }
    }

    /// The next work request that has ended, in the order they ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next message that has arrived completely, in the order of arrival.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// Counters of the port.
    pub fn port_stats(&self) -> &PortStats {
        &self.stats
    }

    /// Counters of a QP, over all its incarnations.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn stats(&self, qp: QpId) -> QpStats {
        self.qps[qp.index()].stats()
    }

    /// Counters of all QPs, added up.
    pub fn totals(&self) -> QpStats {
        let mut totals = QpStats::default();
        for qp in &self.qps {
            totals += &qp.stats();
        }
        totals
    }

    fn after_requester(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        // A responder that has failed by itself still has to say so.
        if qp.requester.has_failed() && !qp.responder.has_failed() {
            qp.responder.fail();
        }
        if let Some(deadline) = qp.requester.deadline() {
            self.timers.arm(index, Timer::Retransmit, deadline);
        }
        self.make_ready(index);
    }

    fn after_responder(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        self.stats.responses_dropped += core::mem::take(&mut qp.responder.dropped);
        if let Some(deadline) = qp.responder.deadline() {
            self.timers.arm(index, Timer::Ack, deadline);
        }
        self.make_answering(index);
        self.make_ready(index);
    }

    /// Lets a QP answer, if it has to before others send data.
    fn make_answering(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        if !qp.answering && qp.responder.data_waits() == Some(false) {
            qp.answering = true;
            self.answering.push_back(index);
        }
    }

    /// Lets a QP take part, if it has requests or READ data to send.
    fn make_ready(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        if !qp.ready && qp.has_data() {
            qp.ready = true;
            self.ready.push_back(index);
        }
    }
}

/// One of the counters of a port.
type Counter = fn(&mut PortStats) -> &mut u64;
