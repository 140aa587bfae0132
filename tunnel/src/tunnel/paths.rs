//! The use of paths by the longest frames that they carry.

use common::frame::Headroom;
use common::time::Time;

use super::{Io, Tunnel, ports};
use crate::encapsulation::Encapsulation;
use crate::message::{Message, PATH_LEN, PathProbe};
use crate::number::{Lane, Port};
use crate::paths::PathState;
use crate::session::Peer;

impl<F: Headroom> Tunnel<F> {
    /// Whether frames take a WAN port: its link is up, in this session HELLOs have passed it both ways, and at least one of its lanes
    /// carries frames as long as any other lane.
    pub fn is_used(&self, port: Port) -> bool {
        let lanes = Lane::all(self.config.session.lanes).zip(&self.used);
        lanes.into_iter().any(|(lane, is_used)| *is_used && self.port(lane) == port)
    }

    /// Bytes of the longest frame that is known to reach the peer, through any port whose link is up; 0: none is.
    pub fn longest_reached(&self) -> u16 {
        let lanes = Lane::all(self.config.session.lanes);
        lanes.map(|lane| self.reached(lane)).max().unwrap_or(0)
    }

    /// The path of a WAN port.
    pub fn path(&self, port: Port) -> PathState {
        let lanes = Lane::all(self.config.session.lanes).filter(|lane| self.port(*lane) == port);
        let reached = lanes.map(|lane| self.reached(lane));
        let (longest, shortest) = (reached.clone().max(), reached.min());
        let (longest, shortest) = (longest.unwrap_or(0), shortest.unwrap_or(0));
        PathState { longest, shortest, ..self.end.sizes.state(port) }
    }

    fn port(&self, lane: Lane) -> Port {
        lane.port(self.config.session.ports)
    }

    /// Bytes of the longest frame that reaches the peer on a lane: by its probes, or by the HELLOs of its port while none of those
    /// was answered; 0: none does, or the link is down.
    fn reached(&self, lane: Lane) -> u16 {
        let port = self.port(lane);
        let is_up = self.links.get(port.index()).copied().unwrap_or(false);
        match self.end.reached(port) {
            0 => 0,
            _ if !is_up => 0,
            by_hello => match self.end.sizes.limit(lane) {
                0 => by_hello,
                by_probe => by_probe,
            },
        }
    }

    /// Takes lanes into use, or out of it. R-TUN-29
    pub(super) fn use_lanes<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        self.longest = self.longest_reached();
        // The paths are not measured yet.
        let is_early = self.is_early(now);
        for lane in Lane::all(self.config.session.lanes) {
            let reached = self.reached(lane);
            self.used[lane.index()] = reached > 0 && (is_early || reached >= self.longest);
        }
        // Without any, nothing is better than what there was.
        if self.used.len() == 1 || !self.used.contains(&true) {
            return;
        }
        for lane in Lane::all(self.config.session.lanes) {
            let is_used = self.used[lane.index()];
            let mut wan = ports::wan_of!(self, io);
            self.sender.set_used(now, lane, is_used, &mut wan);
        }
    }

    /// Sends the probes of paths that are due.
    pub(super) fn probe_paths<I: Io<Frame = F>>(&mut self, now: Time, io: &mut I) {
        let session = &self.config.session;
        while let Some((lane, sizes)) = self.end.sizes.next(now) {
            for size in sizes {
                let padding = size.saturating_sub(session.overhead + PATH_LEN as u16);
                let probe = Message::PathProbe(PathProbe { lane, sent_at: now, padding });
                let header = self.end.header(session);
                let way = (lane.port(session.ports), lane);
                ports::send(io, &self.config, &self.ways, way, &header, &probe);
            }
        }
    }

    /// The longest frame that the paths carry; `None` if frames are not numbered. R-TUN-17
    #[inline]
    pub(super) fn limit(&self, now: Time) -> Option<u16> {
        self.end.up()?;
        let most = self.end.frame_max(&self.config.session);
        match self.longest {
            longest if longest >= most => Some(most),
            longest if !self.is_early(now) => Some(longest),
            // There is another way until the paths are known.
            _ if self.is_ethernet() => None,
            _ => Some(most),
        }
    }

    pub(super) fn is_ethernet(&self) -> bool {
        matches!(self.config.ports.first(), Some(Encapsulation::Ethernet { .. }))
    }

    /// Whether frames from the LAN are numbered, and which peer takes them.
    pub fn peer(&self, now: Time) -> Option<&Peer> {
        self.limit(now).and(self.end.up())
    }
}
