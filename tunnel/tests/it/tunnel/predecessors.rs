//! The predecessor of a frame on the wire.

use crate::support::{Kind, Scenario, World, stamped};

/// Where the opcode of a packet of RoCE over IPv4 stands, and the syndrome of a response.
const OPCODE: usize = 14 + 20 + 8;
const SYNDROME: usize = OPCODE + 12;

/// A frame of box 0's hosts as it leaves: its number, and that of its predecessor.
fn sent(world: &mut World, frame: Vec<u8>) -> (u32, Option<u32>) {
    world.lan_frame(0, frame);
    let (_, frame) = world.on_link.pop().expect("it is sent");
    let shim = &frame[Kind::Ethernet.shim_at()..];
    let word = |at: usize| u32::from_be_bytes([shim[at], shim[at + 1], shim[at + 2], shim[at + 3]]);
    (word(8), (shim[2] != 0xff).then(|| word(12)))
}

/// R-TUN-20: which frames are of one flow, and which need no order.
#[test]
fn a_frame_follows_the_newest_one_of_its_flow() {
    let mut world = World::new(Scenario::default());
    world.settle();
    let with = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    let request = |n| stamped(0, 3, n, 120);
    let (first, before) = sent(&mut world, request(0));
    assert_eq!(before, None, "the first of its flow");
    let (mut newest, before) = sent(&mut world, request(1));
    assert_eq!(before, Some(first));
    // The destination QPN stands for the source port, and a VLAN tag changes nothing.
    let mut tagged = request(2);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    for frame in [with(request(2), 35, 0xee), tagged] {
        let (number, before) = sent(&mut world, frame);
        assert_eq!(before, Some(newest));
        newest = number;
    }
    // Another queue pair, and other hosts.
    assert_eq!(sent(&mut world, stamped(0, 4, 0, 120)).1, None);
    assert_eq!(sent(&mut world, with(request(3), 29, 9)).1, None);
    // UD packets and CNPs, twice each, and nothing follows them.
    for opcode in [0x64, 0x64, 0x81, 0x81] {
        assert_eq!(sent(&mut world, with(request(4), OPCODE, opcode)).1, None, "{opcode:#x}");
    }
    // An ACK to the queue pair has another bucket than requests to it, and a NAK follows it.
    let response = |syndrome| with(with(request(5), OPCODE, 0x11), SYNDROME, syndrome);
    let (ack, before) = sent(&mut world, response(0));
    assert_eq!(before, None);
    assert_eq!(sent(&mut world, response(0x60)).1, Some(ack));
    assert_eq!(sent(&mut world, request(6)).1, Some(newest));
    // TCP by both ports; frames that are not IP by MAC addresses and EtherType.
    let (tcp, before) = sent(&mut world, stamped(0, 1, 0, 120));
    assert_eq!((before, sent(&mut world, stamped(0, 1, 1, 120)).1), (None, Some(tcp)));
    assert_eq!(sent(&mut world, with(stamped(0, 1, 2, 120), 34, 0xee)).1, None);
    let (arp, before) = sent(&mut world, stamped(0, 2, 0, 120));
    assert_eq!((before, sent(&mut world, stamped(0, 2, 1, 120)).1), (None, Some(arp)));
    assert_eq!(sent(&mut world, with(stamped(0, 2, 2, 120), 5, 0xee)).1, None);
}
