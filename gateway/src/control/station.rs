//! The station of the WAN port, at work: frames from the worker, orders to it.

use std::net::IpAddr;

use common::time::{Span, Time};
use common::wire::MacAddr;

use super::neighbour::{Neighbour, Settings};
use crate::config::UdpSettings;
use crate::worker::station::{ControlEnd, Short};

/// Identifier of its pings. Another program at the same address there is none.
const IDENT: u16 = 0x4c52;

/// The way to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The neighbour that leads to the peer: a router, or the peer.
    pub next_hop: IpAddr,
    /// Its MAC address, if it answers.
    pub mac: Option<MacAddr>,
    /// The peer.
    pub peer: IpAddr,
    /// Whether the peer's address answers pings.
    pub is_answered: bool,
    /// Another address sends to the tunnel.
    pub has_stranger: bool,
}

/// A drop counts as recent for this time. It is longer than the second between two HELLOs, so that a box that keeps sending is
/// always reported. It is shorter than the time that a problem stands before it is logged, so that one stray datagram is not.
const RECENT: Span = Span::from_millis(1_900);

/// Whether a counter has grown lately.
#[derive(Debug, Default)]
struct Recent {
    count: u64,
    grown_at: Option<Time>,
}

impl Recent {
    fn look(&mut self, count: u64, now: Time) -> bool {
        if count != self.count {
            (self.count, self.grown_at) = (count, Some(now));
        }
        self.grown_at.is_some_and(|at| now.since(at) < RECENT)
    }
}

/// Frames that are taken from the workers in one go. A flood waits in their rings, and is dropped there.
const FRAMES_MAX: usize = 64;

/// The station, and the way to the workers.
pub struct Station {
    neighbour: Neighbour,
    end: ControlEnd,
    /// The next hop that the workers were told; `None`: nothing yet.
    told: Option<Option<MacAddr>>,
    strangers: Recent,
    next_hop: IpAddr,
    peer: IpAddr,
    vlan: Option<u16>,
}

impl Station {
    /// A station with these addresses on a port with the address `mac`.
    pub fn new(udp: &UdpSettings, mac: MacAddr, end: ControlEnd, now: Time) -> Self {
        let &UdpSettings { address, gateway, peer, vlan, .. } = udp;
        let settings = Settings {
            mac,
            address: address.addr(),
            prefix_len: address.prefix_len(),
            gateway,
            peer,
            ident: IDENT,
        };
        let is_near = address.contains(&peer);
        let next_hop = gateway.filter(|_| !is_near).unwrap_or(peer);
        Self {
            neighbour: Neighbour::new(settings, now),
            end,
            told: None,
            strangers: Recent::default(),
            next_hop,
            peer,
            vlan,
        }
    }

    /// Exchanges frames with the workers and runs the timers. While the tunnel `is_up`, the workers keep the next hop that it has.
    pub fn poll(&mut self, now: Time, is_up: bool) {
        for frame in std::iter::from_fn(|| self.end.frame()).take(FRAMES_MAX) {
            if let Some(frame) = untagged(&frame, self.vlan) {
                self.neighbour.on_frame(frame);
            }
        }
        for frame in self.neighbour.poll(now, is_up) {
            if let Ok(short) = Short::try_from(&tagged(frame, self.vlan)[..]) {
                // If the worker is that far behind, the frame is lost as on any link.
                let _ = self.end.send(short);
            }
        }
        let mac = self.neighbour.next_hop();
        if self.told != Some(mac) && self.end.tell(mac) {
            self.told = Some(mac);
        }
    }

    /// The way to the peer. So many frames of other addresses were `refused` since the start. To be called
    /// about twice a second.
    pub fn way(&mut self, now: Time, refused: u64) -> Way {
        Way {
            next_hop: self.next_hop,
            mac: self.neighbour.next_hop(),
            peer: self.peer,
            is_answered: self.neighbour.is_answered(now),
            has_stranger: self.strangers.look(refused, now),
        }
    }
}

/// EtherType of a VLAN tag (IEEE 802.1Q).
const TAGGED: [u8; 2] = [0x81, 0x00];
/// Bytes of the MAC addresses in front of a tag, and with the tag.
const TAG: [usize; 2] = [12, 16];

/// A frame of the port's VLAN, without its tag; `None` of any other frame. The priority of a tag is of no interest.
fn untagged(frame: &[u8], vlan: Option<u16>) -> Option<Vec<u8>> {
    let Some(vlan) = vlan else { return Some(frame.to_vec()) };
    let (tag, rest) = frame.get(TAG[0]..)?.split_first_chunk::<4>()?;
    let is_ours = tag[..2] == TAGGED && u16::from_be_bytes([tag[2], tag[3]]) & 0xfff == vlan;
    is_ours.then(|| [&frame[..TAG[0]], rest].concat())
}

/// A frame with the tag of the port's VLAN, if it has one.
fn tagged(mut frame: Vec<u8>, vlan: Option<u16>) -> Vec<u8> {
    if let Some(vlan) = vlan.filter(|_| frame.len() >= TAG[0]) {
        frame.splice(TAG[0]..TAG[0], TAGGED.into_iter().chain(vlan.to_be_bytes()));
    }
    frame
}

#[cfg(test)]
mod tests {
    use common::heap::HeapFrame;

    use super::*;
    use crate::worker::station::join;

    /// A worker that is given more frames while the station takes them keeps neither the main thread nor the other
    /// workers' frames waiting.
    #[test]
    fn a_flood_at_one_worker_is_bounded_and_the_others_have_their_turn() {
        let (mut workers, mut end) = join(3);
        for _ in 0..2 * FRAMES_MAX {
            workers[0].receive(&HeapFrame::from(vec![0; 60]));
        }
        workers[2].receive(&HeapFrame::from(vec![2; 60]));
        assert_eq!([end.frame(), end.frame()].map(|frame| frame.expect("two")[0]), [0, 2]);
        let udp = UdpSettings {
            address: crate::config::IpNet::new([192, 0, 2, 1].into(), 24).expect("a prefix"),
            gateway: None,
            peer: [192, 0, 2, 2].into(),
            dscp: None,
            vlan: None,
        };
        for worker in &mut workers {
            for _ in 0..FRAMES_MAX {
                worker.receive(&HeapFrame::from(vec![1; 60]));
            }
        }
        let mut station = Station::new(&udp, [2, 0, 0, 0, 0, 1], end, Time::ZERO);
        station.poll(Time::ZERO, false);
        let rest = std::iter::from_fn(|| station.end.frame()).count();
        assert_eq!(rest, 2 * FRAMES_MAX, "of three full rings one was emptied");
    }

    #[test]
    fn one_stray_datagram_is_soon_forgotten() {
        let at = |half: u64| Time::from_nanos(1_000_000_000) + Span::from_millis(500) * half;
        let mut strangers = Recent::default();
        assert!(!strangers.look(0, at(0)));
        let seen: Vec<_> = (1..7).map(|half| strangers.look(1, at(half))).collect();
        assert_eq!(seen, [true, true, true, true, false, false]);
        assert!((8..30).all(|half| strangers.look(half / 2, at(half))), "one in a second");
    }

    #[test]
    fn a_station_in_a_vlan_takes_and_sends_frames_of_that_vlan_only() {
        let plain = [[2; 12].as_slice(), &[8, 6, 1, 2, 3]].concat();
        let of_vlan = |id: [u8; 2]| [&[2; 12][..], &[0x81, 0], &id, &[8, 6, 1, 2, 3]].concat();
        assert_eq!(tagged(plain.clone(), None), plain);
        assert_eq!(tagged(plain.clone(), Some(0x123)), of_vlan([1, 0x23]));
        assert_eq!(untagged(&plain, None).as_ref(), Some(&plain));
        assert_eq!(untagged(&of_vlan([1, 0x23]), Some(0x123)).as_ref(), Some(&plain));
        // With priority 6 and the drop eligible bit.
        assert_eq!(untagged(&of_vlan([0xd1, 0x23]), Some(0x123)).as_ref(), Some(&plain));
        for other in [plain, of_vlan([0, 0]), of_vlan([1, 0x24]), vec![2; 13]] {
            assert_eq!(untagged(&other, Some(0x123)), None, "{other:?}");
        }
    }
}
