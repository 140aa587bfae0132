//! One end of the tunnel on one WAN port: LAN frames in, WAN frames out, and back.

mod counts;
mod ports;

use common::control::Keys;
use common::frame::{Class, Frame, Headroom, Packet};
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::wire::{MacAddr, is_mac_control};

pub use self::counts::{Counts, Dropped};
use self::ports::{Inner, Lan, Wan};
use crate::encapsulation::{Encapsulation, Unwrapped};
use crate::flow::{Flow, Order};
use crate::message::Message;
use crate::number::Lane;
use crate::receiver::{Received, Receiver, ReceiverConfig};
use crate::sender::{Sender, SenderConfig, Sent};
use crate::session::{Change, EndPoint, Peer, SessionConfig};
use crate::shim::Shim;

/// Least bytes of a frame: an Ethernet header.
const FRAME_MIN: usize = 14;

/// Settings of a tunnel.
#[derive(Clone, Debug)]
pub struct Config {
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// The session.
    pub session: SessionConfig,
    /// The sending end.
    pub sender: SenderConfig,
    /// The receiving end.
    pub receiver: ReceiverConfig,
    /// The key of control messages.
    pub keys: Keys,
}

/// The ports of a tunnel, and where its frames come from.
pub trait Io {
    /// The kind of frame.
    type Frame: Headroom;

    /// Whether the WAN port's queue has room for a frame. Only such frames are numbered: one that is
    /// dropped here must not look like loss.
    fn admits(&mut self) -> bool;

    /// Sends a frame to the WAN.
    fn wan(&mut self, class: Class, packet: Packet<Self::Frame>);

    /// Sends a frame to the LAN.
    fn lan(&mut self, frame: Self::Frame);

    /// Takes a frame from the WAN that has no shim, with the encapsulation `udp`: ARP, ND and ping for
    /// the box itself.
    fn local(&mut self, frame: Self::Frame);

    /// A new frame of `len` bytes; `None` if there is no memory.
    fn alloc(&mut self, len: usize) -> Option<Self::Frame>;
}

/// A lane, of both directions.
#[derive(Clone, Copy, Debug)]
pub struct LaneState<'a> {
    /// The lane.
    pub lane: Lane,
    /// Counts of the sending end, over all sessions.
    pub sent: &'a Sent,
    /// Counts of the receiving end, over all sessions.
    pub received: &'a Received,
    /// Its round trip, with the time that REPORTs wait.
    pub rtt: &'a Rtt,
    /// How long unreported frames have waited for a REPORT; zero if all is reported.
    pub report_age: Span,
}

/// One end of the tunnel: both directions of one pair of boxes on one WAN port.
pub struct Tunnel<F: Frame> {
    config: Config,
    end: EndPoint,
    sender: Sender<F::Shared>,
    receiver: Receiver<Inner<F>>,
    /// When the session began.
    began_at: Time,
    /// Where control messages go, once a peer was heard.
    peer_mac: Option<MacAddr>,
    counts: Counts,
}

impl<F: Headroom> Tunnel<F> {
    /// An end that has heard nothing. Its first HELLO is due at once.
    pub fn new(config: Config) -> Self {
        let end = EndPoint::new(&config.session);
        Self {
            sender: Sender::new(&config.sender, end.own()),
            receiver: Receiver::new(&config.receiver, end.own()),
            end,
            began_at: Time::ZERO,
            peer_mac: None,
            counts: Counts::default(),
            config,
        }
    }

    /// Frames in and out, and those that were dropped.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counts of the sending end, of all lanes and sessions.
    pub fn sent(&self) -> Sent {
        self.sender.counts()
    }

    /// Counts of the receiving end, of all lanes and sessions.
    pub fn received(&self) -> Received {
        self.receiver.counts()
    }

    /// The lanes, each with its state.
    pub fn lanes(&self, now: Time) -> impl Iterator<Item = LaneState<'_>> {
        Lane::all(self.config.session.lanes).filter_map(move |lane| {
            Some(LaneState {
                lane,
                sent: self.sender.lane_counts(lane)?,
                received: self.receiver.lane_counts(lane)?,
                rtt: self.sender.rtt(lane)?,
                report_age: self.sender.report_age(lane, now)?,
            })
        })
    }

    /// The session.
    pub fn session(&self) -> &EndPoint {
        &self.end
    }

    /// Handles on frames that are kept to be resent.
    pub fn kept(&self) -> usize {
        self.sender.kept()
    }

    /// Frames that wait for their predecessors.
    pub fn waiting(&self) -> usize {
        self.receiver.waiting()
    }

    /// Frames delivered towards the LAN, with or without a number.
    pub fn to_lan(&self) -> u64 {
        let Counts { plain_to_lan, unsequenced, after_order, .. } = self.counts;
        plain_to_lan + unsequenced + self.receiver.counts().delivered - after_order
    }

    /// Whether every frame that came in is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.sender.is_balanced()
            && self.receiver.is_balanced()
            && self.counts.is_balanced(&self.sender.counts(), &self.receiver.counts())
    }

    /// Sets the MAC address of the next hop with the encapsulation `udp`; `None`: it is not known.
    pub fn set_next_hop(&mut self, mac: Option<MacAddr>) {
        self.config.encapsulation.set_next_hop(mac);
    }

    /// A frame from the LAN.
    pub fn on_lan<I: Io<Frame = F>>(&mut self, now: Time, frame: F, io: &mut I) {
        self.accept(now, frame, |order| order, io);
    }

    /// The same, for a frame that whoever looks at queue pairs on the other side has to have in order: an
    /// ACK overtakes none either. R-TUN-24
    pub fn on_lan_in_order<I: Io<Frame = F>>(&mut self, now: Time, frame: F, io: &mut I) {
        self.accept(now, frame, Order::strict, io);
    }

    #[inline]
    fn accept<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        mut frame: F,
        order: impl Fn(Order) -> Order,
        io: &mut I,
    ) {
        self.counts.from_lan += 1;
        if frame.bytes().len() < FRAME_MIN || is_mac_control(frame.bytes()) {
            return self.counts.drop(Dropped::NotForward);
        }
        let Some(limit) = self.limit(now) else { return self.plain(frame, Dropped::NoSession, io) };
        let flow = Flow::of(frame.bytes());
        if let Err(unfit) = self.config.encapsulation.reserve(&mut frame, limit) {
            let why = Dropped::from(unfit);
            self.counts.too_long += u64::from(why == Dropped::TooLong);
            return self.plain(frame, why, io);
        }
        // R-TUN-23
        if !io.admits() {
            return self.counts.drop(Dropped::Queue);
        }
        let Config { encapsulation, sender: config, .. } = &self.config;
        let traffic_class = flow.traffic_class;
        let end = &mut self.end;
        let to = self.peer_mac;
        let mut wan = Wan { io, encapsulation, end, config: &self.config, to, traffic_class };
        let Some(lane) = Lane::new(0) else { return };
        self.sender.on_frame(config, now, lane, order(flow.order), frame, &mut wan);
    }

    /// A frame from the WAN.
    pub fn on_wan<I: Io<Frame = F>>(&mut self, now: Time, mut frame: F, io: &mut I) {
        self.counts.from_wan += 1;
        match self.config.encapsulation.unwrap(&mut frame) {
            Unwrapped::Frame { shim, is_congested } => {
                self.on_frame(now, &shim, is_congested, frame, io)
            }
            Unwrapped::Control(at) => self.on_message(now, at, frame, io),
            Unwrapped::Faulty(fault) => self.counts.drop(fault.into()),
            Unwrapped::Foreign => match self.config.encapsulation {
                Encapsulation::Ethernet { .. } if is_mac_control(frame.bytes()) => {
                    self.counts.drop(Dropped::NotForward)
                }
                Encapsulation::Ethernet { .. } => {
                    self.counts.plain_to_lan += 1;
                    io.lan(frame);
                }
                Encapsulation::Udp(_) => {
                    self.counts.local += 1;
                    io.local(frame);
                }
            },
        }
    }

    /// When [`on_timer`](Self::on_timer) has to be called.
    pub fn deadline(&self) -> Time {
        let session = &self.config.session;
        let end = self.end.hello_due(session).min(self.end.silence_at(session));
        let lanes = self.receiver.deadline(&self.config.receiver);
        let sender = if self.end.up().is_some() { self.sender.deadline() } else { Time::NEVER };
        end.min(lanes).min(sender)
    }

    /// Does everything that is due.
    pub fn on_timer<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        if let Some(change) = self.end.on_timer(&self.config.session, now) {
            self.change(now, change, io);
        }
        if now >= self.end.hello_due(&self.config.session) {
            let (header, hello) = self.end.hello(&self.config.session, now);
            ports::send(io, &self.config, self.peer_mac, &header, &hello);
        }
        let (is_up, config) = (self.end.up().is_some(), &self.config);
        let mut wan = ports::wan(io, &mut self.end, config, self.peer_mac);
        if is_up {
            self.sender.on_timer(now, &mut wan);
        }
        let mut lan = Lan { wan, counts: &mut self.counts };
        self.receiver.on_timer(&config.receiver, now, &mut lan);
    }

    /// Leaves the session, with a BYE: the peer goes on without this box.
    pub fn close<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        if let Some((header, bye)) = self.end.close(&self.config.session) {
            ports::send(io, &self.config, self.peer_mac, &header, &bye);
            self.change(now, Change::Ended(crate::session::End::Closed), io);
        }
    }

    /// The longest frame that the path carries; `None` if frames are not numbered.
    fn limit(&self, now: Time) -> Option<u16> {
        let peer = self.end.up()?;
        let most = self.end.frame_max(&self.config.session);
        let is_proven = peer.reached >= most;
        let is_early = now < self.began_at + self.config.session.hello_interval * 2;
        Some(match self.config.encapsulation {
            _ if is_proven => most,
            // There is another way until the path is known.
            Encapsulation::Ethernet { .. } if is_early => return None,
            Encapsulation::Udp(_) if is_early => most,
            Encapsulation::Ethernet { .. } | Encapsulation::Udp(_) => peer.reached,
        })
    }

    /// Whether frames from the LAN are numbered, and which peer takes them.
    pub fn peer(&self, now: Time) -> Option<&Peer> {
        self.limit(now).and(self.end.up())
    }

    /// Sends a frame without a shim, if there is such a way. R-TUN-19
    fn plain<I: Io<Frame = F>>(&mut self, frame: F, otherwise: Dropped, io: &mut I) {
        match self.config.encapsulation {
            Encapsulation::Udp(_) => self.counts.drop(otherwise),
            // It would be taken for one of ours.
            Encapsulation::Ethernet { .. }
                if self.config.encapsulation.is_reserved(frame.bytes()) =>
            {
                self.counts.drop(Dropped::Reserved)
            }
            Encapsulation::Ethernet { .. } => {
                self.counts.plain_to_wan += 1;
                io.wan(Class::Data, Packet::Owned(frame));
            }
        }
    }

    fn on_frame<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        shim: &Shim,
        is_congested: bool,
        frame: F,
        io: &mut I,
    ) {
        let is_ours = shim.session == self.end.own();
        // Where there is no session, the first transmission of a frame is what a plain one would be.
        let is_open = matches!(self.config.encapsulation, Encapsulation::Ethernet { .. })
            && self.end.up().is_none()
            && shim.original.is_none();
        if !is_ours && !is_open {
            return self.counts.drop(Dropped::Session);
        }
        if !is_ours {
            if is_mac_control(frame.bytes()) {
                return self.counts.drop(Dropped::NotForward);
            }
            self.counts.unsequenced += 1;
            return io.lan(frame);
        }
        self.end.mark_used();
        let is_for_lan = !is_congested && !is_mac_control(frame.bytes());
        let inner = Inner { frame, is_for_lan };
        let wan = ports::wan(io, &mut self.end, &self.config, self.peer_mac);
        let mut lan = Lan { wan, counts: &mut self.counts };
        self.receiver.on_frame(&self.config.receiver, now, shim, inner, &mut lan);
    }

    fn on_message<I: Io<Frame = F>>(&mut self, now: Time, at: usize, frame: F, io: &mut I) {
        let bytes = frame.bytes().get(at..).unwrap_or_default();
        let config = &self.config;
        let result = self.end.on_message(&config.session, now, bytes, &config.keys);
        let (message, change) = match result {
            Ok(taken) => taken,
            Err(refusal) => return self.counts.refuse(refusal),
        };
        self.counts.messages += 1;
        self.peer_mac = source(frame.bytes());
        if let Some(change) = change {
            self.change(now, change, io);
        }
        let is_up = self.end.up().is_some();
        let mut wan = ports::wan(io, &mut self.end, &self.config, self.peer_mac);
        match message {
            Some(Message::Report(report)) if is_up => {
                self.sender.on_report(now, &report, &mut wan);
            }
            Some(Message::Probe(probe)) => {
                let mut lan = Lan { wan, counts: &mut self.counts };
                self.receiver.on_probe(&self.config.receiver, now, &probe, &mut lan);
            }
            Some(Message::Skip(skip)) => {
                let mut lan = Lan { wan, counts: &mut self.counts };
                self.receiver.on_skip(&skip, &mut lan);
            }
            Some(Message::Hello(_) | Message::Report(_) | Message::Bye) | None => {}
        }
    }

    fn change<I: Io<Frame = F>>(&mut self, now: Time, change: Change, io: &mut I) {
        self.counts.changes += 1;
        match change {
            Change::Began => {
                self.began_at = now;
                if let Some(peer) = self.end.up() {
                    self.sender.restart(&self.config.sender, peer.session);
                }
            }
            Change::Ended(_) => {
                let mut wan = ports::wan(io, &mut self.end, &self.config, self.peer_mac);
                self.sender.end(&mut wan);
                let mut lan = Lan { wan, counts: &mut self.counts };
                self.receiver.end(&mut lan);
                self.receiver.restart(self.end.own());
                self.peer_mac = None;
            }
        }
    }
}

/// The MAC address of the station that sent a frame; a group address is no station's.
fn source(frame: &[u8]) -> Option<MacAddr> {
    frame.get(6..)?.first_chunk().copied().filter(|mac: &MacAddr| mac[0] & 1 == 0)
}
