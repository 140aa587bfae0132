//! What sender and receiver do to the ports.

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Headroom, Packet, Shared};
use common::wire::MacAddr;

use super::{Config, Counts, Dropped, Io};
use crate::encapsulation::Encapsulation;
use crate::message::{self, Header, Message, Probe, Report, Skip};
use crate::number::Lane;
use crate::receiver::Deliver;
use crate::sender::{RELEASED, Transmit};
use crate::session::EndPoint;
use crate::shim::Shim;

/// A frame without its outer headers.
pub(super) struct Inner<F> {
    pub frame: F,
    pub is_for_lan: bool,
}

/// The WAN port.
pub(super) struct Wan<'a, I> {
    pub io: &'a mut I,
    pub encapsulation: &'a Encapsulation,
    pub end: &'a mut EndPoint,
    pub config: &'a Config,
    /// The peer's MAC address, if it is known.
    pub to: Option<MacAddr>,
    /// Of the frame that is being sent.
    pub traffic_class: u8,
}

pub(super) fn wan<'a, I>(
    io: &'a mut I,
    end: &'a mut EndPoint,
    config: &'a Config,
    to: Option<MacAddr>,
) -> Wan<'a, I> {
    Wan { io, encapsulation: &config.encapsulation, end, config, to, traffic_class: 0 }
}

/// Sends a control message. A PROBE, SKIP or BYE speaks of the frames before it and must not overtake them.
pub(super) fn send<I: Io>(
    io: &mut I,
    config: &Config,
    to: Option<MacAddr>,
    header: &Header,
    message: &Message,
) {
    let len = config.encapsulation.shim_at() + message::wire_len(message);
    let (Some(mut frame), Some(lane)) = (io.alloc(len), lane(message)) else { return };
    let Some(body) = config.encapsulation.wrap_message(lane, to, frame.bytes_mut()) else { return };
    message::write(header, message, &config.keys, body);
    let class = match message {
        Message::Hello(_) | Message::Report(_) => Class::High,
        Message::Probe(_) | Message::Skip(_) | Message::Bye => Class::Data,
    };
    io.wan(class, Packet::Owned(frame));
}

/// The lane that a message rides: the one that it speaks of.
fn lane(message: &Message) -> Option<Lane> {
    match message {
        Message::Report(Report { lane, .. })
        | Message::Probe(Probe { lane, .. })
        | Message::Skip(Skip { lane, .. }) => Some(*lane),
        Message::Hello(_) | Message::Bye => Lane::new(0),
    }
}

impl<I: Io> Wan<'_, I> {
    fn message(&mut self, message: &Message) {
        let header = self.end.header(&self.config.session);
        send(self.io, self.config, self.to, &header, message);
    }
}

impl<I: Io> Transmit<I::Frame> for Wan<'_, I> {
    type Kept = <I::Frame as Frame>::Shared;

    fn send(&mut self, shim: &Shim, mut frame: I::Frame) -> Option<Self::Kept> {
        self.encapsulation.wrap(frame.bytes_mut(), shim, self.traffic_class);
        if !shim.is_kept {
            self.io.wan(Class::Data, Packet::Owned(frame));
            return None;
        }
        let shared = frame.share();
        self.io.wan(Class::Data, Packet::Shared(shared.clone()));
        Some(shared)
    }

    fn resend(&mut self, shim: &Shim, kept: &Self::Kept) -> bool {
        let kept = kept.bytes();
        let Some(mut frame) = self.io.alloc(self.encapsulation.resent_len(kept.len())) else {
            return false;
        };
        self.encapsulation.rewrap(kept, shim, frame.bytes_mut());
        self.io.wan(Class::Data, Packet::Owned(frame));
        true
    }

    fn release(&mut self, kept: Self::Kept) {
        drop(kept);
    }

    fn release_all(&mut self, kept: &mut ArrayVec<Self::Kept, RELEASED>) {
        // They were sent a round trip ago: all their headers are fetched at once.
        kept.iter().for_each(Shared::prefetch);
        Shared::release_all(kept);
    }

    fn probe(&mut self, probe: Probe) {
        self.message(&Message::Probe(probe));
    }

    fn skip(&mut self, skip: Skip) {
        self.message(&Message::Skip(skip));
    }
}

/// The LAN port, and the WAN port for REPORTs.
pub(super) struct Lan<'a, 'b, I> {
    pub wan: Wan<'a, I>,
    pub counts: &'b mut Counts,
}

impl<I: Io> Deliver<Inner<I::Frame>> for Lan<'_, '_, I>
where
    I::Frame: Headroom,
{
    fn deliver(&mut self, Inner { frame, is_for_lan }: Inner<I::Frame>) {
        if is_for_lan {
            self.wan.io.lan(frame);
        } else {
            self.counts.after_order += 1;
            self.counts.drop(Dropped::Mark);
        }
    }

    fn discard(&mut self, inner: Inner<I::Frame>) {
        drop(inner);
    }

    fn report(&mut self, report: Report) {
        self.wan.message(&Message::Report(report));
    }
}
