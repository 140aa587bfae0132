//! The station of the WAN port, at work: frames from the worker, orders to it.

use std::net::IpAddr;

use common::time::Time;
use common::wire::MacAddr;

use super::neighbour::{Neighbour, Settings};
use crate::config::UdpSettings;
use crate::worker::station::{ControlEnd, Order, Short};

/// Identifier of its pings. Another program at the same address there is none.
const IDENT: u16 = 0x4c52;

/// What is known of the way to the peer.
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
}

/// The station, and the way to its worker.
pub struct Station {
    neighbour: Neighbour,
    end: ControlEnd,
    /// What the worker knows; `None`: nothing yet.
    told: Option<Option<MacAddr>>,
    next_hop: IpAddr,
    peer: IpAddr,
}

impl Station {
    /// A station with these addresses on a port with the address `mac`.
    pub fn new(udp: &UdpSettings, mac: MacAddr, end: ControlEnd, now: Time) -> Self {
        let &UdpSettings { address, gateway, peer, .. } = udp;
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
        Self { neighbour: Neighbour::new(settings, now), end, told: None, next_hop, peer }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Time) {
        while let Some(frame) = self.end.frame() {
            self.neighbour.on_frame(frame.to_vec());
        }
        for frame in self.neighbour.poll(now) {
            if let Ok(short) = Short::try_from(&frame[..]) {
                // If the worker is that far behind, the frame is lost as on any link.
                let _ = self.end.order(Order::Send(short));
            }
        }
        let mac = self.neighbour.next_hop();
        if self.told != Some(mac) && self.end.order(Order::NextHop(mac)) {
            self.told = Some(mac);
        }
    }

    /// What is known of the way to the peer.
    pub fn way(&self, now: Time) -> Way {
        Way {
            next_hop: self.next_hop,
            mac: self.neighbour.next_hop(),
            peer: self.peer,
            is_answered: self.neighbour.is_answered(now),
        }
    }
}
