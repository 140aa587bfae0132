//! Several tunnels between two boxes: which frame belongs to which.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::support::frames::{ends, inner, shim, wrapped};
use common::control::Keys;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::ids::{BootId, NodeId};
use common::wire::{Spread, rss_bucket_of_udp};
use tunnel::encapsulation::{Encapsulation, Unwrapped, source_ports};
use tunnel::message::{self, Header, Message};
use tunnel::shim::Shim;
use tunnel::{Division, Session, WireNumber};

/// R-TUN-42: frames, retransmissions and messages say to which tunnel they belong.
#[test]
fn whatever_arrives_belongs_to_one_tunnel() {
    let division = Division::new(8, Spread::Mixed).expect("a power of two");
    for (here, there) in ends() {
        let content = inner(4, 1, 0, 60);
        for part in division.parts() {
            let session = Session::new(0x0102_0300 | 0x48 | u32::from(part.index()));
            let shim = Shim { session, ..shim(1) };
            let frame = wrapped(&here, &content, &shim);
            let tunnel = there.tunnel_of(division, frame.bytes());
            assert_eq!(tunnel, Some(part.index()));
            let original = Some((shim.lane, WireNumber(9)));
            let mut again = vec![0; here.resent_len(frame.bytes().len())];
            here.rewrap(frame.bytes(), &Shim { original, ..shim }, &mut again);
            assert_eq!(there.tunnel_of(division, &again), Some(part.index()));
            let header = Header {
                node: NodeId(1),
                boot: BootId(1),
                seq: 1,
                seen_boot: BootId::NONE,
                session: Session::NONE,
                tunnel: part.index(),
            };
            let mut bytes = vec![0; here.shim_at() + message::wire_len(&Message::Bye)];
            let body = here.wrap_message(shim.lane, None, &mut bytes).expect("a way");
            message::write(&header, &Message::Bye, &Keys::unkeyed_lab(), body);
            if let Encapsulation::Udp(_) = here {
                // Its length is that of the frame.
                assert!(matches!(
                    there.unwrap(&mut HeapFrame::from(bytes.clone())),
                    Unwrapped::Control(_)
                ));
            }
            assert_eq!(there.tunnel_of(division, &bytes), Some(part.index()));
        }
        // One without a shim.
        let expected = matches!(there, Encapsulation::Ethernet { .. });
        let expected = expected.then(|| division.of_frame(&content));
        assert_eq!(there.tunnel_of(division, &content), expected);
        for len in 0..20 {
            assert!(
                there.tunnel_of(division, &content[..len.min(content.len())]).is_none_or(|n| n < 8)
            );
        }
    }
}

/// R-TUN-43
#[test]
fn each_tunnel_has_source_ports_of_its_own() {
    let [from, to]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [198, 51, 100, 7].into()];
    let whole = source_ports(tunnel::Part::WHOLE, from, to, 49_791, 3);
    assert_eq!(whole, [49_152, 49_153, 49_154]);
    for tunnels in [2, 4, 64] {
        let mut all = BTreeSet::new();
        for part in Division::new(tunnels, Spread::Rss).expect("a power of two").parts() {
            let ports = source_ports(part, from, to, 49_791, 200);
            assert_eq!(ports.len(), 200);
            for port in ports {
                assert!(all.insert(port), "{port} twice");
                let bucket = rss_bucket_of_udp((from, port), (to, 49_791));
                // Any number of queues that divides that of the tunnels.
                for queues in [1, 2, 4_usize].into_iter().filter(|n| *n <= usize::from(tunnels)) {
                    assert_eq!(bucket % queues, usize::from(part.index()) % queues);
                }
            }
        }
    }
}
