//! The WAN port as a station with an IP address: it answers ARP, neighbour discovery and ping, and knows
//! the MAC address of the next hop towards the peer.
//!
//! The protocols are those of `smoltcp`. It has no list of neighbours for others to read; so the peer is
//! pinged, and the next hop is the address that the ping goes to. The answer says that the
//! path is there, whether or not the other box has a session.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use common::time::{Span, Time};
use common::wire::MacAddr;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::icmp::{Endpoint, PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpCidr};

/// Time between two pings.
const INTERVAL: Span = Span::from_millis(1_000);
/// Silence after which a neighbour is asked for again, or is no neighbour any more.
const SILENCE: Span = Span::from_millis(3_500);
/// Frames that wait to be looked at. Others are dropped, as a host under a flood drops them.
const BACKLOG: usize = 64;
/// Bytes of the longest IP packet of these protocols.
const MTU: usize = 1280;
const ETHER_LEN: usize = 14;
/// Bytes of a ping: an ICMP header.
const PING_LEN: usize = 8;

/// Settings of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// MAC address of the port.
    pub mac: MacAddr,
    /// IP address of the port.
    pub address: IpAddr,
    /// Length of the prefix that its link has.
    pub prefix_len: u8,
    /// The router towards a peer outside the prefix.
    pub gateway: Option<IpAddr>,
    /// The peer, of the same family.
    pub peer: IpAddr,
    /// Tells its pings from those of others.
    pub ident: u16,
}

/// A station on a link.
pub struct Neighbour {
    settings: Settings,
    interface: Interface,
    sockets: SocketSet<'static>,
    pings: SocketHandle,
    queues: Queues,
    next_hop: Option<MacAddr>,
    /// When the newest ping left, which takes a next hop.
    left_at: Time,
    /// When the newest ping was answered.
    answered_at: Option<Time>,
    /// When next hops were last asked for anew.
    asked_at: Time,
    ping_at: Time,
    seq: u16,
}

/// Frames in and out.
#[derive(Default)]
struct Queues {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Neighbour {
    /// A station that knows no one yet.
    ///
    /// # Panics
    /// If the prefix is longer than the address.
    pub fn new(settings: Settings, now: Time) -> Self {
        let mut queues = Queues::default();
        let config = Config::new(EthernetAddress(settings.mac).into());
        let mut interface = Interface::new(config, &mut queues, instant(now));
        let cidr = IpCidr::new(settings.address.into(), settings.prefix_len);
        interface.update_ip_addrs(|addresses| {
            // There is room for two.
            let _ = addresses.push(cidr);
            if settings.address.is_ipv6() {
                let _ = addresses.push(IpCidr::new(link_local(settings.mac).into(), 64));
            }
        });
        let routes = interface.routes_mut();
        // The table is empty: there is room for a route.
        let _ = match settings.gateway {
            Some(IpAddr::V4(gateway)) => routes.add_default_ipv4_route(gateway),
            Some(IpAddr::V6(gateway)) => routes.add_default_ipv6_route(gateway),
            None => Ok(None),
        };
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; 4], vec![0; 256]);
        let mut socket = Socket::new(buffer(), buffer());
        // An unbound socket and an ident that is none are the only errors.
        let _ = socket.bind(Endpoint::Ident(settings.ident));
        let mut sockets = SocketSet::new(Vec::new());
        let pings = sockets.add(socket);
        Self {
            settings,
            interface,
            sockets,
            pings,
            queues,
            next_hop: None,
            left_at: now,
            answered_at: None,
            asked_at: now,
            ping_at: now,
            seq: 0,
        }
    }

    /// The MAC address of the next hop; `None` if there was none, or none answers any more.
    pub fn next_hop(&self) -> Option<MacAddr> {
        self.next_hop
    }

    /// Whether the peer's address answers pings.
    pub fn is_answered(&self, now: Time) -> bool {
        self.answered_at.is_some_and(|at| now.since(at) < SILENCE)
    }

    /// A frame that is for the port itself. It is looked at by [`poll`](Self::poll).
    pub fn on_frame(&mut self, frame: Vec<u8>) {
        if self.queues.received.len() < BACKLOG {
            self.queues.received.push_back(frame);
        }
    }

    /// When [`poll`](Self::poll) has to be called, if no frame comes before.
    pub fn deadline(&self) -> Time {
        self.ping_at
    }

    /// Looks at frames, and does everything that is due. Gives the frames to send. While `is_path_proven` by something else
    /// than pings, which a firewall may drop, the next hop stays as it is.
    pub fn poll(&mut self, now: Time, is_path_proven: bool) -> impl Iterator<Item = Vec<u8>> {
        if now >= self.ping_at {
            self.ping_at = now + INTERVAL;
            self.ping();
        }
        let silent_since = self.answered_at.unwrap_or_default().max(self.asked_at);
        if !is_path_proven && now.since(silent_since) >= SILENCE {
            self.asked_at = now;
            // The next hop may have another MAC address by now. This empties the table of neighbours.
            self.interface.update_ip_addrs(|_| {});
        }
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
        self.read(now);
        for frame in &self.queues.sent {
            if is_to(frame, self.settings.peer) {
                (self.next_hop, self.left_at) = (frame.first_chunk().copied(), now);
            }
        }
        if !is_path_proven && now.since(self.left_at) >= SILENCE {
            self.next_hop = None;
        }
        self.queues.sent.drain(..)
    }

    /// Puts a ping into the socket, unless one waits there for its next hop.
    fn ping(&mut self) {
        let Settings { address, peer, ident, .. } = self.settings;
        let socket = self.sockets.get_mut::<Socket>(self.pings);
        if socket.send_queue() > 0 {
            return;
        }
        let Ok(out) = socket.send(PING_LEN, peer.into()) else { return };
        self.seq = self.seq.wrapping_add(1);
        let (seq_no, data, sums) = (self.seq, &[][..], ChecksumCapabilities::default());
        match (address, peer) {
            (IpAddr::V6(from), IpAddr::V6(to)) => Icmpv6Repr::EchoRequest { ident, seq_no, data }
                .emit(&from, &to, &mut Icmpv6Packet::new_unchecked(out), &sums),
            _ => Icmpv4Repr::EchoRequest { ident, seq_no, data }
                .emit(&mut Icmpv4Packet::new_unchecked(out), &sums),
        }
    }

    /// Takes the answers. The socket gets those with its ident only.
    fn read(&mut self, now: Time) {
        let socket = self.sockets.get_mut::<Socket>(self.pings);
        while let Ok((packet, from)) = socket.recv() {
            // Type "echo reply" of ICMP and of ICMPv6.
            let is_reply = matches!(packet.first(), Some(0 | 129));
            if is_reply && IpAddr::from(from) == self.settings.peer {
                self.answered_at = Some(now);
            }
        }
    }
}

/// Whether a frame is an IP packet to this address.
fn is_to(frame: &[u8], to: IpAddr) -> bool {
    let starts =
        |at: usize, with: &[u8]| frame.get(at..).is_some_and(|rest| rest.starts_with(with));
    match to {
        IpAddr::V4(to) => {
            starts(ETHER_LEN - 2, &[0x08, 0x00]) && starts(ETHER_LEN + 16, &to.octets())
        }
        IpAddr::V6(to) => {
            starts(ETHER_LEN - 2, &[0x86, 0xdd]) && starts(ETHER_LEN + 24, &to.octets())
        }
    }
}

/// The address that a station with this MAC address has on each IPv6 link (RFC 4291), beside any other.
fn link_local([a, b, c, d, e, f]: MacAddr) -> Ipv6Addr {
    let [high, low] = [[0xfe, 0x80, 0, 0, 0, 0, 0, 0], [a ^ 2, b, c, 0xff, 0xfe, d, e, f]];
    (u128::from(u64::from_be_bytes(high)) << 64 | u128::from(u64::from_be_bytes(low))).into()
}

fn instant(time: Time) -> Instant {
    Instant::from_micros(i64::try_from(time.as_nanos() / 1000).unwrap_or(i64::MAX))
}

impl Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let frame = self.received.pop_front()?;
        Some((Received(frame), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU + ETHER_LEN;
        capabilities
    }
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.push(frame);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000);

    fn address(v4: bool, subnet: u8, host: u8) -> IpAddr {
        if v4 {
            [10, 0, subnet, host].into()
        } else {
            [0xfd00, 0, 0, subnet.into(), 0, 0, 0, host.into()].into()
        }
    }

    /// Station `host`, whose MAC address ends with that number.
    fn station(v4: bool, host: u8, peer: IpAddr, gateway: Option<IpAddr>) -> Neighbour {
        let settings = Settings {
            mac: [2, 0, 0, 0, 0, host],
            address: address(v4, 0, host),
            prefix_len: if v4 { 24 } else { 64 },
            gateway,
            peer,
            ident: 7,
        };
        Neighbour::new(settings, START)
    }

    /// Both stations, on one link, for so long.
    fn talk(stations: &mut [Neighbour], from: Time, millis: u64) -> Time {
        for ms in (0..millis).step_by(10) {
            let now = from + Span::from_millis(ms);
            for me in 0..stations.len() {
                let sent: Vec<_> = stations[me].poll(now, false).collect();
                for frame in sent {
                    for (n, other) in stations.iter_mut().enumerate() {
                        if n != me {
                            other.on_frame(frame.clone());
                        }
                    }
                }
            }
        }
        from + Span::from_millis(millis)
    }

    #[test]
    fn two_stations_find_each_other() {
        for v4 in [true, false] {
            let of = |me, other| station(v4, me, address(v4, 0, other), None);
            let mut both = [of(1, 2), of(2, 1)];
            assert_eq!(both[0].next_hop(), None);
            let now = talk(&mut both, START, 3000);
            assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 2]), "v4: {v4}");
            assert_eq!(both[1].next_hop(), Some([2, 0, 0, 0, 0, 1]));
            assert!(both.iter().all(|station| station.is_answered(now)));
            // Beyond the time for which an address is remembered.
            let now = talk(&mut both, now, 70_000);
            assert!(both.iter().all(|station| station.is_answered(now)));
            assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 2]));
        }
    }

    #[test]
    fn a_far_peer_is_behind_the_gateway() {
        for v4 in [true, false] {
            let peer = address(v4, 9, 2);
            let router = || station(v4, 254, address(v4, 0, 1), None);
            let mut both = [station(v4, 1, peer, Some(address(v4, 0, 254))), router()];
            let now = talk(&mut both, START, 3000);
            assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 254]), "v4: {v4}");
            assert!(!both[0].is_answered(now), "nobody forwards");
            // Another router takes over the address.
            both[1].interface.set_hardware_addr(EthernetAddress([2, 0, 0, 0, 9, 9]).into());
            talk(&mut both, now, 8000);
            assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 9, 9]), "v4: {v4}");
        }
    }

    #[test]
    fn a_router_may_have_a_link_local_address() {
        let (peer, router_ip) = (address(false, 9, 2), "fe80::1".parse().expect("an address"));
        let mut router = station(false, 254, link_local([2, 0, 0, 0, 0, 1]).into(), None);
        router.interface.update_ip_addrs(|addresses| {
            *addresses.last_mut().expect("its link-local address") =
                IpCidr::new(IpAddr::into(router_ip), 64);
        });
        let mut both = [station(false, 1, peer, Some(router_ip)), router];
        let now = talk(&mut both, START, 3000);
        assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 254]));
        assert!(both[1].is_answered(now), "the station has such an address as well");
        talk(&mut both, now, 10_000);
        assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 254]));
    }

    #[test]
    fn a_next_hop_that_is_gone_is_none() {
        for v4 in [true, false] {
            let of = |me, other| station(v4, me, address(v4, 0, other), None);
            let mut both = [of(1, 2), of(2, 1)];
            let now = talk(&mut both, START, 3000);
            assert!(both[0].next_hop().is_some());
            let now = talk(&mut both[..1], now, 10_000);
            assert_eq!((both[0].next_hop(), both[0].is_answered(now)), (None, false), "v4: {v4}");
            let now = talk(&mut both, now, 8000);
            assert_eq!(both[0].next_hop(), Some([2, 0, 0, 0, 0, 2]), "v4: {v4}");
            assert!(both[0].is_answered(now));
        }
    }

    /// A firewall drops pings, and later the next hop answers no ARP. With a session, the tunnel still sends frames to its MAC address.
    #[test]
    fn a_next_hop_stays_while_there_is_a_session() {
        for v4 in [true, false] {
            let of = |me, other| station(v4, me, address(v4, 0, other), None);
            let mut both = [of(1, 2), of(2, 1)];
            let now = talk(&mut both, START, 3000);
            let known = both[0].next_hop();
            assert_eq!(known, Some([2, 0, 0, 0, 0, 2]), "v4: {v4}");
            let mut poll = |from: Time, is_up, millis| {
                let each = (0..millis).step_by(10).map(|ms| from + Span::from_millis(ms));
                each.flat_map(|now| both[0].poll(now, is_up).collect::<Vec<_>>())
                    .collect::<Vec<_>>()
            };
            let sent = poll(now, true, 20_000);
            let is_ping = |frame: &&Vec<u8>| is_to(frame, address(v4, 0, 2));
            assert_eq!(
                sent.iter().filter(is_ping).count(),
                sent.len(),
                "nobody is asked for a known address"
            );
            poll(now + Span::from_millis(20_000), true, 60_000);
            let now = now + Span::from_millis(80_000);
            let kept = both[0].next_hop();
            assert_eq!((kept, both[0].is_answered(now)), (known, false), "v4: {v4}");
            let mut alone = both;
            talk(&mut alone[..1], now, 4000);
            assert_eq!(alone[0].next_hop(), None, "the session is over");
        }
    }

    #[test]
    fn an_unreachable_peer_costs_a_frame_a_second() {
        let mut alone = station(true, 1, address(true, 0, 2), None);
        let mut sent = 0;
        for ms in 0..20_000 {
            sent += alone.poll(START + Span::from_millis(ms), false).count();
        }
        assert!((10..=25).contains(&sent), "{sent} frames");
        assert_eq!(alone.next_hop(), None);
    }

    /// Damaged frames, and as many as anybody likes, change nothing but the answers.
    #[test]
    fn any_frame_is_survived_and_a_flood_is_bounded() {
        for v4 in [true, false] {
            let of = |me, other| station(v4, me, address(v4, 0, other), None);
            let mut both = [of(1, 2), of(2, 1)];
            let mut good: Vec<Vec<u8>> = Vec::new();
            for ms in (0..3000).step_by(10) {
                let now = START + Span::from_millis(ms);
                for me in 0..2 {
                    let sent: Vec<_> = both[me].poll(now, false).collect();
                    good.extend(sent.iter().cloned());
                    sent.into_iter().for_each(|frame| both[1 - me].on_frame(frame));
                }
            }
            let now = START + Span::from_millis(3000);
            for frame in &good {
                for at in 0..frame.len() {
                    both[1].on_frame(frame[..at].to_vec());
                    let mut bad = frame.clone();
                    bad[at] ^= 0xff;
                    both[1].on_frame(bad);
                    let _ = both[1].poll(now, false).count();
                }
            }
            for _ in 0..1000 {
                both[1].on_frame(good[0].clone());
            }
            assert_eq!(both[1].queues.received.len(), BACKLOG);
            let answers = both[1].poll(now, false).count();
            assert!(answers <= BACKLOG + 1, "{answers}");
        }
    }
}
