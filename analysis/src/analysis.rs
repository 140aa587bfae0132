//! Records in, a report out.

use std::collections::HashMap;

use common::time::{Span, Time};
use common::wire::{
    Addr, Aeth, AethKind, NotRoce, Opcode, PacketKind, Qpn, Roce, Transport, cm, parse,
};
use serde::Serialize;
use tunnel::encapsulation::Marks;

use crate::copies::{Copied, Recent, is_close};
use crate::outer::Encapsulated;
use crate::peel::{Layer, Link, Peeled};
use crate::requests::{Cause, Request, Requests, Shared};
use crate::stream::{Stream, StreamKey};
use crate::window;

/// Streams to look at when the other direction of one is searched.
const MOST_CANDIDATES: usize = 4096;
/// Connections that were set up in the capture, and are kept.
const MOST_CONNECTIONS: usize = 1 << 16;
/// Body of a gateway's control message: its first bytes.
const CONTROL: [u8; 4] = *b"LR2\x93";

/// Bytes of a message of connection management up to the queue pair in it.
const CM_LEN: usize = 60;

/// How to look at a capture.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Streams to follow; packets of others are counted only.
    pub most_streams: usize,
    /// A resend without a NAK is a timeout if the packet has passed at least so long before.
    pub silence: Span,
    /// How to know the tunnel's frames.
    pub tunnel: Marks,
    /// Whether flows get a timeline.
    pub with_timeline: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            most_streams: 1 << 16,
            silence: Span::from_millis(1),
            tunnel: Marks::default(),
            with_timeline: false,
        }
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// When it passed.
    pub at: Time,
    /// What precedes its network header.
    pub link: Link,
    /// The captured bytes of the frame; there may be fewer than it had.
    pub bytes: &'r [u8],
    /// Its length on the wire.
    pub len: usize,
}

/// Counts of a capture's records. `records` is the sum of `roce`, `not_roce`, `malformed`, `cut`, `unread`, `copies`,
/// `tunnel_messages` and `not_followed`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// RoCEv2 packets that were looked at.
    pub roce: u64,
    /// Frames that are not RoCEv2.
    pub not_roce: u64,
    /// Frames to the port of RoCEv2 that are not well-formed.
    pub malformed: u64,
    /// Frames of which too little was captured to see a BTH, or that there is none.
    pub cut: u64,
    /// IP fragments of RoCEv2 packets or of encapsulated frames, and frames within more than eight encapsulations or two VLAN
    /// tags: not looked at.
    pub unread: u64,
    /// Copies of a RoCEv2 packet that passed the capture twice, left out.
    pub copies: u64,
    /// Records that are older than the record before.
    pub out_of_order: u64,
    /// Messages of the tunnel.
    pub tunnel_messages: u64,
    /// RoCEv2 packets of flows beyond those that are followed.
    pub not_followed: u64,
    /// Of the RoCEv2 packets, those that were in the tunnel.
    pub tunnelled: u64,
    /// Of these, those that the tunnel had sent again.
    pub tunnel_resends: u64,
    /// Of the RoCEv2 packets, those inside each encapsulation.
    pub encapsulated: Encapsulated,
    /// Of the RoCEv2 packets, those that passed within a millisecond of the same bytes, in flows where they are so many that
    /// they may be copies.
    pub suspects: u64,
    /// Of the RoCEv2 packets, ACKs and NAKs that were captured without their syndrome.
    pub blind_acks: u64,
    /// Of the RoCEv2 packets, READ requests that were captured without their length.
    pub blind_reads: u64,
    /// Of the RoCEv2 packets, control messages of gateways.
    pub control_messages: u64,
    /// Of the RoCEv2 packets, those that are not of a reliable connection.
    pub other_transports: u64,
    /// Responses whose requests were not found.
    pub unmatched_responses: u64,
}

/// Looks at records in the order of their times.
#[derive(Debug)]
pub struct Analysis {
    settings: Settings,
    shared: Shared,
    peeled: Peeled,
    recent: Recent,
    /// Streams whose copies are left out.
    copied: Copied,
    /// Time of the newest record.
    newest: Time,
    index: HashMap<StreamKey, usize>,
    pub(crate) streams: Vec<Stream>,
    /// By source and destination.
    between: HashMap<(Addr, Addr), Vec<usize>>,
    /// Of a host that asks for a connection, by its id: its queue pair.
    opening: HashMap<(Addr, cm::CommId), Qpn>,
    /// By one direction of a connection: the queue pair of the other.
    connections: HashMap<StreamKey, Qpn>,
    pub(crate) totals: Totals,
    pub(crate) span: Option<(Time, Time)>,
}

impl Analysis {
    /// Without a record so far.
    pub fn new(settings: Settings) -> Self {
        let shared = Shared { budget: window::BUDGET, silence: settings.silence, begin: None };
        Self {
            settings,
            shared,
            peeled: Peeled::default(),
            recent: Recent::default(),
            copied: Copied::default(),
            newest: Time::ZERO,
            index: HashMap::new(),
            streams: Vec::new(),
            between: HashMap::new(),
            opening: HashMap::new(),
            connections: HashMap::new(),
            totals: Totals::default(),
            span: None,
        }
    }

    /// Leaves out copies in these streams, which an analysis of the same capture has found.
    pub fn without_copies(self, copied: Copied) -> Self {
        Self { copied, ..self }
    }

    /// The streams that have copies.
    pub fn copied(&self) -> Copied {
        if !self.streams.iter().any(|stream| stream.repeats.are_copies()) {
            return Copied::default();
        }
        let copied = self.streams.iter().filter(|stream| stream.repeats.may_be_copies());
        Copied(copied.map(|stream| stream.key).collect())
    }

    /// Looks at a record.
    pub fn take(&mut self, record: &Record<'_>) {
        let (first, last) = self.span.unwrap_or((record.at, record.at));
        // A capture of several queues may be out of order by a little.
        let at = record.at.max(first);
        self.span = Some((first, last.max(at)));
        self.shared.begin = self.settings.with_timeline.then_some(first);
        self.totals.records += 1;
        self.totals.bytes += record.len as u64;
        self.totals.out_of_order += u64::from(record.at < self.newest);
        self.newest = record.at;

        let mut peeled = std::mem::take(&mut self.peeled);
        let layer = peeled.take(record.link, record.bytes, record.len, &self.settings.tunnel);
        match layer {
            Layer::Hosts => self.look(&peeled, at),
            Layer::Other => self.totals.not_roce += 1,
            Layer::Message => self.totals.tunnel_messages += 1,
            Layer::Cut => self.totals.cut += 1,
            Layer::Unread => self.totals.unread += 1,
        }
        self.peeled = peeled;
    }

    fn look(&mut self, peeled: &Peeled, at: Time) {
        let frame = peeled.frame();
        let roce = match parse(frame) {
            Ok(roce) => roce,
            Err(NotRoce::Malformed(_)) => {
                self.totals.malformed += 1;
                return;
            }
            Err(_) => {
                self.totals.not_roce += 1;
                return;
            }
        };
        let key = StreamKey { src: roce.src, dst: roce.dst, dest_qpn: roce.dest_qpn };
        let Some(index) = self.stream(key, &roce, at) else {
            self.totals.not_followed += 1;
            return;
        };
        let distance = self.recent.distance(peeled.seen(), &roce, at);
        if is_close(distance) && self.copied.0.contains(&key) {
            self.totals.copies += 1;
            return;
        }
        self.streams[index].repeats.count(distance);
        self.totals.roce += 1;
        peeled.count(&mut self.totals.encapsulated);
        if let Some(is_resend) = peeled.tunnelled() {
            self.totals.tunnelled += 1;
            self.totals.tunnel_resends += u64::from(is_resend);
        }
        let seen = peeled.seen();
        let stream = &mut self.streams[index];
        stream.last = stream.last.max(at);
        stream.packets += 1;
        stream.bytes += frame.len() as u64;
        stream.src_port = roce.src_port;
        stream.marked += u64::from(roce.ecn == 3);
        match roce.kind() {
            PacketKind::Ack if roce.aeth(seen).is_none() => self.totals.blind_acks += 1,
            kind if kind.is_request() => self.request(index, seen, &roce, kind, at),
            kind if kind.is_response() => self.response(index, seen, &roce, kind, at),
            _ => self.other(index, peeled, &roce),
        }
    }

    /// The stream of a packet; `None` if there are too many.
    fn stream(&mut self, key: StreamKey, roce: &Roce, at: Time) -> Option<usize> {
        if let Some(index) = self.index.get(&key) {
            return Some(*index);
        }
        if self.streams.len() >= self.settings.most_streams {
            return None;
        }
        let index = self.streams.len();
        self.streams.push(Stream::new(key, roce.src_port, roce.vlans.ids().collect(), at));
        self.index.insert(key, index);
        self.between.entry((key.src, key.dst)).or_default().push(index);
        if let Some(qpn) = self.connections.get(&key) {
            let back = StreamKey { src: key.dst, dst: key.src, dest_qpn: *qpn };
            if let Some(&other) = self.index.get(&back) {
                self.pair(index, other);
            }
        }
        Some(index)
    }

    fn pair(&mut self, one: usize, other: usize) {
        self.streams[one].partner = Some(other);
        self.streams[other].partner = Some(one);
        let pmtu = |stream: &Stream| stream.requests.as_ref().map_or(0, |requests| requests.pmtu);
        let pmtu = pmtu(&self.streams[one]).max(pmtu(&self.streams[other]));
        for index in [one, other] {
            if let Some(requests) = &mut self.streams[index].requests {
                requests.pmtu = pmtu;
                requests.pair();
            }
        }
    }

    fn request(&mut self, index: usize, seen: &[u8], roce: &Roce, kind: PacketKind, at: Time) {
        let stream = &mut self.streams[index];
        let is_paired = stream.partner.is_some();
        let requests = stream.requests.get_or_insert_with(|| {
            let mut requests = Box::new(Requests::new(roce.psn, at));
            if is_paired {
                requests.pair();
            }
            requests
        });
        if let Some(pmtu) = roce.path_mtu() {
            requests.pmtu = pmtu;
        }
        let is_read = kind == PacketKind::ReadRequest;
        let request = Request {
            at,
            psn: roce.psn,
            kind,
            bytes: roce.payload_len() as u64,
            read_len: roce.reth(seen).filter(|_| is_read).map(|reth| reth.len),
        };
        self.totals.blind_reads += u64::from(is_read && request.read_len.is_none());
        requests.take(&request, &mut self.shared);
    }

    fn response(&mut self, index: usize, seen: &[u8], roce: &Roce, kind: PacketKind, at: Time) {
        let aeth = roce.aeth(seen).map(Aeth::kind);
        let counts = &mut self.streams[index].responses;
        if kind == PacketKind::Ack {
            let count = match aeth {
                Some(AethKind::Ack { .. }) => &mut counts.acks,
                Some(AethKind::Rnr { .. }) => &mut counts.rnr_naks,
                Some(AethKind::Nak { code: 0 }) => &mut counts.naks,
                Some(AethKind::Nak { code: 1 }) => &mut counts.invalid_requests,
                Some(AethKind::Nak { code: 2 }) => &mut counts.remote_access_errors,
                Some(AethKind::Nak { code: 3 }) => &mut counts.remote_operational_errors,
                _ => &mut counts.other_naks,
            };
            *count += 1;
        }
        counts.atomic_acks += u64::from(kind == PacketKind::AtomicAck);
        let is_nak = matches!(aeth, Some(AethKind::Rnr { .. } | AethKind::Nak { .. }));
        if self.streams[index].partner.is_none()
            && let Some(other) = self.requests_of(index, roce, is_nak)
        {
            self.pair(index, other);
        }
        let requests = match self.streams[index].partner {
            Some(partner) => self.streams[partner].requests.as_mut(),
            None => None,
        };
        let Some(requests) = requests else {
            self.totals.unmatched_responses += 1;
            return;
        };
        let begin = self.shared.begin;
        match (kind, aeth) {
            (PacketKind::Ack, Some(AethKind::Nak { code: 0 })) => {
                requests.nak(roce.psn, Cause::Nak, at, begin);
                requests.acknowledged(roce.psn, &mut self.shared);
            }
            (PacketKind::Ack, Some(AethKind::Rnr { .. })) => {
                requests.nak(roce.psn, Cause::Rnr, at, begin);
                requests.acknowledged(roce.psn, &mut self.shared);
            }
            (PacketKind::Ack, Some(AethKind::Ack { .. })) => {
                requests.acknowledged(roce.psn.offset(1), &mut self.shared);
            }
            (PacketKind::ReadResponse(_), _) => {
                if let Some(pmtu) = roce.path_mtu() {
                    requests.know_path_mtu(pmtu, &mut self.shared);
                }
                requests.reads.response(roce.psn, roce.payload_len() as u64, at);
                requests.acknowledged(roce.psn, &mut self.shared);
            }
            _ => {}
        }
    }

    /// The stream whose requests a response answers, if there is only one that it can be.
    fn requests_of(&self, index: usize, roce: &Roce, is_nak: bool) -> Option<usize> {
        let candidates = self.between.get(&(roce.dst, roce.src))?;
        let fits = |other: &&usize| {
            let stream = &self.streams[**other];
            let has = |requests: &Requests| requests.has(roce.psn, is_nak);
            stream.partner.is_none() && stream.requests.as_ref().is_some_and(|r| has(r))
        };
        let same_port =
            |other: &&usize| self.streams[**other].src_port == self.streams[index].src_port;
        let fitting = || candidates.iter().take(MOST_CANDIDATES).filter(fits);
        only(fitting()).or_else(|| only(fitting().filter(same_port))).copied()
    }

    fn other(&mut self, index: usize, peeled: &Peeled, roce: &Roce) {
        let frame = peeled.frame();
        self.totals.other_transports += 1;
        match roce.opcode.transport() {
            Transport::Manufacturer if roce.payload(frame).starts_with(&CONTROL) => {
                self.totals.control_messages += 1;
                self.totals.other_transports -= 1;
            }
            Transport::Cnp if roce.opcode == Opcode::CNP => self.streams[index].cnps += 1,
            Transport::Ud if peeled.captured() >= usize::from(roce.body) + CM_LEN => {
                self.connection(frame, roce);
            }
            _ => {}
        }
    }

    /// Learns from connection management which queue pairs belong together.
    fn connection(&mut self, frame: &[u8], roce: &Roce) {
        let is_room =
            self.opening.len() < MOST_CONNECTIONS && self.connections.len() < 2 * MOST_CONNECTIONS;
        match cm::read(frame, roce) {
            Some(cm::Message::Req(req)) if req.is_rc && is_room => {
                self.opening.insert((roce.src, req.local), req.qpn);
            }
            Some(cm::Message::Rep(rep)) => {
                if let Some(qpn) = self.opening.remove(&(roce.dst, rep.ids.remote)) {
                    let towards = |src, dst, dest_qpn| StreamKey { src, dst, dest_qpn };
                    self.connections.insert(towards(roce.dst, roce.src, rep.qpn), qpn);
                    self.connections.insert(towards(roce.src, roce.dst, qpn), rep.qpn);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn settings_with_timeline(&self) -> bool {
        self.settings.with_timeline
    }

    pub(crate) fn finish(&mut self) {
        self.totals.suspects = self.streams.iter().map(|stream| stream.repeats.suspects()).sum();
        for stream in &mut self.streams {
            if let Some(requests) = &mut stream.requests {
                requests.finish(&self.shared);
            }
        }
    }
}

/// The only one there is.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
