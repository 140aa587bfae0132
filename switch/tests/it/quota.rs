//! Who may have how much of the flow table, and from whom headers are taken.

use crate::support::cm::between;
use crate::support::*;
use common::frame::Side;
use common::metrics::Metric;
use common::time::Span;
use switch::{Config, Recovery};

fn config(max_flows: usize, max_flows_of_hosts: usize) -> Config {
    Config { max_flows, max_flows_of_hosts, ..Config::lab(Recovery::Auto, NODE, BOOT) }
}

// R-PASS-3
#[test]
fn two_hosts_have_a_quota_of_the_table() {
    let mut bench = Bench::with(config(64, 48));
    for qpn in 0..100 {
        bench.lan(request(&outbound(), qpn, 5));
        bench.lan(request(&outbound(), qpn, 6));
    }
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 48);
    assert_eq!(bench.count(Metric::PassedHostsFull), 2 * 52);
    assert_eq!(bench.count(Metric::PassedTableFull), 0);
    bench.assert_passes(Side::Wan, &request(&inbound(), 7, 5));
    bench.lan(request(&between("10.0.0.1", "10.0.0.3"), 7, 5));
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 49, "others have room");
}

/// 1,100 packets a second, each of a flow of its own and of hosts of their own, and a flow
/// that begins among them.
// R-PASS-2
#[test]
fn a_flow_of_one_packet_makes_room_for_another() {
    let mut bench = Bench::with(config(256, 256));
    let honest: Vec<u32> = (0..64).collect();
    for n in 0..20_000_u32 {
        bench.wait(Span::from_micros(909));
        let [a, b] = [n % 250 + 1, n / 250];
        bench.lan(request(&between(&format!("10.9.{b}.{a}"), "10.0.0.2"), n, 5));
        // Each sends a packet in half a second.
        let turn = n % (64 * 9);
        if turn % 9 == 0 {
            let qpn = honest[(turn / 9) as usize];
            bench.lan(request(&outbound(), qpn, n / (64 * 9)));
        }
        while bench.switch.next_deadline() <= bench.now {
            bench.timers();
        }
        if n == 10_000 {
            bench.housekeeping();
            assert_eq!(bench.count(Metric::FlowsAll), 256);
        }
    }
    // Packets of the honest ones since they were two packets old went through a pipeline.
    assert!(bench.count(Metric::FlowEvicted) > 15_000);
    assert!(
        bench.count(Metric::PassedTableFull) < 2_000,
        "{}",
        bench.count(Metric::PassedTableFull)
    );
    let before = bench.count(Metric::SentryNew) + bench.count(Metric::SentryUnprotected);
    for qpn in honest {
        bench.lan(request(&outbound(), qpn, 100));
    }
    let after = bench.count(Metric::SentryNew) + bench.count(Metric::SentryUnprotected);
    assert_eq!(after - before, 64);
}

fn destination(frame: &[u8]) -> [u8; 6] {
    frame[..6].try_into().expect("an Ethernet header")
}

/// A packet with the right key and other MAC addresses, from anywhere: the box's messages
/// keep their addresses.
#[test]
fn headers_are_taken_from_packets_in_order() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.protect(0x11, 5..9);
    let mut stray = request(&outbound(), 0x11, 6);
    stray[..6].copy_from_slice(&[0xee; 6]);
    let mut damaged = request(&outbound(), 0x11, 9);
    damaged[..6].copy_from_slice(&[0xee; 6]);
    damaged[70] ^= 1;
    let mut next = request(&outbound(), 0x11, 10);
    next[..6].copy_from_slice(&[0xdd; 6]);
    for (frame, expected) in [(stray, [2; 6]), (damaged, [2; 6]), (next, [0xdd; 6])] {
        bench.wait(Span::from_millis(150));
        bench.lan(frame);
        bench.wait(Span::from_millis(30));
        let mut said = None;
        for _ in 0..10 {
            while bench.switch.next_deadline() <= bench.now {
                said = said.or(bench.timers().into_iter().find(|sent| sent.sync().is_some()));
            }
            bench.wait(Span::from_millis(10));
        }
        let said = said.expect("a tail is announced");
        assert_eq!(destination(&said.bytes), expected);
    }
}

/// Flows that are never answered keep the slots of their packets in flight, until others need
/// them.
#[test]
fn silent_flows_give_their_slots_to_others() {
    // As many as there are for one flow of 2^19 packets, times two.
    let config = Config { resend_cache_frames: 0, ..config(1 << 12, usize::MAX) };
    let mut bench = Bench::with(config);
    let fill = |bench: &mut Bench, qpns: std::ops::Range<u32>| {
        for qpn in qpns {
            bench.sends(qpn, 0..260);
        }
    };
    let refused = |bench: &Bench| bench.count(Metric::SentrySlotsFull);
    fill(&mut bench, 0..2000);
    assert_eq!(refused(&bench), 0);
    bench.wait(Span::from_millis(1_500));
    for _ in 0..6 {
        bench.housekeeping();
    }
    assert!(bench.count(Metric::FlowStateBytes) < 2000 * 512 * 32, "all but half went back");
    fill(&mut bench, 2000..3000);
    assert_eq!(refused(&bench), 0);
}
