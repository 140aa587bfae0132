//! A port and its queue pairs.

use std::collections::VecDeque;

use common::frame::{Frame, Pool};
use common::psn::Psn;
use common::time::Time;
use common::wire::{
    Addr, Aeth, Bth, DEFAULT_TTL, Headers, Kind, NotRoce, Reth, Roce, icrc_ok, parse,
};
use hashbrown::HashMap;

use crate::config::{NicConfig, QpConfig, QpError};
use crate::pacer::Pacer;
use crate::requester::{Packet, Requester, Response};
use crate::responder::{Acknowledge, Responder};
use crate::stats::{PortStats, QpStats};
use crate::timers::{Timer, Timers};
use crate::work::{Completion, PostError, QpId, Received, Status, WorkRequest};

/// Responses that may wait for the port. Far more than a port that is polled
/// ever holds; a bound for one that isn't.
const MAX_RESPONSES: usize = 1 << 16;

/// A port with its queue pairs. The [crate documentation](crate) says how to
/// drive it.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
    ip: Addr,
    qps: Vec<Qp>,
    by_qpn: HashMap<u32, u32, foldhash::fast::RandomState>,
    /// ACKs and NAKs of all QPs, in the order they were decided on.
    responses: VecDeque<(u32, Acknowledge)>,
    /// QPs that may have a packet to send, each once; served in turn.
    ready: VecDeque<u32>,
    timers: Timers,
    pacer: Pacer,
    completions: VecDeque<Completion>,
    received: VecDeque<Received>,
    stats: PortStats,
}

#[derive(Debug)]
struct Qp {
    config: QpConfig,
    remote: Addr,
    headers: Headers,
    /// Identification of the next IPv4 packet.
    ip_id: u16,
    requester: Requester,
    responder: Responder,
    /// Whether it is in `Nic::ready`.
    ready: bool,
    /// PSN of the positive ACK that is the last of this QP's responses
    /// waiting for the port.
    waiting_ack: Option<Psn>,
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
            responses: VecDeque::new(),
            ready: VecDeque::new(),
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
            ip_id: 0,
            requester: Requester::new(qp, &config),
            responder: Responder::new(qp, &config),
            ready: false,
            waiting_ack: None,
            config,
        });
        Ok(qp)
    }

    /// Begins another life of a QP with the same numbers: work requests that
    /// are pending are flushed, what has arrived of an unfinished message is
    /// forgotten, messages are counted from 0. Statistics go on. The peer has
    /// to do the same, with the PSNs the other way round.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn reset_qp(&mut self, qp: QpId, send_psn: Psn, recv_psn: Psn, now: Time) {
        self.responses.retain(|(index, _)| *index != qp.0);
        let state = &mut self.qps[qp.index()];
        state.requester.fail(Status::Flushed, now, &mut self.completions);
        let stats = state.stats();
        state.config.send_psn = send_psn;
        state.config.recv_psn = recv_psn;
        state.requester = Requester::new(qp, &state.config);
        state.responder = Responder::new(qp, &state.config);
        state.requester.stats = stats.requester;
        state.responder.stats = stats.responder;
        state.waiting_ack = None;
    }

    /// Queues a message. Returns its number on this QP, counted from 0: its
    /// completion and, at the other end, its arrival carry the same.
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
            Err(NotRoce::Other) => return Err(|stats| &mut stats.not_roce),
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
        if roce.opcode.kind() == Kind::Other {
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
        if kind.is_response() {
            let response = match (kind, roce.aeth(frame)) {
                (Kind::Ack, Some(aeth)) => Response::of(aeth),
                _ => Response::Unexpected,
            };
            qp.requester.on_response(response, roce.psn, now, &mut self.completions);
            self.after_requester(index);
        } else {
            let reply = qp.responder.on_request(kind, roce, frame, now, &mut self.received);
            if qp.responder.has_failed() {
                qp.requester.fail(Status::Flushed, now, &mut self.completions);
            }
            self.after_responder(index, reply);
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
                    let reply = qp.responder.on_timer(now);
                    self.after_responder(index, reply);
                }
            }
        }
    }

    /// When [`on_timers`](Self::on_timers) and
    /// [`poll_transmit`](Self::poll_transmit) have to be called next, if
    /// nothing else happens before. A time that has come already means: now.
    /// It may turn out that there was nothing to do.
    pub fn next_deadline(&self) -> Option<Time> {
        let waiting = !self.responses.is_empty() || !self.ready.is_empty();
        let port = waiting.then(|| self.pacer.free_at());
        [port, self.timers.next()].into_iter().flatten().min()
    }

    /// The next frame, if one may leave now: ACKs and NAKs first, then the QPs
    /// in turn, a packet each. `None` also if `pool` has none to give; then
    /// everything stays as it is.
    pub fn poll_transmit<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<P::Frame> {
        if !self.pacer.is_free(now) {
            return None;
        }
        let frame = match self.responses.front() {
            Some(&(index, response)) => {
                let frame = self.qps[index as usize].emit_response(&response, pool);
                if frame.is_some() {
                    self.responses.pop_front();
                }
                frame
            }
            None => self.transmit_request(now, pool)?,
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

    /// The next data packet. `None`: there is none; `Some(None)`: there is no
    /// frame for it.
    fn transmit_request<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<Option<P::Frame>> {
        loop {
            let index = *self.ready.front()?;
            let qp = &mut self.qps[index as usize];
            let Some(packet) = qp.requester.next_packet() else {
                qp.ready = false;
                self.ready.pop_front();
                continue;
            };
            let Some(frame) = qp.emit_request(&packet, pool) else { return Some(None) };
            qp.requester.sent(&packet, now);
            self.ready.rotate_left(1);
            if let Some(deadline) = qp.requester.deadline() {
                self.timers.arm(index, Timer::Retransmit, deadline);
            }
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

    /// Counters of a QP, over all its lives.
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
        if qp.requester.has_failed() {
            qp.responder.fail();
        }
        if let Some(deadline) = qp.requester.deadline() {
            self.timers.arm(index, Timer::Retransmit, deadline);
        }
        self.make_ready(index);
    }

    fn after_responder(&mut self, index: u32, reply: Option<Acknowledge>) {
        let qp = &mut self.qps[index as usize];
        if let Some(deadline) = qp.responder.deadline() {
            self.timers.arm(index, Timer::Ack, deadline);
        }
        let Some(response) = reply else { return };
        let ack = response.aeth.is_ack();
        // Duplicates are acknowledged one by one, all with the same PSN.
        if ack && qp.waiting_ack == Some(response.psn) {
            return;
        }
        if ack && self.responses.len() >= MAX_RESPONSES {
            self.stats.responses_dropped += 1;
            return;
        }
        qp.waiting_ack = ack.then_some(response.psn);
        self.responses.push_back((index, response));
    }

    fn make_ready(&mut self, index: u32) {
        let qp = &mut self.qps[index as usize];
        if !qp.ready && qp.requester.next_packet().is_some() {
            qp.ready = true;
            self.ready.push_back(index);
        }
    }
}

/// One of the counters of a port.
type Counter = fn(&mut PortStats) -> &mut u64;

impl Qp {
    fn has_failed(&self) -> bool {
        self.requester.has_failed() || self.responder.has_failed()
    }

    fn stats(&self) -> QpStats {
        QpStats { requester: self.requester.stats, responder: self.responder.stats }
    }

    fn emit_response<P: Pool>(&mut self, ack: &Acknowledge, pool: &mut P) -> Option<P::Frame> {
        let mut frame = pool.alloc(self.headers.frame_len(Aeth::LEN))?;
        self.next_ip_id();
        self.headers.emit_ack(self.config.remote_qpn, ack.psn, ack.aeth, frame.bytes_mut());
        if self.waiting_ack == Some(ack.psn) && ack.aeth.is_ack() {
            self.waiting_ack = None;
        }
        Some(frame)
    }

    fn emit_request<P: Pool>(&mut self, packet: &Packet, pool: &mut P) -> Option<P::Frame> {
        let pad = packet.len.wrapping_neg() & 3;
        let ext = if packet.reth.is_some() { Reth::LEN } else { 0 };
        let mut frame = pool.alloc(self.headers.frame_len(ext + packet.len + pad))?;
        self.next_ip_id();
        let mut bth = Bth::new(packet.opcode, self.config.remote_qpn, packet.psn);
        bth.pad = pad as u8;
        bth.ack_req = packet.ack_req;
        self.headers.emit(&bth, frame.bytes_mut(), |body| {
            let (header, body) = body.split_at_mut(ext);
            if let Some(reth) = packet.reth {
                header.copy_from_slice(&reth.to_bytes());
            }
            let (payload, pad) = body.split_at_mut(packet.len);
            packet.content.fill(packet.offset, payload);
            pad.fill(0);
        });
        Some(frame)
    }

    /// Hosts number their IPv4 packets.
    fn next_ip_id(&mut self) {
        self.headers.set_ip_id(self.ip_id);
        self.ip_id = self.ip_id.wrapping_add(1);
    }
}
