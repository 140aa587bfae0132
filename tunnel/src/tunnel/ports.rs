//! The actions of sender and receiver on the ports.

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Headroom, Packet, Shared};
use common::recorder::{LaneEvent, Record, Recorder, What, packet};
use common::time::Time;
use common::wire::MacAddr;

use super::together::Together;
use super::{Config, Counts, Dropped, Io};
use crate::flow::Order;
use crate::message::{self, Header, Message, Probe, Report, Skip};
use crate::number::{Lane, Number, Port};
use crate::protection::{Protected, Protection};
use crate::receiver::Deliver;
use crate::sender::{Recover, Transmit};
use crate::session::EndPoint;
use crate::shim::{self, RepairShim, Shim};

/// A frame without its outer headers.
pub(super) struct Inner<F> {
    pub frame: F,
    pub is_for_lan: bool,
    /// See [`Exceptions`](common::wire::Exceptions).
    pub may_be_notable: bool,
}

/// Frames that go to the LAN together.
pub(super) struct Ready<F> {
    frames: ArrayVec<F, 64>,
    /// For one of them.
    may_be_notable: bool,
}

impl<F: Frame> Ready<F> {
    pub const fn new() -> Self {
        Self { frames: ArrayVec::new_const(), may_be_notable: false }
    }

    /// A frame goes to the LAN, behind all that are ready.
    #[inline(always)]
    pub fn push<I: Io<Frame = F>>(&mut self, frame: F, may_be_notable: bool, io: &mut I)
    where
        F: Headroom,
    {
        if let Err(full) = self.frames.try_push(frame) {
            self.send(io);
            self.frames.push(full.element());
        }
        if may_be_notable {
            self.may_be_notable = true;
        }
    }

    /// All go now.
    #[inline(always)]
    pub fn send<I: Io<Frame = F>>(&mut self, io: &mut I)
    where
        F: Headroom,
    {
        io.lan_all(&mut self.frames, core::mem::take(&mut self.may_be_notable));
    }
}

/// The ways of messages to the peer.
pub(super) struct Ways {
    /// By port: the peer's MAC address, once it was heard there.
    peers: ArrayVec<Option<MacAddr>, { Port::COUNT_MAX as usize }>,
    /// By lane of the peer: the port at which its frames arrive. A REPORT leaves there: the boxes may count their ports
    /// in another order.
    arrivals: Vec<Port>,
    /// By port: the lane of the peer whose frames arrived there last.
    newest: ArrayVec<Lane, { Port::COUNT_MAX as usize }>,
}

impl Ways {
    pub fn new(lanes: u8, ports: u8) -> Self {
        Self {
            peers: Port::all(ports).map(|_| None).collect(),
            arrivals: Lane::all(lanes).map(|lane| lane.port(ports)).collect(),
            newest: Port::all(ports).filter_map(|port| Lane::new(port.get())).collect(),
        }
    }

    #[inline]
    pub fn arrived(&mut self, lane: Lane, port: Port) {
        if let Some(arrival) = self.arrivals.get_mut(lane.index()) {
            *arrival = port;
            self.newest[port.index()] = lane;
        }
    }

    #[inline]
    pub fn newest(&self, port: Port) -> Lane {
        self.newest[port.index()]
    }

    /// Whether the newest frame of a lane has arrived at a port.
    #[inline]
    pub fn is_at(&self, lane: Lane, port: Port) -> bool {
        self.arrivals.get(lane.index()) == Some(&port)
    }

    pub fn set_peer(&mut self, port: Port, mac: Option<MacAddr>) {
        self.peers[port.index()] = mac;
    }

    fn of_report(&self, lane: Lane) -> Port {
        self.arrivals.get(lane.index()).copied().unwrap_or_default()
    }
}

/// The WAN ports.
pub(super) struct Wan<'a, I> {
    pub io: &'a mut I,
    pub end: &'a mut EndPoint,
    pub config: &'a Config,
    pub ways: &'a Ways,
    pub recorder: &'a mut Recorder,
    pub protection: Option<&'a mut Protection>,
}

/// Something happened to a frame of the tunnel, `inner` from its own EtherType on: for the flight recorder.
#[cold]
pub(super) fn note(recorder: &mut Recorder, event: LaneEvent, shim: &Shim, inner: Option<&[u8]>) {
    let (lane, number) = shim.original.unwrap_or((shim.lane, shim.number));
    let (stream, psn) = inner.and_then(packet).map(|it| (it.stream, it.psn)).unzip();
    let now = recorder.now();
    let what = What::OnLane(event, lane.get(), number.0);
    recorder.add(Record { first: now, last: now, stream, psn, packets: 1, what });
}

pub(super) fn wan<'a, I>(
    io: &'a mut I,
    end: &'a mut EndPoint,
    config: &'a Config,
    ways: &'a Ways,
    recorder: &'a mut Recorder,
    protection: &'a mut Option<Box<Protection>>,
) -> Wan<'a, I> {
    let protection = protection.as_deref_mut().filter(|protection| protection.is_on());
    Wan { io, end, config, ways, recorder, protection }
}

/// The WAN ports of a tunnel, beside its sender and receiver: a macro, since a method would borrow those too.
macro_rules! wan_of {
    ($tunnel:ident, $io:ident) => {
        $crate::tunnel::ports::wan(
            $io,
            &mut $tunnel.end,
            &$tunnel.config,
            &$tunnel.ways,
            &mut $tunnel.recorder,
            &mut $tunnel.protection,
        )
    };
}
pub(super) use wan_of;

/// A repair frame with its headers, if there is memory, and if the port's queue has room for it behind `ahead` numbered frames that
/// are to enter the queue. R-TUN-67
pub(super) fn repair<I: Io>(
    io: &mut I,
    config: &Config,
    ways: &Ways,
    (shim, sum): (RepairShim, &[u8]),
    ahead: usize,
    counts: &mut Protected,
) -> Option<(Port, I::Frame)> {
    let port = shim.lane.port(config.session.ports);
    let encapsulation = &config.ports[port.index()];
    let len = encapsulation.shim_at() + shim::LEN + sum.len();
    let frame = if io.room(port) > ahead { io.alloc(len) } else { None };
    let wrapped = frame.and_then(|mut frame| {
        let body =
            encapsulation.wrap_message(shim.lane, ways.peers[port.index()], frame.bytes_mut())?;
        shim.write(body);
        body[shim::LEN..].copy_from_slice(sum);
        Some((port, frame))
    });
    match wrapped {
        Some(_) => counts.sent += 1,
        None => counts.unsent += 1,
    }
    wrapped
}

/// Sends a control message on a lane of a port. A PROBE, SKIP or BYE speaks of the frames before it and must not overtake them.
pub(super) fn send<I: Io>(
    io: &mut I,
    config: &Config,
    ways: &Ways,
    (port, lane): (Port, Lane),
    header: &Header,
    message: &Message,
) {
    let encapsulation = &config.ports[port.index()];
    let len = encapsulation.shim_at() + message::wire_len(message);
    let Some(mut frame) = io.alloc(len) else { return };
    let to = ways.peers[port.index()];
    let Some(body) = encapsulation.wrap_message(lane, to, frame.bytes_mut()) else { return };
    message::write(header, message, &config.keys, body);
    let class = match message {
        Message::Hello(_) | Message::Reports(_) | Message::PathProbe(_) | Message::PathEcho(_) => {
            Class::High
        }
        Message::Probe(_) | Message::Skip(_) | Message::Bye => Class::Data,
    };
    io.wan(port, class, Packet::Owned(frame));
}

impl<I: Io> Wan<'_, I> {
    fn message(&mut self, port: Port, lane: Lane, message: &Message) {
        let header = self.end.header(&self.config.session);
        send(self.io, self.config, self.ways, (port, lane), &header, message);
    }

    /// Adds a wrapped frame to its sums. Returns the repair frame that is to leave behind it.
    fn protect(&mut self, shim: &Shim, wrapped: &[u8]) -> Option<(Port, I::Frame)> {
        let protection = self.protection.as_deref_mut()?;
        let port = shim.lane.port(self.config.session.ports);
        let parts = self.config.ports[port.index()].parts(wrapped);
        let mut counts = protection.counts;
        let due = protection.sent(shim.lane, shim.number, parts)?;
        // The frame itself is still to enter the queue.
        let repair = repair(self.io, self.config, self.ways, due, 1, &mut counts);
        protection.counts = counts;
        repair
    }

    /// Sends repair frames for the newest frames of a lane, behind which none follow for now.
    fn flush(&mut self, lane: Lane) {
        let Some(protection) = self.protection.as_deref_mut() else { return };
        let mut counts = protection.counts;
        while let Some(due) = protection.flush(lane) {
            if let Some((port, frame)) =
                repair(self.io, self.config, self.ways, due, 0, &mut counts)
            {
                self.io.wan(port, Class::Data, Packet::Owned(frame));
            }
        }
        protection.counts = counts;
    }

    #[inline]
    fn port(&self, lane: Lane) -> Port {
        lane.port(self.config.session.ports)
    }
}

impl<I: Io> Transmit<I::Frame> for Wan<'_, I> {
    type Kept = <I::Frame as Frame>::Shared;

    #[inline]
    fn send(&mut self, shim: &Shim, traffic_class: u8, mut frame: I::Frame) -> Option<Self::Kept> {
        let port = self.port(shim.lane);
        self.config.ports[port.index()].wrap(frame.bytes_mut(), shim, traffic_class);
        let repair = self.protect(shim, frame.bytes());
        let kept = if shim.is_kept {
            let (sent, kept) = frame.share_twice();
            self.io.wan(port, Class::Data, Packet::Shared(sent));
            Some(kept)
        } else {
            self.io.wan(port, Class::Data, Packet::Owned(frame));
            None
        };
        if let Some((port, repair)) = repair {
            self.io.wan(port, Class::Data, Packet::Owned(repair));
        }
        kept
    }
}

impl<I: Io> Recover for Wan<'_, I> {
    type Kept = <I::Frame as Frame>::Shared;

    fn resend(&mut self, shim: &Shim, kept: &Self::Kept) -> bool {
        let kept = kept.bytes();
        let port = self.port(shim.lane);
        let encapsulation = &self.config.ports[port.index()];
        let frame = self.io.alloc(encapsulation.resent_len(kept.len()));
        let inner = encapsulation.inner(kept);
        let Some(mut frame) = frame.filter(|_| encapsulation.is_ready()) else {
            note(self.recorder, LaneEvent::NotResent, shim, inner);
            return false;
        };
        note(self.recorder, LaneEvent::Resent, shim, inner);
        encapsulation.rewrap(kept, shim, frame.bytes_mut());
        let repair = self.protect(shim, frame.bytes());
        self.io.wan(port, Class::Data, Packet::Owned(frame));
        if let Some((port, repair)) = repair {
            self.io.wan(port, Class::Data, Packet::Owned(repair));
        }
        true
    }

    fn lost_again(&mut self, now: Time, lane: Lane, kept: &Self::Kept) {
        self.end.sizes.on_loss(now, lane, kept.bytes().len());
    }

    fn order(&self, kept: &Self::Kept) -> Order {
        // Both boxes' headers have one length at all ports.
        self.config.ports.first().map_or(Order::Free, |port| port.flow(kept.bytes()).order)
    }

    fn release(&mut self, kept: Self::Kept) {
        drop(kept);
    }

    fn release_all(&mut self, kept: &mut [Option<Self::Kept>]) -> usize {
        Shared::release_some(kept)
    }

    fn probe(&mut self, mut probe: Probe) {
        if probe.sent_at.is_none() {
            // The lane is idle: what was lost of its last frames is decoded before the PROBE asks for it.
            self.flush(probe.lane);
        }
        // The delay of a lane begins behind our own queue, whose length is known.
        let wait = self.io.wait(self.port(probe.lane)).unwrap_or_default();
        probe.sent_at = probe.sent_at.map(|at| at + wait);
        self.message(self.port(probe.lane), probe.lane, &Message::Probe(probe));
    }

    fn skip(&mut self, via: Lane, skip: Skip) {
        self.message(self.port(via), via, &Message::Skip(skip));
    }
}

/// The LAN port, and the WAN port for REPORTs.
pub(super) struct Lan<'a, 'b, I: Io> {
    pub wan: Wan<'a, I>,
    pub counts: &'b mut Counts,
    pub ready: &'b mut Ready<I::Frame>,
    /// Where REPORTs are gathered, if they leave [together](Self::send_together); else each leaves at once.
    pub together: Option<&'b mut Together>,
}

impl<I: Io> Lan<'_, '_, I> {
    /// Sends the REPORTs that were gathered.
    pub fn send_together(&mut self) {
        let Some(together) = &mut self.together else { return };
        for port in Port::all(self.wan.config.session.ports) {
            if let Some((lane, reports)) = together.take(port) {
                self.wan.message(port, lane, &Message::Reports(reports));
            }
        }
    }
}

impl<I: Io> Deliver<Inner<I::Frame>> for Lan<'_, '_, I>
where
    I::Frame: Headroom,
{
    #[inline(always)]
    fn deliver(&mut self, inner: Inner<I::Frame>) {
        if inner.is_for_lan {
            self.ready.push(inner.frame, inner.may_be_notable, self.wan.io);
        } else {
            self.counts.after_order += 1;
            self.counts.drop(Dropped::Mark);
        }
    }

    #[inline]
    fn deliver_held(&mut self, inner: Inner<I::Frame>) {
        // It is read when all that is ready goes to the port.
        inner.frame.prefetch();
        self.deliver(inner);
    }

    fn discard(&mut self, inner: Inner<I::Frame>) {
        drop(inner);
    }

    fn gave_up(&mut self, lane: Lane, first: Number, count: u64) {
        let now = self.wan.recorder.now();
        let what = What::OnLane(LaneEvent::GivenUp, lane.get(), first.wire().0);
        let packets = u32::try_from(count).unwrap_or(u32::MAX);
        let record = Record { first: now, last: now, stream: None, psn: None, packets, what };
        self.wan.recorder.add(record);
    }

    fn report(&mut self, report: Report) {
        let port = self.wan.ways.of_report(report.lane);
        let leaving = match &mut self.together {
            Some(together) => together.add(port, report),
            None => Some((report.lane, report.into())),
        };
        if let Some((lane, reports)) = leaving {
            self.wan.message(port, lane, &Message::Reports(reports));
        }
    }
}
