//! Tells the main thread of the boxes at the other end, ten times a second. No packet pays for it.

use arrayvec::ArrayVec;
use common::control::VERSION;
use common::frame::{Frame, Headroom};
use common::time::{Span, Time};
use rtrb::{Consumer, Producer, RingBuffer};
use switch::{PeerState, Switch};
use tunnel::Tunnel;
use tunnel::session::State;

use super::events::session_up;
use crate::peer::{News, Report, Seen, Standing, Via, refused, rejected};
use crate::port::PortId;

/// Time between two reports.
const INTERVAL: Span = Span::from_millis(100);
/// Reports that may wait for the main thread, which takes them all every 20 ms.
const DEPTH: usize = 256;
/// Boxes that a worker without a tunnel tells of: those that were heard last.
const BOXES: usize = 64;

/// The worker's end.
pub struct Reporter {
    to: Producer<Report>,
    due: Time,
}

/// The main thread's end.
pub type ControlEnd = Consumer<Report>;

/// Both ends.
pub fn pair() -> (Reporter, ControlEnd) {
    let (to, from) = RingBuffer::new(DEPTH);
    (Reporter { to, due: Time::ZERO }, from)
}

impl Reporter {
    /// Whether it is time to report.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + INTERVAL;
        }
        is_due
    }

    /// Tells of the box at the other end of tunnel `index`.
    pub fn tunnel<F: Headroom>(&mut self, index: u8, tunnel: &Tunnel<F>, now: Time) {
        let session = tunnel.session();
        let news = match session.state() {
            State::Searching => News::Nobody,
            State::Heard(peer) | State::Up(peer) => {
                let is_up = session.up().is_some();
                let lanes = || tunnel.lanes(now).filter(|lane| lane.sent.frames > 0);
                let oldest = lanes().map(|lane| lane.report_age).max();
                News::Seen(Seen {
                    node: peer.node,
                    boot: peer.boot,
                    via: Via::Port(PortId::wan(tunnel::Port::default()).name()),
                    standing: if is_up { Standing::Session } else { Standing::Heard },
                    version: tunnel::shim::VERSION,
                    heard: session.heard_at(),
                    reported: oldest.map(|age| now - age),
                    round_trip: lanes()
                        .filter(|lane| lane.rtt.is_measured())
                        .map(|lane| lane.rtt.mean())
                        .min(),
                    told: is_up.then(|| session_up(peer)),
                })
            }
        };
        self.say(Some(index), news);
        if let Some((reason, at)) = session.last_refusal() {
            let reason = refused(reason);
            self.say(Some(index), News::Refused { reason, from: None, at });
        }
    }

    /// Tells of the boxes that a switch knows.
    pub fn switch<F: Frame>(&mut self, switch: &Switch<F>) {
        for peer in newest(switch.peers()) {
            let seen = Seen {
                node: peer.node,
                boot: peer.boot,
                via: Via::Host(peer.address.to_ip()),
                standing: if peer.hears_us() { Standing::Knows } else { Standing::Heard },
                version: VERSION,
                heard: peer.heard,
                reported: peer.reported,
                round_trip: peer.round_trip,
                told: None,
            };
            self.say(None, News::Seen(seen));
        }
        if let Some(refusal) = switch.last_refusal() {
            let (reason, from) = (rejected(refusal.reason), Some(refusal.address.to_ip()));
            self.say(None, News::Refused { reason, from, at: refusal.at });
        }
    }

    fn say(&mut self, tunnel: Option<u8>, news: News) {
        // If the main thread is that far behind, the next one will do.
        let _ = self.to.push(Report { tunnel, news });
    }
}

/// The boxes that were heard last, the newest first.
fn newest(all: impl Iterator<Item = PeerState>) -> ArrayVec<PeerState, BOXES> {
    let mut newest = ArrayVec::<PeerState, BOXES>::new();
    for peer in all {
        let at = newest.partition_point(|other| other.heard >= peer.heard);
        if newest.is_full() && at < BOXES {
            newest.pop();
        }
        // There is no room for one that is older than all of them.
        let _ = newest.try_insert(at, peer);
    }
    newest
}

#[cfg(test)]
mod tests {
    use common::ids::{BootId, NodeId};
    use common::wire::Addr;
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn of_too_many_boxes_the_newest_are_told() {
        let peer = |n: u32| PeerState {
            node: NodeId(n),
            boot: BootId(1),
            address: Addr::from(IpAddr::from([10, 0, 0, 1])),
            // In no order.
            heard: Time::from_nanos(u64::from(n * 7 % 200)),
            named_us: None,
            reported: None,
            round_trip: None,
        };
        let heard = |peers: u32| -> Vec<u64> {
            newest((0..peers).map(peer)).iter().map(|it| it.heard.as_nanos()).collect()
        };
        assert_eq!(heard(200), (136..200).rev().collect::<Vec<_>>());
        assert_eq!(heard(3), [14, 7, 0]);
    }
}
