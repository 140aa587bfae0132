//! A port whose queue pairs have IRN.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use common::frame::{Frame, Pool};
use common::time::Time;
use common::wire::{
    Addr, DEFAULT_TTL, Headers, NotRoce, Opcode, PacketKind, Position, Roce, icrc_ok, parse,
};
use hashbrown::HashMap;
use rnic::parts::{Congestion, Pacer, Timer, Timers};
use rnic::{
    Completion, NicConfig, PortStats, PostError, QpConfig, QpError, QpId, Received, WorkKind,
    WorkRequest,
};

use super::config::Irn;
use super::receiver::Receiver;
use super::sender::Sender;
use super::stats::IrnStats;

/// The ECN bits of a packet that was marked.
const CONGESTION_EXPERIENCED: u8 = 3;

#[derive(Debug)]
struct Qp {
    config: QpConfig,
    remote: Addr,
    headers: Headers,
    sender: Sender,
    receiver: Receiver,
    congestion: Option<Congestion>,
    /// Whether it is in `IrnNic::ready` or `IrnNic::paced`.
    ready: bool,
    /// Whether it is in `IrnNic::answering`.
    answering: bool,
}

/// A port with its queue pairs, to be driven like [`rnic::Nic`]. Its differences
/// from RNICs are in the [module's documentation](super).
#[derive(Debug)]
pub struct IrnNic {
    config: NicConfig,
    ip: Addr,
    qps: Vec<Qp>,
    by_qpn: HashMap<u32, u32, foldhash::fast::RandomState>,
    /// QPs with a CNP to send.
    notifying: VecDeque<u32>,
    /// QPs with an ACK or NACK to send; before those with data.
    answering: VecDeque<u32>,
    /// QPs that may have a data packet to send, in turn.
    ready: VecDeque<u32>,
    /// QPs that their congestion control holds back, and until when.
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    timers: Timers,
    pacer: Pacer,
    completions: VecDeque<Completion>,
    received: VecDeque<Received>,
    stats: PortStats,
}

impl IrnNic {
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

    /// Sets up a connected QP. Of `config` these count: QP numbers, addresses,
    /// VLANs, UDP source port, ToS, PSNs, PMTU, `ack_req_every`,
    /// `remote_region`, `dcqcn` and `content_seed`.
    ///
    /// # Errors
    /// If a field of `config` or `irn` is out of range or the QP number is in
    /// use.
    pub fn add_qp(&mut self, config: QpConfig, irn: Irn) -> Result<QpId, QpError> {
        config.check(&self.config)?;
        irn.check()?;
        if self.by_qpn.contains_key(&config.local_qpn) {
            return Err(QpError::Duplicate(config.local_qpn));
        }
        let index = self.qps.len() as u32; // below 2^24, like QP numbers
        let qp = QpId::new(index);
        self.by_qpn.insert(config.local_qpn, index);
        self.timers.add_qp();
        let dcqcn = config.dcqcn.zip(self.config.rate);
        self.qps.push(Qp {
            remote: config.remote_ip.into(),
            headers: Headers::new(
                self.config.mac,
                config.remote_mac,
                config.vlans,
                self.config.ip,
                config.remote_ip,
                config.udp_src_port,
                config.tos,
                DEFAULT_TTL,
            ),
            sender: Sender::new(qp, &config, irn),
            receiver: Receiver::new(qp, &config, irn),
            congestion: dcqcn
                .map(|(dcqcn, rate)| Congestion::new(dcqcn, rate, self.config.pacing_slack)),
            ready: false,
            answering: false,
            config,
        });
        Ok(qp)
    }

    /// Queues a message. Returns its number on this QP, counted from 0.
    ///
    /// # Errors
    /// If it is neither SEND nor WRITE, or too long.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        let index = self.qps[qp.index()].sender.post(work, now)?;
        self.make_ready(qp.index() as u32);
        Ok(index)
    }

    /// Work requests of `qp` that are posted and not completed.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn pending(&self, qp: QpId) -> usize {
        self.qps[qp.index()].sender.pending()
    }

    /// Packets of `qp` from the oldest that is not acknowledged to the newest
    /// that was sent.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn in_flight(&self, qp: QpId) -> u64 {
        self.qps[qp.index()].sender.in_flight()
    }

    /// A frame has arrived. One that is not for a QP of this NIC, or that is
    /// damaged, is dropped and counted.
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
        if !frame.starts_with(&self.config.mac) || roce.dst != self.ip {
            return Err(|stats| &mut stats.not_ours);
        }
        let Some(&index) = self.by_qpn.get(&roce.dest_qpn) else {
            return Err(|stats| &mut stats.unknown_qp);
        };
        let qp = &self.qps[index as usize];
        if roce.src != qp.remote || roce.vlans != qp.config.vlans {
            return Err(|stats| &mut stats.not_ours);
        }
        let known = roce.kind().is_plain() || roce.kind() == PacketKind::Ack;
        if !known && roce.opcode != Opcode::CNP {
            return Err(|stats| &mut stats.unknown_opcode);
        }
        if !icrc_ok(frame, &roce) {
            return Err(|stats| &mut stats.bad_icrc);
        }
        Ok((index, roce))
    }

    fn deliver(&mut self, index: u32, roce: &Roce, frame: &[u8], now: Time) {
        match roce.kind() {
            PacketKind::Send(position) => {
                self.data(index, WorkKind::Send, position, roce, frame, now)
            }
            PacketKind::Write(position) => {
                self.data(index, WorkKind::Write, position, roce, frame, now)
            }
            PacketKind::Ack => self.answer(index, roce, frame, now),
            _ => {
                let qp = &mut self.qps[index as usize];
                qp.sender.stats.cnps += 1;
                if let Some(congestion) = &mut qp.congestion {
                    congestion.on_cnp(now);
                }
            }
        }
    }

    fn data(
        &mut self,
        index: u32,
        kind: WorkKind,
        position: Position,
        roce: &Roce,
        frame: &[u8],
        now: Time,
    ) {
        let qp = &mut self.qps[index as usize];
        if roce.ecn == CONGESTION_EXPERIENCED
            && qp.congestion.as_mut().is_some_and(|congestion| congestion.on_mark(now))
        {
            self.notifying.push_back(index);
        }
        qp.receiver.on_packet(kind, position, roce, frame, now, &mut self.received);
        if !qp.answering && qp.receiver.next_packet().is_some() {
            qp.answering = true;
            self.answering.push_back(index);
        }
    }

    fn answer(&mut self, index: u32, roce: &Roce, frame: &[u8], now: Time) {
        let qp = &mut self.qps[index as usize];
        if let Some(aeth) = roce.aeth(frame) {
            qp.sender.on_response(roce.psn, aeth, now, &mut self.completions);
        }
        self.after_sender(index);
    }

    /// Looks at all timers that are due.
    pub fn on_timers(&mut self, now: Time) {
        while let Some((index, _)) = self.timers.pop(now) {
            self.qps[index as usize].sender.on_timer(now);
            self.after_sender(index);
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

    /// As [`rnic::Nic::set_paused`].
    pub fn set_paused(&mut self, paused: bool) {
        self.pacer.set_paused(paused);
    }

    /// The next frame, if one may leave now: CNPs first, then ACKs and NACKs,
    /// then the QPs in turn. `None` also if `pool` has none to give; then
    /// everything stays as it is.
    pub fn poll_transmit<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<P::Frame> {
        if !self.pacer.is_free(now) {
            return None;
        }
        let frame = if !self.notifying.is_empty() {
            self.transmit_cnp(pool)
        } else if !self.answering.is_empty() {
            self.transmit_answer(pool)
        } else {
            self.transmit_data(now, pool)?
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

    fn transmit_cnp<P: Pool>(&mut self, pool: &mut P) -> Option<P::Frame> {
        let qp = &mut self.qps[*self.notifying.front()? as usize];
        let congestion = qp.congestion.as_mut()?;
        let frame = congestion.emit_cnp(&mut qp.headers, qp.config.remote_qpn, pool)?;
        qp.receiver.stats.cnps_sent += 1;
        self.notifying.pop_front();
        Some(frame)
    }

    fn transmit_answer<P: Pool>(&mut self, pool: &mut P) -> Option<P::Frame> {
        let index = *self.answering.front()?;
        let qp = &mut self.qps[index as usize];
        qp.headers.set_tos(qp.config.tos);
        let packet = qp.receiver.next_packet()?;
        let frame = packet.emit(&mut qp.headers, qp.config.remote_qpn, pool)?;
        qp.receiver.sent();
        self.answering.pop_front();
        qp.answering = qp.receiver.next_packet().is_some();
        if qp.answering {
            self.answering.push_back(index);
        }
        Some(frame)
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
            let Some(departure) = qp.sender.departure() else {
                qp.ready = false;
                self.ready.pop_front();
                continue;
            };
            if let Some(congestion) = &qp.congestion
                && congestion.free_at() > now
            {
                self.paced.push(Reverse((congestion.free_at(), index)));
                self.ready.pop_front();
                continue;
            }
            qp.headers.set_tos(match qp.congestion {
                Some(_) => Congestion::data_tos(qp.config.tos),
                None => qp.config.tos,
            });
            let packet = &departure.packet;
            let Some(frame) = packet.emit(&mut qp.headers, qp.config.remote_qpn, pool) else {
                return Some(None);
            };
            qp.sender.sent(&departure, now);
            if let Some(congestion) = &mut qp.congestion {
                congestion.sent(frame.bytes().len(), now);
            }
            if let Some(deadline) = qp.sender.deadline() {
                self.timers.arm(index, Timer::Retransmit, deadline);
            }
            self.ready.rotate_left(1);
            return Some(Some(frame));
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

    /// Counters of a QP.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn stats(&self, qp: QpId) -> IrnStats {
        let qp = &self.qps[qp.index()];
        let mut stats = qp.sender.stats;
        stats += &qp.receiver.stats;
        stats
    }

    /// Counters of all QPs, added up.
    pub fn totals(&self) -> IrnStats {
        let mut totals = IrnStats::default();
        for qp in &self.qps {
            totals += &qp.sender.stats;
            totals += &qp.receiver.stats;
        }
        totals
    }

    fn after_sender(&mut self, index: u32) {
        if let Some(deadline) = self.qps[index as usize].sender.deadline() {
            self.timers.arm(index, Timer::Retransmit, deadline);
        }
        self.make_ready(index);
    }

    /// Lets a QP take part, if it has something to send.
    fn make_ready(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        if !qp.ready && qp.sender.departure().is_some() {
            qp.ready = true;
            self.ready.push_back(index);
        }
    }
}

/// One of the counters of a port.
type Counter = fn(&mut PortStats) -> &mut u64;
