//! Repair frames. R-TUN-67

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet, Shared};
use common::time::Time;
use common::wire::{Exceptions, exceptions};
use fec::Plan;

use super::ports::{self, Inner, Lan, Ready};
use super::{Dropped, Io, Tunnel};
use crate::number::{Lane, Number, Port};
use crate::protection::{Protected, Protection};
use crate::session::Peer;
use crate::shim::{RepairShim, Shim};

impl<F: Headroom> Tunnel<F> {
    /// Sends repair frames by this plan, and decodes those of the peer, in sessions in which the peer does so too. To be called
    /// before the first HELLO leaves.
    pub fn protect_lanes(&mut self, plan: Plan) {
        let session = &self.config.session;
        let longest = usize::from(session.frame_max);
        self.protection = Some(Box::new(Protection::new(plan, session.lanes, longest)));
        self.end.repairs = true;
    }

    /// Counts of repair frames, if this box sends and decodes them.
    pub fn protected(&self) -> Option<&Protected> {
        self.protection.as_ref().map(|protection| &protection.counts)
    }

    /// A session began.
    pub(super) fn begin_repairs(&mut self, peer: &Peer) {
        let Some(protection) = &mut self.protection else { return };
        if peer.features.is_some_and(|features| features.repairs) {
            let session = &self.config.session;
            protection.begin(peer.session, self.end.frame_max(session), session.overhead);
        }
    }

    /// Sends wrapped frames, each with the repair frame that is due behind it.
    pub(super) fn send_protected<I: Io<Frame = F>, const N: usize>(
        &mut self,
        port: Port,
        wrapped: &mut ArrayVec<F::Shared, N>,
        io: &mut I,
    ) {
        let Some(protection) = &mut self.protection else { return };
        let mut ready = ArrayVec::<_, N>::new();
        let mut left = wrapped.len();
        for frame in wrapped.drain(..) {
            let ahead = ready.len() + left;
            left -= 1;
            let sent = self.config.ports[port.index()].sent(frame.bytes());
            let mut counts = protection.counts;
            let due = sent.and_then(|(shim, parts)| protection.sent(shim.lane, shim.number, parts));
            let repair = due.and_then(|due| {
                ports::repair(io, &self.config, &self.ways, due, ahead, &mut counts)
            });
            protection.counts = counts;
            ready.push(frame);
            if let Some((port, repair)) = repair {
                io.wan_all(port, &mut ready);
                io.wan(port, Class::Data, Packet::Owned(repair));
            }
        }
        io.wan_all(port, &mut ready);
    }

    /// Adds a frame that has arrived to its sums.
    pub(super) fn add(&mut self, port: Port, frame: &[u8]) {
        let Some(protection) = &mut self.protection else { return };
        let Some((shim, parts)) = self.config.ports[port.index()].arrived(frame) else { return };
        if shim.session != self.end.own() || !protection.is_decoding(shim.lane) {
            return;
        }
        let number = self.receiver.number(&self.config.receiver, shim.lane, shim.number);
        if let Some(number) = number {
            protection.arrived(shim.lane, number, parts);
            self.receiver.set_plan(shim.lane, protection.peers_plan(shim.lane));
        }
    }

    /// A repair frame, whose sum begins at byte `at`.
    pub(super) fn on_repair<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        (shim, at): (&RepairShim, usize),
        frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        let next = self.receiver.next(shim.lane);
        let (Some(protection), Some(next)) = (&mut self.protection, next) else {
            return self.counts.drop(Dropped::Shim);
        };
        if shim.session != self.end.own() || !protection.is_on() {
            return self.counts.drop(Dropped::Session);
        }
        self.counts.repairs += 1;
        protection.repair(shim, next, frame.bytes().get(at..).unwrap_or_default());
        self.receiver.set_plan(shim.lane, protection.peers_plan(shim.lane));
        self.take_decoded(now, port, shim.lane, ready, io);
    }

    /// Takes all frames of a lane that can be decoded.
    pub(super) fn take_decoded<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        lane: Lane,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        let own = self.end.own();
        while let Some(protection) = &mut self.protection
            && let Some((number, bytes)) = protection.decoded(lane)
        {
            // A frame that was too long to be in a sum.
            if bytes.is_empty() {
                continue;
            }
            let found = self.config.ports[port.index()].decoded(bytes);
            let is_it =
                |shim: &Shim| (shim.lane, shim.number, shim.session) == (lane, number.wire(), own);
            let frame = found.filter(|(shim, _)| is_it(shim)).and_then(|(shim, [macs, rest])| {
                let mut frame = io.alloc(macs.len() + rest.len())?;
                frame.bytes_mut()[..macs.len()].copy_from_slice(macs);
                frame.bytes_mut()[macs.len()..].copy_from_slice(rest);
                Some((shim, frame))
            });
            let Some((shim, frame)) = frame else {
                protection.counts.faulty += 1;
                continue;
            };
            protection.counts.decoded += 1;
            self.on_decoded(now, number, &shim, frame, ready, io);
        }
    }

    /// A frame that was lost, and decoded.
    fn on_decoded<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        number: Number,
        shim: &Shim,
        frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        self.counts.decoded += 1;
        let Exceptions { is_mac_control, may_be_notable } = exceptions(frame.bytes());
        let inner = Inner { frame, is_for_lan: !is_mac_control, may_be_notable };
        let wan = ports::wan_of!(self, io);
        let mut lan = Lan { wan, counts: &mut self.counts, ready, together: None };
        self.receiver.on_decoded(&self.config.receiver, now, (shim, number), inner, &mut lan);
        self.due = self.due.min(self.receiver.due_of(&self.config.receiver, shim.lane));
    }
}
