//! A box with the tunnel in place of a switch.

use common::control::{BootId, Keys, NodeId};
use common::frame::{Class, Packet, Pool, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::time::{Span, Time};
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation};
use tunnel::session::SessionConfig;
use tunnel::{Config, Io, ReceiverConfig, SenderConfig, Tunnel, report_interval};

/// Longest frame of a NIC and the tunnel's headers.
const FRAME_MAX: u16 = 4_400;

/// One end of a tunnel over Ethernet.
pub(crate) struct TunnelBox(Tunnel<HeapFrame>);

struct Ports<'a, S>(&'a mut S);

impl TunnelBox {
    /// Box `me` of a link of this round trip.
    pub fn new(me: usize, boot: BootId, keys: Keys, rtt: Span) -> Self {
        let encapsulation = Encapsulation::Ethernet {
            ethertype: DEFAULT_ETHERTYPE,
            mac: [2, 0, 0, 0, 9, me as u8],
        };
        Self(Tunnel::new(Config {
            session: SessionConfig {
                node: NodeId(me as u32 + 1),
                boot,
                random: boot.0 << 1 | me as u64,
                lanes: 1,
                frame_max: FRAME_MAX,
                overhead: encapsulation.shim_at() as u16,
                hello_interval: Span::from_millis(200),
                peer_timeout: Span::from_millis(1_000),
            },
            encapsulation,
            sender: SenderConfig { lanes: 1, rtt, cache_max: 1 << 16 },
            receiver: ReceiverConfig {
                lanes: 1,
                window: 1 << 16,
                waiting_max: 1 << 12,
                give_up: rtt * 5,
                report_interval: report_interval(rtt),
                loss_wait: rtt / 4,
                report_at_once: Span::from_micros(20),
            },
            keys,
        }))
    }

    /// A frame that arrives.
    pub fn receive<S: Sink<Frame = HeapFrame>>(
        &mut self,
        side: Side,
        frame: HeapFrame,
        now: Time,
        sink: &mut S,
    ) {
        match side {
            Side::Lan => self.0.on_lan(now, frame, &mut Ports(sink)),
            Side::Wan => self.0.on_wan(now, frame, &mut Ports(sink)),
        }
    }

    /// Leaves the session.
    pub fn close<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        self.0.close(now, &mut Ports(sink));
    }

    /// Does everything that is due.
    pub fn timers<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        if self.0.deadline() <= now {
            self.0.on_timer(now, &mut Ports(sink));
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        self.0.deadline()
    }

    /// Frames held for their predecessors.
    pub fn held(&self) -> u64 {
        self.0.waiting() as u64
    }

    /// Checks the books.
    pub fn check_books(&self) {
        assert!(self.0.is_balanced(), "a tunnel's books: {:?}", self.0.counts());
    }
}

impl<S: Sink<Frame = HeapFrame>> Io for Ports<'_, S> {
    type Frame = HeapFrame;

    fn admits(&mut self) -> bool {
        true
    }

    fn wan(&mut self, class: Class, packet: Packet<HeapFrame>) {
        self.0.transmit(Side::Wan, class, packet);
    }

    fn lan(&mut self, frame: HeapFrame) {
        self.0.transmit(Side::Lan, Class::Data, Packet::Owned(frame));
    }

    fn local(&mut self, _: HeapFrame) {}

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        HeapPool.alloc(len)
    }
}
