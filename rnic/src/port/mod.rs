//! A port and its queue pairs, whichever protocol these have.

mod qp;
mod transport;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use common::frame::{Frame, Pool};
use common::time::Time;
use common::wire::{Addr, NotRoce, Opcode, Qpn, Response, Roce, Verdict, icrc_ok, parse};
use hashbrown::HashMap;

use self::qp::Qp;
pub use self::transport::{Events, Transport};
use crate::config::{NicConfig, QpConfig, QpError};
use crate::pacer::Pacer;
use crate::stats::PortStats;
use crate::timers::{Timer, Timers};
use crate::work::{Completion, PostError, QpId, Received, WorkRequest};

/// A port with its queue pairs, all with the protocol `T`. The
/// [crate documentation](crate) says how to drive it.
#[derive(Debug)]
pub struct Port<T> {
    config: NicConfig,
    ip: Addr,
    qps: Vec<Qp<T>>,
    by_qpn: HashMap<Qpn, u32, foldhash::fast::RandomState>,
    /// QPs with a CNP to send, each once; served before all others.
    notifying: VecDeque<u32>,
    /// QPs with an ACK to send, each once; served in turn, before those with
    /// data.
    acking: VecDeque<u32>,
    /// QPs that may have data to send, each once; served in turn.
    ready: VecDeque<u32>,
    /// QPs that are taken out of `ready` until their congestion control lets
    /// them send again.
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    timers: Timers,
    pacer: Pacer,
    events: Events,
    stats: PortStats,
}

impl<T: Transport> Port<T> {
    /// A port without QPs.
    pub fn new(config: NicConfig) -> Self {
        Self {
            ip: config.ip.into(),
            pacer: Pacer::new(config.rate, config.pacing_slack),
            config,
            qps: Vec::new(),
            by_qpn: HashMap::default(),
            notifying: VecDeque::new(),
            acking: VecDeque::new(),
            ready: VecDeque::new(),
            paced: BinaryHeap::new(),
            timers: Timers::default(),
            events: Events::default(),
            stats: PortStats::default(),
        }
    }

    /// Sets up a connected QP with the protocol state that `transport` makes.
    ///
    /// # Errors
    /// If a field of `config` is out of range or the QP number is in use.
    pub fn add(
        &mut self,
        config: QpConfig,
        transport: impl FnOnce(QpId, &QpConfig) -> T,
    ) -> Result<QpId, QpError> {
        config.check(&self.config)?;
        let index = self.qps.len() as u32; // below 2^24, like QP numbers
        if self.by_qpn.contains_key(&config.local_qpn) {
            return Err(QpError::Duplicate(config.local_qpn));
        }
        self.by_qpn.insert(config.local_qpn, index);
        self.timers.add_qp();
        let qp = QpId(index);
        let transport = transport(qp, &config);
        self.qps.push(Qp::new(transport, config, &self.config));
        Ok(qp)
    }

    /// Begins another incarnation of `qp`, with other numbers in its
    /// configuration: `restart` makes its protocol state. The rate is that of
    /// the line.
    pub(crate) fn restart(
        &mut self,
        qp: QpId,
        restart: impl FnOnce(&mut T, &mut QpConfig, &mut Events),
    ) {
        let state = &mut self.qps[qp.index()];
        restart(&mut state.transport, &mut state.config, &mut self.events);
        state.reset_congestion(&self.config);
    }

    /// The protocol state of `qp`.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn transport(&self, qp: QpId) -> &T {
        &self.qps[qp.index()].transport
    }

    /// As [`transport`](Self::transport), for a change after which the queue
    /// pair has nothing more to send than before.
    pub(crate) fn transport_mut(&mut self, qp: QpId) -> &mut T {
        &mut self.qps[qp.index()].transport
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
        let index = self.qps[qp.index()].transport.post(work, now)?;
        self.after(qp.0);
        Ok(index)
    }

    /// Work requests of `qp` that are posted and not completed.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn pending(&self, qp: QpId) -> usize {
        self.transport(qp).pending()
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
        self.transport(qp).has_failed()
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
        if !T::takes(roce.kind()) && roce.opcode != Opcode::CNP {
            return Err(|stats| &mut stats.unknown_opcode);
        }
        if !icrc_ok(frame, &roce) {
            return Err(|stats| &mut stats.bad_icrc);
        }
        if qp.transport.has_failed() {
            return Err(|stats| &mut stats.qp_in_error);
        }
        Ok((index, roce))
    }

    fn deliver(&mut self, index: u32, roce: &Roce, frame: &[u8], now: Time) {
        let qp = &mut self.qps[index as usize];
        if qp.on_mark(roce, now) {
            self.notifying.push_back(index);
        }
        if roce.opcode == Opcode::CNP {
            qp.on_cnp(now);
        } else {
            if qp.config.cnp_with_nak && is_nak(roce, frame) {
                qp.on_cnp(now);
            }
            qp.transport.on_packet(roce, frame, now, &mut self.events);
            self.after(index);
        }
    }

    /// Looks at all timers that are due.
    pub fn on_timers(&mut self, now: Time) {
        while let Some((index, timer)) = self.timers.pop(now) {
            self.qps[index as usize].transport.on_timer(timer, now, &mut self.events);
            self.after(index);
        }
    }

    /// When [`on_timers`](Self::on_timers) and
    /// [`poll_transmit`](Self::poll_transmit) have to be called next, if
    /// nothing else happens before. A time that has come already means: now.
    /// It may turn out that there was nothing to do.
    pub fn next_deadline(&self) -> Option<Time> {
        let free_at = self.pacer.free_at();
        let waiting = [&self.notifying, &self.acking, &self.ready];
        let port = waiting.iter().any(|qps| !qps.is_empty()).then_some(free_at);
        let paced = self.paced.peek().map(|Reverse((until, _))| free_at.max(*until));
        [port, paced, self.timers.next()].into_iter().flatten().min()
    }

    /// Priority flow control (IEEE 802.1Qbb) pauses or resumes the port. A paused port
    /// transmits nothing; its timers run.
    pub fn set_paused(&mut self, paused: bool) {
        self.pacer.set_paused(paused);
    }

    /// The next frame, if one may leave now: CNPs first, then ACKs, then the
    /// data of the QPs in turn, a packet each; a QP that its congestion control
    /// holds back is left out. `None` also if `pool` has none to give; then
    /// everything stays as it is.
    pub fn poll_transmit<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<P::Frame> {
        if !self.pacer.is_free(now) {
            return None;
        }
        let frame = match self.transmit_cnp(pool).or_else(|| self.transmit_ack(pool)) {
            Some(frame) => frame,
            None => self.transmit_data(now, pool)?,
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

    /// The next ACK. `None`: there is none; `Some(None)`: there is no frame
    /// for it.
    fn transmit_ack<P: Pool>(&mut self, pool: &mut P) -> Option<Option<P::Frame>> {
        loop {
            let index = *self.acking.front()?;
            let qp = &mut self.qps[index as usize];
            let packet = qp.transport.next_ack();
            let frame = packet.as_ref().and_then(|packet| qp.emit_ack(packet, pool));
            if packet.is_some() && frame.is_none() {
                return Some(None);
            }
            self.acking.pop_front();
            qp.acking = false;
            self.after(index);
            // Otherwise a reset or failure has cleared it.
            if frame.is_some() {
                return Some(frame);
            }
        }
    }

    /// The next data packet. `None`: there is none; `Some(None)`: there is no
    /// frame for it.
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
            let Some(packet) = qp.transport.next_data() else {
                qp.ready = false;
                self.ready.pop_front();
                continue;
            };
            if let Some(until) = qp.paced_until()
                && until > now
            {
                self.ready.pop_front();
                self.paced.push(Reverse((until, index)));
                continue;
            }
            let frame = qp.emit_data(&packet, now, pool);
            if frame.is_some() {
                self.ready.rotate_left(1);
                self.after(index);
            }
            return Some(frame);
        }
    }

    /// The next work request that has ended, in the order they ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.events.completions.pop_front()
    }

    /// The next message that has arrived completely, in the order of arrival.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.events.received.pop_front()
    }

    /// Counters of the port.
    pub fn port_stats(&self) -> &PortStats {
        &self.stats
    }

    /// Counters of a QP, over all its incarnations.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn stats(&self, qp: QpId) -> T::Stats {
        self.transport(qp).stats()
    }

    /// Counters of all QPs, added up.
    pub fn totals(&self) -> T::Stats {
        let mut totals = T::Stats::default();
        for qp in &self.qps {
            totals += &qp.transport.stats();
        }
        totals
    }

    /// Arms the timers of a QP that something has happened to, and queues it for
    /// the port.
    fn after(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        for timer in Timer::ALL {
            if let Some(deadline) = qp.transport.deadline(timer) {
                self.timers.arm(index, timer, deadline);
            }
        }
        if !qp.acking && qp.transport.next_ack().is_some() {
            qp.acking = true;
            self.acking.push_back(index);
        }
        if !qp.ready && qp.transport.next_data().is_some() {
            qp.ready = true;
            self.ready.push_back(index);
        }
    }
}

/// One of the counters of a port.
type Counter = fn(&mut PortStats) -> &mut u64;

/// Whether the responder reports a missing packet.
fn is_nak(roce: &Roce, frame: &[u8]) -> bool {
    Response::of(roce, frame).is_some_and(|response| response.verdict == Verdict::Missing)
}
