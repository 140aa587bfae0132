//! The network of these tests: its losses and its damage.

use common::frame::Frame;
use common::heap::HeapPool;
use common::time::{Span, Time};
use common::wire::{Qpn, icrc_ok, parse};
use rnic::{Nic, NicConfig, QpConfig, WorkKind, WorkRequest, lab_ip};
use tests::Link;

const SLOT: Span = Span::from_micros(10);

fn packets(n: u32) -> Vec<Vec<u8>> {
    let mut nic = Nic::new(NicConfig::new([2, 0, 0, 0, 0, 1], lab_ip(1)));
    let config = QpConfig::new(Qpn::new(0x11), Qpn::new(0x22), [2, 0, 0, 0, 0, 2], lab_ip(2));
    let qp = nic.add_qp(QpConfig { window: n, ..config }).unwrap();
    let work = WorkRequest { kind: WorkKind::Send, len: n * 1024, id: 0 };
    nic.post(qp, work, Time::ZERO).unwrap();
    let next = || Some(nic.poll_transmit(Time::ZERO, &mut HeapPool)?.bytes().to_vec());
    std::iter::from_fn(next).collect()
}

fn lossy(loss: f64) -> Link {
    let mut link = Link::new(Span::ZERO, [7, 3], SLOT);
    link.impairment.loss = loss;
    link
}

fn arrives(link: &mut Link, frame: &[u8], now: Time) -> bool {
    let mut arrived = false;
    link.send(frame.to_vec(), now, |_, _| arrived = true);
    arrived
}

#[test]
fn what_is_lost_does_not_depend_on_what_else_is_sent() {
    let packets = packets(500);
    let (mut all, mut odd) = (lossy(0.2), lossy(0.2));
    let lost = packets.iter().filter(|p| !arrives(&mut all, p, Time::ZERO)).count();
    assert!((60..140).contains(&lost), "{lost} of 500");
    let mut all = lossy(0.2);
    for (n, packet) in packets.iter().enumerate() {
        let fate = arrives(&mut all, packet, Time::ZERO);
        if n % 2 == 1 {
            assert_eq!(arrives(&mut odd, packet, Time::from_nanos(n as u64)), fate, "{n}");
        }
    }
    // A copy has a fate of its own.
    let again = packets.iter().filter(|p| !arrives(&mut all, p, Time::ZERO)).count();
    assert!(again > 60 && all.fate.lost == (lost + again) as u64);
}

#[test]
fn mangled_headers_have_a_right_checksum_and_a_wrong_icrc() {
    let mut link = lossy(0.0);
    link.impairment.mangle = 1.0;
    let mut not_roce = 0;
    for packet in packets(400) {
        let before = parse(&packet).unwrap();
        link.send(packet.clone(), Time::ZERO, |_, after| {
            assert_ne!(after[14 + 12..], packet[14 + 12..]);
            assert_eq!(after[usize::from(before.end) - 4..], packet[usize::from(before.end) - 4..]);
            let Ok(roce) = parse(&after) else {
                not_roce += 1;
                return;
            };
            // FECN, BECN and the reserved bits beside them are not covered.
            let bth = usize::from(roce.bth);
            assert!(!icrc_ok(&after, &roce) || after[bth + 4] != packet[bth + 4]);
            let words = after[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        });
    }
    assert!((10..200).contains(&not_roce), "{not_roce} with another port or version");
}

#[test]
fn bursts_take_what_is_sent_in_their_time() {
    let mut link = lossy(0.0);
    link.impairment.burst_start = 0.01;
    link.impairment.burst = 10.0;
    let packet = &packets(1)[0];
    let fates: Vec<bool> =
        (0..50_000).map(|n| arrives(&mut link, packet, Time::ZERO + SLOT * n)).collect();
    let lost = fates.iter().filter(|arrived| !**arrived).count();
    assert!((4_000..6_000).contains(&lost), "{lost} lost of 50000");
    assert!(fates.chunks(10).all(|burst| burst.iter().all(|arrived| *arrived == burst[0])));
}
