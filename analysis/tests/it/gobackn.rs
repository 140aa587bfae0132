//! Two model RNICs with known losses between them, against what their own counters and the loser of packets say.

use std::collections::VecDeque;
use std::net::IpAddr;

use analysis::{Analysis, FlowReport, Link, Record, Report, Settings};
use common::frame::Frame;
use common::heap::HeapPool;
use common::time::{Span, Time};
use common::wire::{Qpn, parse};
use proptest::prelude::*;
use rnic::{Nic, NicConfig, QpConfig, QpStats, RetryLimit, WorkKind, WorkRequest};

/// Between the hosts and the middle, where packets are lost.
const LEG: Span = Span::from_micros(200);
const TIMEOUT: Span = Span::from_millis(4);

/// Where the capture is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Source,
    Destination,
}

struct World {
    nics: [Nic; 2],
    flying: VecDeque<(Time, usize, Vec<u8>)>,
    captures: [Analysis; 2],
    /// Lost on their way to the destination: PSN, and whether it was sent for the first time.
    lost: Vec<u32>,
    frames: u64,
}

fn ip(host: usize, is_v6: bool) -> IpAddr {
    if is_v6 {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1])
    } else {
        IpAddr::from([10, 0, 0, host as u8 + 1])
    }
}

impl World {
    fn new(is_v6: bool, first_psn: u32) -> (Self, [rnic::QpId; 2]) {
        let mac = |host: usize| [2, 0, 0, 0, 0, host as u8 + 1];
        let mut nics = [0, 1].map(|host| {
            let rate = Some(1_000_000_000);
            Nic::new(NicConfig { rate, ..NicConfig::new(mac(host), ip(host, is_v6)) })
        });
        let ids = [0, 1].map(|host| {
            let (own, other) = (Qpn::new(0x11 + host as u32), Qpn::new(0x12 - host as u32));
            let mut config = QpConfig::new(own, other, mac(1 - host), ip(1 - host, is_v6));
            config.timeout = TIMEOUT;
            config.retry = RetryLimit::Infinite;
            config.send_psn = common::psn::Psn::new(first_psn);
            config.recv_psn = common::psn::Psn::new(first_psn);
            nics[host].add_qp(config).expect("a queue pair")
        });
        let captures =
            [0, 1].map(|_| Analysis::new(Settings { with_timeline: true, ..Settings::default() }));
        (Self { nics, flying: VecDeque::new(), captures, lost: Vec::new(), frames: 0 }, ids)
    }

    fn capture(&mut self, at: At, now: Time, frame: &[u8]) {
        let capture = &mut self.captures[at as usize];
        capture.take(&Record { at: now, link: Link::Ethernet, bytes: frame, len: frame.len() });
    }

    /// Runs until both have nothing to do. `is_lost` is asked for each frame towards the destination, with its number.
    fn run(&mut self, mut is_lost: impl FnMut(u64, &[u8]) -> bool) {
        let mut now = Time::ZERO;
        loop {
            for host in 0..2 {
                self.nics[host].on_timers(now);
                while let Some(frame) = self.nics[host].poll_transmit(now, &mut HeapPool) {
                    let bytes = frame.bytes().to_vec();
                    let near = if host == 0 { At::Source } else { At::Destination };
                    self.capture(near, now, &bytes);
                    if host == 0 {
                        self.frames += 1;
                        if is_lost(self.frames, &bytes) {
                            self.lost.push(parse(&bytes).expect("RoCE").psn.get());
                            continue;
                        }
                    }
                    self.flying.push_back((now + LEG, 1 - host, bytes));
                }
            }
            let arrival = self.flying.iter().map(|(at, ..)| *at).min();
            let deadline = self.nics.iter().filter_map(|nic| nic.next_deadline()).min();
            let Some(next) = arrival.into_iter().chain(deadline).min() else { return };
            now = now.max(next);
            let mut left = VecDeque::new();
            for (at, host, bytes) in std::mem::take(&mut self.flying) {
                if at > now {
                    left.push_back((at, host, bytes));
                    continue;
                }
                let far = if host == 0 { At::Source } else { At::Destination };
                self.capture(far, now, &bytes);
                self.nics[host].receive(&bytes, now);
            }
            self.flying = left;
        }
    }
}

fn the_flow(report: &Report) -> &FlowReport {
    let [flow] = &report.flows[..] else { panic!("{} flows", report.flows.len()) };
    flow
}

fn writes(world: &mut World, qp: rnic::QpId, messages: u64, len: u32, kind: WorkKind) {
    for id in 0..messages {
        world.nics[0].post(qp, WorkRequest { kind, len, id }, Time::ZERO).expect("posted");
    }
}

/// What must agree with the counters of the source in a capture beside it.
fn agrees(flow: &FlowReport, stats: &QpStats) {
    let requests = &flow.requests;
    let by = [requests.after_nak, requests.after_timeout, requests.read_repair];
    let of = |pick: fn(&analysis::Resends) -> u64| by.iter().map(pick).sum::<u64>();
    assert_eq!(requests.packets, stats.requester.packets);
    assert_eq!(requests.bytes, stats.requester.payload_bytes);
    assert_eq!(flow.responses.naks, stats.requester.naks);
    assert_eq!(of(|r| r.packets), stats.requester.retransmitted);
    assert_eq!(requests.after_timeout.times, stats.requester.timeouts);
    assert_eq!(requests.after_nak.times, stats.requester.naks - stats.requester.naks_ignored);
    assert_eq!(of(|r| r.wasted_packets), stats.requester.retransmitted - of(|r| r.times));
    assert_eq!((requests.gaps, requests.duplicates, requests.late), (0, 0, 0));
    assert_eq!((requests.unexplained.times, requests.restarts), (0, 0));
    let timeline = flow.timeline.as_ref().expect("asked for");
    let drawn = |pick: fn(&analysis::Bin) -> u64| timeline.bins.iter().map(pick).sum::<u64>();
    assert_eq!(drawn(|bin| bin.new_bytes), requests.new_bytes);
    assert_eq!(drawn(|bin| bin.new_bytes + bin.resent_bytes), requests.bytes);
    assert_eq!(drawn(|bin| bin.timeouts.into()), requests.after_timeout.times);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Beside the source: everything is as the source itself counts it.
    #[test]
    fn beside_the_source_all_is_as_it_counts(
        lost in proptest::collection::btree_set(1_u64..400, 0..12),
        messages in 1_u64..12, len in 1_u32..40_000, is_v6: bool, first in 0xff_ff00_u32..0xff_ffff,
    ) {
        let (mut world, qps) = World::new(is_v6, first);
        writes(&mut world, qps[0], messages, len, WorkKind::Write);
        world.run(|n, _| lost.contains(&n));
        let stats = world.nics[0].stats(qps[0]);
        prop_assert_eq!(stats.requester.messages, messages);
        let [source, destination] = world.captures;
        let report = source.report();
        let flow = the_flow(&report);
        agrees(flow, &stats);
        prop_assert_eq!(flow.requests.new_bytes, messages * u64::from(len));
        prop_assert_eq!((flow.dest_qpn, flow.src_qpn), (0x12, Some(0x11)));

        // Behind the loss: what passes is what the source sent without the lost.
        let report = destination.report();
        let flow = the_flow(&report);
        prop_assert_eq!(flow.requests.packets + world.lost.len() as u64, stats.requester.packets);
        prop_assert_eq!(flow.responses.naks, stats.requester.naks);
        prop_assert_eq!(flow.requests.never, 0);
        prop_assert_eq!(flow.requests.late, 0);
        prop_assert_eq!(flow.requests.missing, flow.requests.lost_before);
        prop_assert_eq!(flow.requests.new_bytes, messages * u64::from(len));
    }

    /// Losses far enough from each other: behind them each is a gap of one, a NAK, a go-back-N.
    #[test]
    fn each_loss_is_a_gap_a_nak_and_a_rewind(gaps in proptest::collection::vec(300_u64..400, 1..5)) {
        let (mut world, qps) = World::new(false, 7);
        writes(&mut world, qps[0], 1, 1024 * 2500, WorkKind::Write);
        let mut wanted: VecDeque<u32> = gaps.iter().scan(7, |at, n| { *at += *n as u32; Some(*at) }).collect();
        let losses = wanted.len() as u64;
        world.run(|_, frame| {
            let psn = parse(frame).expect("RoCE").psn.get();
            let is_lost = wanted.front() == Some(&psn);
            if is_lost { wanted.pop_front(); }
            is_lost
        });
        let stats = world.nics[0].stats(qps[0]);
        let [source, destination] = world.captures.map(Analysis::report);
        let (before, behind) = (the_flow(&source), the_flow(&destination));
        agrees(before, &stats);
        prop_assert_eq!(before.requests.after_nak.times, losses);
        prop_assert_eq!(before.requests.lost_behind, losses);
        let requests = &behind.requests;
        prop_assert_eq!((requests.gaps, requests.missing, requests.lost_before), (losses, losses, losses));
        prop_assert_eq!((requests.after_nak.times, behind.responses.naks), (losses, losses));
        // Behind the loss, the lost packet itself comes once: all others are repeats for nothing.
        let repeats = stats.requester.retransmitted - losses;
        prop_assert_eq!(requests.after_nak.wasted_packets, repeats);
        prop_assert_eq!(before.lr2_saves.bytes, repeats * 1024);
        prop_assert_eq!(behind.lr2_saves.bytes, repeats * 1024);
        prop_assert!(before.lr2_saves.time_ns > 0);
    }

    /// READs whose requests are lost are repaired by timeouts; what passes is accounted for.
    #[test]
    fn reads_are_followed(lost in proptest::collection::btree_set(1_u64..10, 0..3), messages in 1_u64..10, len in 1_u32..20_000) {
        let (mut world, qps) = World::new(false, 100);
        writes(&mut world, qps[0], messages, len, WorkKind::Read);
        world.run(|n, _| lost.contains(&n));
        let stats = world.nics[0].stats(qps[0]);
        let report = { let [source, _] = world.captures; source.report() };
        let flow = the_flow(&report);
        prop_assert_eq!(flow.reads.requests, messages);
        prop_assert_eq!(flow.reads.packets, stats.requester.read_responses);
        prop_assert_eq!(flow.reads.bytes, messages * u64::from(len) + flow.reads.repeated_bytes);
        prop_assert_eq!(flow.requests.duplicates, 0);
    }
}
