//! Frames that always pass (docs/protocol.md).

use std::path::Path;

use crate::support::*;
use common::control::{Reason, Status};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Bth, Headers, Opcode, Qpn, parse};
use pcap_file::pcap::PcapReader;
use switch::{Config, Recovery, Role};

fn capture(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/tests/captures").join(name);
    let file = std::fs::File::open(&path).expect("the captures are in the repository");
    let mut reader = PcapReader::new(file).expect("a pcap");
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.expect("a whole one").data.into_owned());
    }
    frames
}

fn udp(port: u16, len: usize) -> Vec<u8> {
    let mut frame = frame(&outbound(), Opcode::SEND_ONLY, 1, 1, &vec![0; len]);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

#[test]
fn what_is_not_roce_passes() {
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mut tcp = udp(4791, 40);
    tcp[23] = 6;
    let mut fragment = udp(4791, 40);
    fragment[20] = 0x20;
    let mut later_fragment = udp(4791, 40);
    later_fragment[20..22].copy_from_slice(&[0, 9]);
    let frames = [arp, tcp, fragment, later_fragment, udp(53, 40), vec![], vec![1; 13]];
    for side in [Lan, Wan] {
        let mut bench = Bench::new(Recovery::Auto);
        for frame in &frames {
            bench.assert_passes(side, frame);
        }
        assert_eq!(bench.count(Metric::PassedOther), frames.len() as u64);
        assert_eq!(bench.switch.next_deadline(), Time::NEVER);
    }
}

/// PAUSE and PFC under any tags, and any other frame to their address, even if it looks
/// like a request.
// R-PASS-5
#[test]
fn mac_control_goes_no_further() {
    let untagged = |dest: [u8; 6], ethertype: u16| {
        let mut bytes = [dest, [2; 6]].concat();
        bytes.extend(ethertype.to_be_bytes());
        bytes.extend([0, 1, 0xff, 0xff]);
        bytes.resize(60, 0);
        bytes
    };
    let tagged = |mut bytes: Vec<u8>, tags: &[u16]| {
        for tag in tags {
            let [high, low] = tag.to_be_bytes();
            bytes.splice(12..12, [high, low, 0xe0, 5]);
        }
        bytes
    };
    let pause = [1, 0x80, 0xc2, 0, 0, 1];
    let mut request = request(&outbound(), 0x11, 5);
    request[..6].copy_from_slice(&pause);
    let mut frames = vec![request.clone(), tagged(request, &[0x8100]), pause.to_vec()];
    for tags in [&[][..], &[0x8100], &[0x8100, 0x88a8], &[0x8100, 0x8100, 0x9100]] {
        for (dest, ethertype) in [(pause, 0x8808), ([4; 6], 0x8808), (pause, 0x9999)] {
            frames.push(tagged(untagged(dest, ethertype), tags));
        }
    }
    for recovery in [Recovery::Auto, Recovery::Off] {
        for side in [Lan, Wan] {
            let mut bench = Bench::new(recovery);
            for frame in &frames {
                assert_eq!(bench.receive(side, frame.clone()), [], "{frame:x?}");
            }
            assert_eq!(bench.count(Metric::DropMacControl), frames.len() as u64);
            assert_eq!(bench.count(Metric::FlowsAll), 0);
            // LLDP has another of the addresses that bridges keep, and is none.
            let mut lldp = untagged([1, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc);
            lldp.truncate(60);
            bench.assert_passes(side, &lldp);
        }
    }
}

#[test]
fn malformed_roce_passes() {
    let good = request(&outbound(), 0x11, 5);
    let mut lengths = good.clone();
    lengths[38] ^= 1;
    let mut version = good.clone();
    version[43] |= 3;
    let mut no_extension = frame(&outbound(), Opcode::READ_REQUEST, 1, 1, &[0; 16]);
    no_extension[42] = Opcode::FETCH_ADD.0;
    let truncated = good[..good.len() - 1].to_vec();
    for side in [Lan, Wan] {
        let mut bench = Bench::new(Recovery::Auto);
        for frame in [&lengths, &version, &no_extension, &truncated] {
            bench.assert_passes(side, frame);
        }
        assert_eq!(bench.count(Metric::PassedMalformed), 4);
    }
}

#[test]
fn other_transports_and_unknown_opcodes_pass() {
    // UD, UC, CNP, XRC, another manufacturer's, RC without a meaning.
    let opcodes = [0x64, 0x24, 0x81, 0xa4, 0xe5, 0x1f];
    for side in [Lan, Wan] {
        let mut bench = Bench::new(Recovery::Auto);
        for opcode in opcodes {
            bench.assert_passes(side, &frame(&outbound(), Opcode(opcode), 0x11, 7, &[9; 64]));
        }
        assert_eq!(bench.count(Metric::PassedTransport), opcodes.len() as u64);
        bench.housekeeping();
        assert_eq!(bench.count(Metric::FlowsAll), 0, "nothing is remembered of them");
    }
}

/// It takes PSNs that nobody can count: the next packet must not look like a gap.
// R-PSN-1
#[test]
fn an_unknown_request_leaves_its_flow_to_the_rnics() {
    for reserved in [0x15, 0x18, 0x1b, 0x1e, 0x1f] {
        let unknown = |headers: &Headers, qpn| frame(headers, Opcode(reserved), qpn, 4, &[9; 64]);
        // At the Sentry.
        let mut bench = Bench::new(Recovery::Auto);
        let epoch = bench.protect(0x22, 0..4);
        bench.assert_passes(Lan, &damaged(unknown(&outbound(), 0x22)));
        assert_eq!(bench.count(Metric::FlowBypassed), 0, "nothing on the word of a damaged packet");
        bench.assert_passes(Lan, &unknown(&outbound(), 0x23));
        assert_eq!(bench.count(Metric::FlowBypassed), 0, "another flow");
        let sent = bench.lan(unknown(&outbound(), 0x22));
        let reasons = sent.iter().filter_map(Sent::sync).map(|(_, sync)| sync.reason);
        assert_eq!(reasons.collect::<Vec<_>>(), [Reason::Release]);
        assert_eq!((bench.switch.held(), bench.count(Metric::FlowBypassed)), (0, 1));
        bench.status(0x22, epoch, Status::passive(Time::ZERO, None));
        for psn in [9, 5, 3, 7] {
            bench.assert_passes(Lan, &request(&outbound(), 0x22, psn));
        }
        bench.wait(RTT * 9);
        assert!(bench.timers().is_empty(), "nobody is to be told any more");
        assert_eq!(bench.switch.next_deadline(), Time::NEVER);
        // At the Depot.
        let mut bench = Bench::new(Recovery::Auto);
        bench.sync(0x33, 1, open(0));
        bench.arrive(0x33, [0, 1, 3]);
        let sent = bench.wan(unknown(&inbound(), 0x33));
        assert_eq!(psns(&sent, Lan), [3, 4], "what was held, in order, and it");
        bench.assert_passes(Wan, &request(&inbound(), 0x33, 9));
    }
}

/// FLUSH and ATOMIC WRITE take one PSN, and are answered as a READ is.
#[test]
fn flush_and_atomic_write_are_requests_of_one_psn() {
    for (opcode, content) in [(Opcode::FLUSH, 20), (Opcode::ATOMIC_WRITE, 16 + 8)] {
        let mut bench = Bench::new(Recovery::Auto);
        bench.protect(0x22, 0..4);
        bench.lan(frame(&outbound(), opcode, 0x22, 4, &vec![0; content]));
        bench.lan(request(&outbound(), 0x22, 5));
        assert_eq!((bench.count(Metric::SentryAhead), bench.count(Metric::FlowBypassed)), (0, 0));
        assert_eq!(bench.count(Metric::SentryNew), 6);
    }
}

/// Ours is told by its magic; the opcode may be somebody else's, too.
#[test]
fn a_strange_packet_with_the_control_opcode_passes() {
    for side in [Lan, Wan] {
        let mut bench = Bench::new(Recovery::Auto);
        bench.assert_passes(side, &frame(&outbound(), Opcode(0xe1), 0x11, 7, &[9; 116]));
        assert_eq!(bench.count(Metric::PassedTransport), 1);
    }
}

/// Without a peer a box is a wire, both ways, for real RNICs' traffic.
#[test]
fn real_traffic_passes_byte_for_byte() {
    for name in ["rc_send", "rc_write_128k", "rc_read", "rc_atomic", "rping_cm", "loss_write"] {
        for recovery in [Recovery::Off, Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
            let mut bench = Bench::new(recovery);
            let frames = capture(&format!("{name}.pcap"));
            assert!(!frames.is_empty());
            let first = frames.iter().find_map(|f| parse(f).ok()).expect("RoCEv2").src;
            for frame in frames {
                let side = if parse(&frame).is_ok_and(|r| r.src != first) { Wan } else { Lan };
                let sent = bench.receive(side, frame.clone());
                let through: Vec<_> = sent.iter().filter(|s| s.control().is_none()).collect();
                assert_eq!(through.len(), 1, "{name} {recovery:?}");
                assert_eq!((through[0].side, &through[0].bytes), (side.other(), &frame));
            }
        }
    }
}

#[test]
fn a_full_table_passes() {
    let mut config = Config::lab(Recovery::Auto, NODE, BOOT);
    config.max_flows = 2;
    let mut bench = Bench::with(config);
    bench.lan(request(&outbound(), 1, 5));
    bench.lan(request(&outbound(), 2, 5));
    bench.assert_passes(Lan, &request(&outbound(), 3, 5));
    bench.assert_passes(Wan, &request(&inbound(), 3, 5));
    assert_eq!(bench.count(Metric::PassedTableFull), 2);
    bench.assert_passes(Wan, &ack(&inbound(), 77, 5));
    bench.sync(9, 1, open(5));
    assert_eq!(bench.count(Metric::DropControlUnknownFlow), 1);
    bench.lan(request(&outbound(), 2, 6));
    assert_eq!(bench.count(Metric::SentryNew), 3, "the others work on");
}

// R-PASS-1
#[test]
fn a_role_is_kept() {
    for (role, sentry, depot) in
        [(Role::Sentry, true, false), (Role::Depot, false, true), (Role::Both, true, true)]
    {
        let mut bench = Bench::with(Config { role, ..Config::lab(Recovery::Auto, NODE, BOOT) });
        let announced = bench.lan(request(&outbound(), 1, 5)).iter().any(|s| s.sync().is_some());
        assert_eq!(announced, sentry, "{role:?}");
        let answered = bench.sync(9, 1, open(5)).iter().any(|s| s.status().is_some());
        assert_eq!(answered, depot, "{role:?}");
        bench.wan(request(&inbound(), 9, 5));
        assert_eq!(bench.count(Metric::DepotInOrder), u64::from(depot), "{role:?}");
        let unused = u64::from(!sentry) + u64::from(!depot);
        assert_eq!(bench.count(Metric::PassedRole), unused, "{role:?}");
    }
}

// R-PASS-1
#[test]
fn off_is_a_wire() {
    let mut bench = Bench::new(Recovery::Off);
    for side in [Lan, Wan] {
        bench.assert_passes(side, &request(&outbound(), 1, 5));
        bench.assert_passes(side, &nak(&outbound(), 1, 5));
    }
    assert_eq!(bench.switch.next_deadline(), Time::NEVER);
}

/// RNICs check it, and so does whoever would believe it.
#[test]
fn a_damaged_answer_passes_and_teaches_nothing() {
    let mut bench = Bench::new(Recovery::Lr2);
    let epoch = bench.protect(0x22, 0..10);
    let src_qpn = Some(Qpn::new(0x11));
    bench.status(0x22, epoch, Status { src_qpn, ..report(0, 0, &[]) });
    let mut bad = ack(&inbound(), 0x11, 9);
    let at = bad.len() - 5;
    bad[at] ^= 1;
    bench.assert_passes(Wan, &bad);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    let sent = bench.status(0x22, epoch, report(5, 10, &[(5, 6)]));
    assert!(naks(&sent).is_empty());
    assert_eq!(bench.count(Metric::NakNoAcked), 1);
}

/// Its QPN may be damaged.
// R-PASS-4
#[test]
fn a_damaged_packet_makes_no_flow() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.assert_passes(Lan, &damaged(request(&outbound(), 0x22, 5)));
    bench.assert_passes(Wan, &damaged(request(&inbound(), 0x22, 5)));
    assert_eq!(bench.count(Metric::FlowCreated), 0);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 2);
    bench.lan(request(&outbound(), 0x22, 5));
    assert_eq!(bench.count(Metric::FlowCreated), 1);
}

/// An overloaded worker protects no new flow. Flows that it protects stay protected.
// R-PASS-7
#[test]
fn while_the_worker_is_overloaded_new_flows_pass() {
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(0x22, 0..4);
    bench.switch.set_overloaded(true);
    for psn in 0..3 {
        bench.assert_passes(Lan, &request(&outbound(), 0x33, psn));
        bench.assert_passes(Wan, &request(&inbound(), 0x44, psn));
    }
    assert_eq!(bench.count(Metric::PassedOverload), 6);
    assert!(bench.sync(0x44, 1, open(0)).is_empty(), "no box is told that the flow is protected");
    // A flow that is protected is repaired.
    bench.sends(0x22, 4..8);
    bench.wait(Span::from_millis(100));
    let resent = bench.status(0x22, epoch, report(5, 8, &[(5, 6)]));
    assert_eq!(psns(&resent, Wan), [5]);
    assert_eq!(bench.count(Metric::PassedOverload), 6);
    // Once the worker keeps up, flows begin where they are.
    bench.switch.set_overloaded(false);
    let sent = bench.lan(request(&outbound(), 0x33, 3));
    assert_eq!(sent[0].sync().expect("a SYNC").1.next_psn.map(Psn::get), Some(3));
    assert_eq!(bench.sync(0x44, 1, open(3)).len(), 1);
    assert_eq!(bench.count(Metric::PassedOverload), 6);
}

/// A message that only makes a repair quicker is work for both boxes.
// R-MSG-11
#[test]
fn while_the_worker_is_overloaded_no_message_is_early() {
    let told_after = |is_overloaded, wait| {
        let mut bench = Bench::new(Recovery::Auto);
        bench.protect(0x22, 0..4);
        bench.switch.set_overloaded(is_overloaded);
        bench.wait(Span::from_millis(50));
        bench.sends(0x22, 4..7);
        let asks =
            Bth { ack_req: true, ..Bth::new(Opcode::SEND_ONLY, Qpn::new(0x22), Psn::new(7)) };
        bench.lan(with_bth(&outbound(), &asks, &[0; 64]));
        bench.wait(wait);
        bench.timers().iter().any(|sent| sent.sync().is_some())
    };
    // An eighth of the round trip of 10 ms; and when the ACK is late.
    let [early, late] = [Span::from_micros(1_250), Span::from_micros(13_750)];
    assert_eq!((told_after(false, early), told_after(true, early)), (true, false));
    assert_eq!((told_after(false, late), told_after(true, late)), (true, true));
}
