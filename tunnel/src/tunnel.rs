//! One end of the tunnel: frames from the LAN out to the WAN ports, and back.

mod counts;
mod inbound;
mod lanes;
mod mute;
mod outbound;
mod paths;
mod ports;
mod repairs;
mod together;

use arrayvec::ArrayVec;
use common::control::Keys;
use common::frame::{Class, Frame, Headroom, Packet};
use common::recorder::Recorder;
use common::time::{Span, Time};
use common::wire::MacAddr;

pub use self::counts::{Counts, Dropped};
pub use self::lanes::LaneState;
use self::mute::Mute;
use self::ports::{Inner, Lan, Ready, Ways};
use self::together::Together;
use crate::encapsulation::Encapsulation;
use crate::message::{self, Message, PathEcho};
use crate::number::{Lane, Port};
use crate::protection::Protection;
use crate::receiver::{Received, Receiver, ReceiverConfig};
use crate::sender::{Health, Sender, SenderConfig, Sent};
use crate::session::{Change, End, EndPoint, SessionConfig};
use crate::tuning::Tuning;

/// Settings of a tunnel.
#[derive(Clone, Debug)]
pub struct Config {
    /// How frames are carried, for each WAN port: as many as [`SessionConfig::ports`], with headers of one length.
    pub ports: Vec<Encapsulation>,
    /// The session.
    pub session: SessionConfig,
    /// The sending end.
    pub sender: SenderConfig,
    /// The receiving end.
    pub receiver: ReceiverConfig,
    /// The key of control messages.
    pub keys: Keys,
    /// Records of the [flight recorder](common::recorder); 0: nothing is recorded.
    pub records: usize,
}

/// The ports of a tunnel, and where its frames come from.
pub trait Io {
    /// The kind of frame.
    type Frame: Headroom;

    /// How long a frame waits until a WAN port sends it; `None` if the port's queue has no room for it. Only frames
    /// with room are numbered: one that is dropped here must not look like loss.
    fn wait(&mut self, port: Port) -> Option<Span>;

    /// Frames for which the queue of a WAN port has room.
    fn room(&mut self, port: Port) -> usize;

    /// Sends a frame to the WAN.
    fn wan(&mut self, port: Port, class: Class, packet: Packet<Self::Frame>);

    /// Sends frames of class Data to the WAN.
    fn wan_all<const N: usize>(
        &mut self,
        port: Port,
        frames: &mut ArrayVec<<Self::Frame as Frame>::Shared, N>,
    ) {
        frames.drain(..).for_each(|frame| self.wan(port, Class::Data, Packet::Shared(frame)));
    }

    /// Sends frames to the LAN. Unless `may_be_notable` says so, none of them is a NAK for a lost packet or a gateway's message
    /// ([`Sort::is_notable`](common::wire::Sort::is_notable)).
    fn lan_all<const N: usize>(
        &mut self,
        frames: &mut ArrayVec<Self::Frame, N>,
        may_be_notable: bool,
    );

    /// Takes a frame from a WAN port that has no shim, with the encapsulation `udp`: ARP, ND and ping for
    /// the box itself.
    fn local(&mut self, port: Port, frame: Self::Frame);

    /// A new frame of `len` bytes; `None` if there is no memory.
    fn alloc(&mut self, len: usize) -> Option<Self::Frame>;
}

/// One end of the tunnel: both directions of one pair of boxes.
pub struct Tunnel<F: Frame> {
    config: Config,
    end: EndPoint,
    sender: Sender<F::Shared>,
    receiver: Receiver<Inner<F>>,
    /// When the session began.
    began_at: Time,
    /// Why the one before ended.
    last_end: Option<End>,
    /// Where control messages go and REPORTs leave.
    ways: Ways,
    /// By port: its link is up.
    links: ArrayVec<bool, { Port::COUNT_MAX as usize }>,
    /// By lane: frames take it.
    used: Vec<bool>,
    /// Length of the longest frame of the paths; 0 while none is known.
    longest: u16,
    counts: Counts,
    recorder: Recorder,
    together: Together,
    mute: Mute,
    /// Sums of the frames of all lanes, if this box sends and decodes repair frames.
    protection: Option<Box<Protection>>,
    /// See [`due`](Self::due).
    due: Time,
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
            last_end: None,
            ways: Ways::new(config.session.lanes, config.session.ports),
            links: Port::all(config.session.ports).map(|_| true).collect(),
            used: Lane::all(config.session.lanes).map(|_| false).collect(),
            longest: 0,
            counts: Counts::default(),
            recorder: Recorder::new(config.records),
            together: Together::new(config.session.ports),
            mute: Mute::default(),
            protection: None,
            due: Time::ZERO,
            config,
        }
    }

    /// The settings that it works by.
    pub const fn config(&self) -> &Config {
        &self.config
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

    /// What was done to frames of late.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The session.
    pub fn session(&self) -> &EndPoint {
        &self.end
    }

    /// Why the newest session that is over ended; `None` if there was none.
    pub const fn last_end(&self) -> Option<End> {
        self.last_end
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
            && self.counts.is_balanced(
                self.sender.total(|lane| lane.frames),
                self.receiver.total(|lane| lane.arrived),
            )
    }

    /// Health of a lane; `None` if there is no such lane.
    pub fn health(&self, lane: Lane) -> Option<Health> {
        self.sender.health(lane)
    }

    /// Works by other timers, pools and choices of lanes from now on. R-TUN-54, R-TUN-60
    pub fn retune(&mut self, now: Time, tuning: &Tuning) {
        self.sender.retune(&mut self.config.sender, now, tuning);
        self.receiver.retune(&mut self.config.receiver, now, tuning);
        self.due = self.deadline();
    }

    /// Whether each pool holds no more frames than its limit.
    pub fn fits_pools(&self) -> bool {
        let Config { sender, receiver, .. } = &self.config;
        self.sender.has_room(sender, 0) && self.receiver.fits(receiver)
    }

    /// Reads and writes control messages with other keys from now on.
    pub fn set_keys(&mut self, keys: &Keys) {
        self.config.keys = keys.clone();
    }

    /// Sets the MAC address of a port's next hop with the encapsulation `udp`; `None`: it is not known.
    pub fn set_next_hop(&mut self, port: Port, mac: Option<MacAddr>) {
        if let Some(encapsulation) = self.config.ports.get_mut(port.index()) {
            encapsulation.set_next_hop(mac);
        }
    }

    /// The link of a WAN port is up, or down: then its unreported frames go out again on other ports. R-TUN-29
    pub fn set_link<I: Io<Frame = F>>(&mut self, now: Time, port: Port, is_up: bool, io: &mut I) {
        let Some(link) = self.links.get_mut(port.index()) else { return };
        self.recorder.begin(now);
        if core::mem::replace(link, is_up) != is_up {
            if is_up {
                self.end.sizes.doubt(now, port, None);
            }
            self.use_lanes(now, io);
            self.due = self.deadline();
        }
    }

    /// When [`on_timer`](Self::on_timer) has to be called.
    pub fn deadline(&self) -> Time {
        let session = &self.config.session;
        let end = self.end.hello_due(session).min(self.end.silence_at(session));
        let end = end.min(self.mute.look_at);
        let lanes = self.receiver.deadline(&self.config.receiver);
        let sender = if self.end.up().is_some() { self.sender.deadline() } else { Time::NEVER };
        end.min(lanes).min(sender).min(self.end.sizes.due())
    }

    /// A time that is no later than the [deadline](Self::deadline), and costs nothing: that of the lanes that something
    /// happened to since it was computed. Then [`on_timer`](Self::on_timer) may have nothing to do.
    #[inline]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Does everything that is due.
    pub fn on_timer<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        self.recorder.begin(now);
        let is_mute = now >= self.mute_at(now);
        let config = &self.config.session;
        let silent = if is_mute { self.end.fall_silent(config) } else { None };
        if let Some(change) = silent.or_else(|| self.end.on_timer(&self.config.session, now)) {
            let mut ready = Ready::new();
            self.change(now, change, &mut ready, io);
            ready.send(io);
        }
        if now >= self.end.hello_due(&self.config.session) {
            for (port, header, hello) in self.end.hellos(&self.config.session, now) {
                let way = (port, Lane::first(port));
                ports::send(io, &self.config, &self.ways, way, &header, &hello);
            }
        }
        self.probe_paths(now, io);
        let (is_up, config) = (self.end.up().is_some(), &self.config);
        let mut wan = ports::wan_of!(self, io);
        if is_up {
            self.sender.on_timer(now, &mut wan);
        }
        let mut ready = Ready::new();
        let (counts, together) = (&mut self.counts, Some(&mut self.together));
        let mut lan = Lan { wan, counts, ready: &mut ready, together };
        self.receiver.on_timer(&config.receiver, now, &mut lan);
        lan.send_together();
        ready.send(io);
        self.due = self.deadline();
    }

    /// Leaves the session, with a BYE: the peer goes on without this box.
    pub fn close<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        let byes = self.end.close(&self.config.session);
        for (port, header, bye) in &byes {
            let way = (*port, Lane::first(*port));
            ports::send(io, &self.config, &self.ways, way, header, bye);
        }
        if !byes.is_empty() {
            let mut ready = Ready::new();
            self.change(now, Change::Ended(End::Closed), &mut ready, io);
            ready.send(io);
        }
        self.due = self.deadline();
    }

    /// Whether long HELLOs of this session may still be on their way for the first time.
    fn is_early(&self, now: Time) -> bool {
        now < self.began_at + self.config.session.hello_interval * 2
    }

    fn on_message<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        at: usize,
        frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        let bytes = frame.bytes().get(at..).unwrap_or_default();
        let config = &self.config;
        let result = self.end.on_message(&config.session, now, port, bytes, &config.keys);
        let (message, change) = match result {
            Ok(taken) => taken,
            Err(refusal) => return self.counts.refuse(refusal),
        };
        self.counts.messages += 1;
        self.ways.set_peer(port, source(frame.bytes()));
        if let Some(change) = change {
            self.change(now, change, ready, io);
        }
        if message.is_none() {
            // A HELLO may have proven a path.
            self.use_lanes(now, io);
        }
        if let Some(Message::Probe(probe)) = &message {
            self.ways.arrived(probe.lane, port);
        }
        let is_up = self.end.up().is_some();
        let mut wan = ports::wan_of!(self, io);
        match message {
            Some(Message::Reports(reports)) if is_up => {
                for report in reports.iter() {
                    self.sender.on_report(now, &report, &mut wan);
                }
                // What this box waits for is no older than what it would resend. R-TUN-62
                self.config.receiver.give_up = self.sender.age_max();
            }
            Some(Message::Probe(probe)) => {
                let mut lan = Lan { wan, counts: &mut self.counts, ready, together: None };
                self.receiver.on_probe(&self.config.receiver, now, &probe, &mut lan);
            }
            Some(Message::Skip(skip)) => {
                let mut lan = Lan { wan, counts: &mut self.counts, ready, together: None };
                self.receiver.on_skip(now, &skip, &mut lan);
            }
            Some(Message::PathProbe(probe)) => {
                let len = (at + message::wire_len(&Message::PathProbe(probe))) as u16;
                let echo = PathEcho { lane: probe.lane, sent_at: probe.sent_at, len };
                let way = (port, self.ways.newest(port));
                let header = self.end.header(&self.config.session);
                let echo = Message::PathEcho(echo);
                ports::send(io, &self.config, &self.ways, way, &header, &echo);
            }
            Some(Message::PathEcho(PathEcho { lane, sent_at, len })) => {
                self.end.sizes.on_echo(now, lane, sent_at, len);
                self.use_lanes(now, io);
            }
            Some(Message::Hello(_) | Message::Reports(_) | Message::Bye) | None => {}
        }
        self.due = self.deadline();
    }

    fn change<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        change: Change,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        self.counts.changes += 1;
        match change {
            Change::Began => {
                self.began_at = now;
                self.counts.began += 1;
                if let Some(peer) = self.end.up().copied() {
                    self.sender.restart(&self.config.sender, peer.session);
                    self.begin_repairs(&peer);
                    if peer.features.is_some_and(|features| features.answers_paths) {
                        let (config, most) =
                            (&self.config.session, self.end.frame_max(&self.config.session));
                        self.end.sizes.begin(config, now, most);
                    }
                }
            }
            Change::Ended(why) => {
                self.last_end = Some(why);
                self.used.fill(false);
                self.longest = 0;
                self.end.sizes.end();
                if let Some(protection) = &mut self.protection {
                    protection.end();
                }
                let mut wan = ports::wan_of!(self, io);
                self.sender.end(&mut wan);
                let mut lan = Lan { wan, counts: &mut self.counts, ready, together: None };
                self.receiver.end(now, &mut lan);
                self.receiver.restart(self.end.own());
                self.ways = Ways::new(self.config.session.lanes, self.config.session.ports);
            }
        }
    }
}

/// The MAC address of the station that sent a frame; a group address is no station's.
fn source(frame: &[u8]) -> Option<MacAddr> {
    frame.get(6..)?.first_chunk().copied().filter(|mac: &MacAddr| mac[0] & 1 == 0)
}
