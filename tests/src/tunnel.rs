//! An end of a tunnel, alone or with repair of the LANs beside it.

use common::control::{BootId, Keys, NodeId};
use common::heap::HeapFrame;
use common::time::Span;
use common::verdict::Tolerance;
use datapath::{Datapath, Which};
use tunnel::session::SessionConfig;
use tunnel::{Config, Part, ReceiverConfig, SenderConfig, report_interval};

use crate::end::FIRST_BOOT;
use crate::underlay::{Underlay, wrapping_bits};

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

/// The end at box `me` of the tunnel `part` over this network, whose round trip is `rtt`, and the LAN repair of `lan`, if
/// there is one.
pub(crate) fn tunnel_end(
    (me, part): (usize, Part),
    boot: BootId,
    keys: Keys,
    (underlay, rtt): (&Underlay, Span),
    lan: Option<(switch::Config, Which)>,
) -> Datapath<HeapFrame> {
    let (lanes, ports) = (underlay.lanes, underlay.ports());
    let encapsulations = underlay.encapsulations(me, part);
    let mut session = SessionConfig {
        node: NodeId(me as u32 + 1),
        boot,
        random: (boot.0 << 1 | me as u64) ^ u64::from(part.index()) << 48,
        part,
        lanes,
        ports,
        frame_max: FRAME_MAX,
        overhead: (encapsulations[0].shim_at() - encapsulations[0].tag_len()) as u16,
        lans: Default::default(),
        hello_interval: Span::from_millis(200),
        peer_timeout: Span::from_millis(1_000),
    };
    if underlay.wraps && boot == FIRST_BOOT {
        session.random = wrapping_bits(me, &session);
    }
    let config = Config {
        session,
        ports: encapsulations,
        sender: SenderConfig {
            lanes,
            rtt,
            cache_max: 1 << 16,
            give_up: rtt * 5,
            ports,
            spray: underlay.sprays[me],
            resend_copies: underlay.resend_copies[me],
        },
        receiver: ReceiverConfig {
            lanes,
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
    let mut end = Datapath::tunnel(config, lan);
    if let Some(plan) = underlay.plans[me] {
        end.protect_lanes(plan);
    }
    end
}
