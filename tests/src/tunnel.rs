//! A box with the tunnel, alone or with repair of the LANs beside it.

use common::control::{BootId, Keys, NodeId};
use common::frame::{Class, Packet, Side, Sink};
use common::heap::HeapFrame;
use common::time::Span;
use common::verdict::Tolerance;
use datapath::{Datapath, Ports, Which};
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{Config, Part, Port, ReceiverConfig, SenderConfig, report_interval};

/// Records of each flight recorder.
pub(crate) const RECORDS: usize = 512;
/// Longest frame of a NIC and the tunnel's headers.
const FRAME_MAX: u16 = 4_400;

/// Whether the boxes have a tunnel between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnelling {
    /// They recover packets per queue pair.
    No,
    /// In place of any recovery per queue pair.
    Alone,
    /// With repair of the LANs.
    WithLanRepair(Which),
}

/// The collector of transmitted frames, as the ports of a box.
pub(crate) struct Out<'a, S>(pub &'a mut S);

impl<S: Sink<Frame = HeapFrame>> Sink for Out<'_, S> {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        self.0.transmit(side, class, packet);
    }
}

impl<S: Sink<Frame = HeapFrame>> Ports for Out<'_, S> {
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    fn local(&mut self, _: Port, _: HeapFrame) {}
}

/// Box `me` of a link of this round trip, and the LAN repair of `lan`, if there is one.
pub(crate) fn tunnel_box(
    me: usize,
    boot: BootId,
    keys: Keys,
    rtt: Span,
    lan: Option<(switch::Config, Which)>,
) -> Datapath<HeapFrame> {
    let encapsulation =
        Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: [2, 0, 0, 0, 9, me as u8] };
    let config = Config {
        session: SessionConfig {
            node: NodeId(me as u32 + 1),
            boot,
            random: boot.0 << 1 | me as u64,
            part: Part::WHOLE,
            lanes: 1,
            ports: 1,
            frame_max: FRAME_MAX,
            overhead: encapsulation.shim_at() as u16,
            lans: Default::default(),
            hello_interval: Span::from_millis(200),
            peer_timeout: Span::from_millis(1_000),
        },
        ports: vec![encapsulation],
        sender: SenderConfig {
            lanes: 1,
            rtt,
            cache_max: 1 << 16,
            ports: 1,
            spray: Policy::default(),
            resend_copies: 2,
        },
        receiver: ReceiverConfig {
            lanes: 1,
            window: 1 << 16,
            waiting_max: 1 << 12,
            waiting_room: 1 << 13,
            give_up: rtt * 5,
            report_interval: report_interval(rtt),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        },
        keys,
        records: RECORDS,
    };
    Datapath::tunnel(config, lan)
}
