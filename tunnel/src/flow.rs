//! The order that a frame from the LAN has to keep, and its traffic class.

use common::wire::{Meta, Sort};

/// The order that a frame has to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// None: RoCE of the transport UD, and CNPs.
    Free,
    /// Behind all earlier frames of this flow bucket.
    Ordered(u16),
    /// The same, for a response of an RC queue pair that is no positive ACK: a READ or atomic response, a NAK.
    Response(u16),
    /// Behind all earlier responses of this flow bucket, for a positive ACK of an RC queue pair. It may overtake
    /// other ACKs, as it acknowledges all that they do.
    Ack(u16),
}

impl Order {
    /// The flow bucket, if the frame has one.
    #[inline]
    pub const fn bucket(self) -> Option<u16> {
        match self {
            Self::Free => None,
            Self::Ordered(bucket) | Self::Response(bucket) | Self::Ack(bucket) => Some(bucket),
        }
    }

    /// The same, with ACKs in order as all responses are.
    pub const fn strict(self) -> Self {
        match self {
            Self::Ack(bucket) => Self::Response(bucket),
            other => other,
        }
    }
}

/// The properties of a frame that the tunnel needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The order that it has to keep.
    pub order: Order,
    /// DSCP and ECN of the IP header, the second byte of an IPv4 header; 0 if there is none.
    pub traffic_class: u8,
}

/// That of a frame without an IP header.
impl From<Order> for Flow {
    fn from(order: Order) -> Self {
        Self { order, traffic_class: 0 }
    }
}

impl From<Meta> for Flow {
    /// R-TUN-20
    #[inline(always)]
    fn from(meta: Meta) -> Self {
        let (sort, is_response) = (meta.sort, meta.sort.is_response());
        // Requests and responses of a queue pair have PSNs of their own, and need no order among them.
        let bucket = meta.flow ^ u16::from(is_response);
        let order = if sort == Sort::Datagram {
            Order::Free
        } else if sort == Sort::Ack {
            Order::Ack(bucket)
        } else if is_response {
            Order::Response(bucket)
        } else {
            Order::Ordered(bucket)
        };
        Self { order, traffic_class: meta.traffic_class }
    }
}

impl Flow {
    /// That of a frame. Any bytes have one.
    pub fn of(frame: &[u8]) -> Self {
        Self::from(Meta::of(frame))
    }

    /// The same, with ACKs in order as all responses are. R-TUN-24
    #[inline]
    pub fn strict(self) -> Self {
        Self { order: self.order.strict(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use common::wire::UDP;

    const TCP: u8 = 6;

    fn frame(tags: usize, head: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([head, rest].concat());
        frame
    }

    fn v4(tags: usize, protocol: u8, dst: u8, l4: &[u8]) -> Vec<u8> {
        let head =
            [8, 0, 0x45, 0xb9, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, dst];
        frame(tags, &head, l4)
    }

    fn roce(opcode: u8, qpn: u8) -> Vec<u8> {
        response(opcode, qpn, 9)
    }

    fn response(opcode: u8, qpn: u8, syndrome: u8) -> Vec<u8> {
        let bth = [opcode, 0, 0, 0, 7, 0, 0, qpn, 0, 0, 0, 1];
        let l4 = [&[0xc0, 1, 0x12, 0xb7, 0, 0, 0, 0], &bth[..], &[syndrome; 8]];
        v4(0, UDP, 2, &l4.concat())
    }

    fn bucket(frame: &[u8]) -> Option<u16> {
        match Flow::of(frame).order {
            Order::Free => None,
            Order::Ordered(bucket) | Order::Response(bucket) | Order::Ack(bucket) => Some(bucket),
        }
    }

    /// R-TUN-20
    #[test]
    fn frames_of_one_flow_share_a_bucket_and_others_hardly_do() {
        let all = [
            roce(4, 1),
            roce(4, 2),
            v4(0, TCP, 2, &[0, 1, 0, 2, 9]),
            v4(0, TCP, 2, &[0, 1, 0, 3, 9]),
            v4(0, TCP, 3, &[0, 1, 0, 2, 9]),
            v4(0, 1, 2, &[0, 1, 0, 2]),
            frame(0, &[8, 6], &[7; 28]),
        ];
        let buckets: std::collections::BTreeSet<_> =
            all.iter().map(|frame| bucket(frame)).collect();
        assert_eq!(buckets.len(), all.len());
        assert_eq!(
            Flow::of(&roce(4, 1)),
            Flow::of(&roce(6, 1)),
            "another packet of the queue pair"
        );
        assert_eq!(
            Flow::of(&v4(0, TCP, 2, &[0, 1, 0, 2, 1])),
            Flow::of(&v4(2, TCP, 2, &[0, 1, 0, 2, 8]))
        );
        assert_eq!(Flow::of(&roce(4, 1)).traffic_class, 0xb9);
    }

    /// R-TUN-20: tags and options take another way to the same bucket.
    #[test]
    fn a_queue_pair_has_one_bucket_and_others_hardly_share_it() {
        for opcode in [0x04, 0x11, 0x64] {
            let plain = roce(opcode, 7);
            let mut tagged = plain.clone();
            tagged.splice(12..12, [0x81, 0, 0, 5]);
            let mut with_options = plain.clone();
            with_options[14] = 0x46;
            with_options.splice(34..34, [1; 4]);
            for other in [&tagged, &with_options] {
                assert_eq!(Flow::of(other), Flow::of(&plain));
            }
        }
    }

    /// R-TUN-20
    #[test]
    fn datagrams_and_notifications_need_no_order() {
        for opcode in [0x64, 0x65, 0x81] {
            assert_eq!(Flow::of(&roce(opcode, 1)).order, Order::Free, "{opcode:#x}");
        }
    }

    /// R-TUN-24: responses to a queue pair share a bucket, and requests have another one.
    #[test]
    fn a_positive_ack_is_known_by_opcode_and_syndrome() {
        let requests =
            [0x00, 0x04, 0x0a, 0x0c, 0x13].map(|opcode| Flow::of(&roce(opcode, 1)).order);
        let Order::Ordered(bucket) = requests[0] else { panic!("a SEND is in order") };
        assert_eq!(requests, [Order::Ordered(bucket); 5]);
        for syndrome in [0, 5, 0x1f] {
            assert_eq!(Flow::of(&response(0x11, 1, syndrome)).order, Order::Ack(bucket ^ 1));
        }
        let others = [(0x11, 0x60), (0x11, 0x63), (0x11, 0x22), (0x11, 0x40), (0x11, 0x80)];
        let others = others.into_iter().chain([0x0d, 0x0e, 0x0f, 0x10, 0x12].map(|op| (op, 0)));
        for (opcode, syndrome) in others {
            let order = Flow::of(&response(opcode, 1, syndrome)).order;
            assert_eq!(order, Order::Response(bucket ^ 1), "{opcode:#x} {syndrome:#x}");
        }
        // Without its syndrome, and of another transport.
        let mut short = roce(0x11, 1);
        short.truncate(14 + 20 + 20);
        assert_eq!(Flow::of(&short).order, Order::Response(bucket ^ 1));
        assert!(matches!(Flow::of(&response(0xb1, 1, 0)).order, Order::Ordered(_)));
    }

    /// R-TUN-20: the fragments of a packet are in order, and the ports of the first one are no ports of the others.
    #[test]
    fn fragments_have_a_bucket_by_their_addresses() {
        let fragment = |flags: [u8; 2], l4: &[u8]| {
            let mut frame = v4(0, UDP, 2, l4);
            frame[20..22].copy_from_slice(&flags);
            Flow::of(&frame).order
        };
        assert_eq!(fragment([0x20, 0], &[0, 1, 0, 2]), fragment([0, 9], &[4; 4]));
    }

    /// R-TUN-20, R-TUN-24: whichever way it is looked at, with an odd bucket and with an even one.
    #[test]
    fn responses_never_share_the_bucket_of_requests() {
        for qpn in 0..64 {
            let request = bucket(&roce(4, qpn)).expect("it is in order");
            for (opcode, syndrome) in [(0x11, 0), (0x11, 0x60), (0x10, 0)] {
                let response = bucket(&response(opcode, qpn, syndrome)).expect("it is in order");
                assert_eq!(response, request ^ 1, "{opcode:#x} {syndrome:#x} to {qpn}");
            }
        }
    }

    /// R-TUN-20: what looks like a datagram of RoCE, but is TCP, or the rest of a longer packet.
    #[test]
    fn only_whole_datagrams_are_roce() {
        let datagram = roce(0x64, 1);
        let v6 = |next: u8| {
            let head = [&[0x86, 0xdd, 0x6b, 0x90, 0, 0, 0, 0, next, 64][..], &[7; 32]].concat();
            frame(0, &head, &datagram[34..])
        };
        assert_eq!(
            (Flow::of(&datagram).order, Flow::of(&v6(UDP)).order),
            (Order::Free, Order::Free)
        );
        assert_eq!(Flow::of(&v6(UDP)).traffic_class, 0xb9);
        let changed = |at: usize, to: u8| {
            let mut frame = datagram.clone();
            frame[at] = to;
            frame
        };
        for other in [changed(23, TCP), changed(21, 9), changed(20, 0x20), v6(TCP)] {
            assert!(matches!(Flow::of(&other).order, Order::Ordered(_)), "{other:x?}");
        }
    }
}
