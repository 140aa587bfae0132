//! Hosts and strangers that mean harm: how much they can make the boxes hold, and whether they
//! can put a packet of theirs in the place of somebody else's.
//!
//! `SEEDS=n` runs that many seeds per case.

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::frame::{Class, Packet, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Bth, Headers, Opcode, Qpn, Vlans};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::lab_ip;
use switch::{Config, Footprint, Recovery, Switch};
use tests::{Impairment, Scenario, World};

const MODES: [Option<Recovery>; 4] =
    [None, Some(Recovery::Lr2), Some(Recovery::Cached), Some(Recovery::Auto)];

/// A packet of the first queue pair from nic 0, with everything right but its content.
fn forged(psn: Psn) -> Vec<u8> {
    let [src, dst] = [lab_ip(1), lab_ip(2)];
    let headers = Headers::new([6; 6], [7; 6], Vlans::NONE, src, dst, 55_555, 0, 64);
    let content = [0xee; 1024];
    let mut frame = vec![0; headers.frame_len(content.len())];
    let bth = Bth::new(Opcode::SEND_MIDDLE, Qpn::new(0x11), psn);
    headers.emit(&bth, &mut frame, |body| body.copy_from_slice(&content));
    frame
}

/// A transfer of 24 MB at 1 Gbit/s over 10 ms, into which packets are injected that are 1,500
/// to 3,000 ahead of the source.
fn inject(seed: u64, recovery: Option<Recovery>, loss: f64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(Scenario {
        wan: [Impairment::lossy(loss); 2],
        messages: [24, 0],
        message_max: 1 << 20,
        fixed_length: true,
        pmtu: 1024,
        window: 4096,
        first_psn: Psn::new(rng.random_range(0..Psn::MODULUS)),
        ..Scenario::calm(seed, recovery)
    });
    let run = catch_unwind(AssertUnwindSafe(|| {
        world.run_for(Span::from_millis(40));
        for _ in 0..rng.random_range(1..6) {
            let ahead = rng.random_range(1_500..3_000);
            world.inject(1, forged(world.next_psn(0).offset(ahead)));
            world.run_for(Span::from_micros(rng.random_range(1..20_000)));
        }
        world.run(Span::from_millis(60_000))
    }));
    // The world checks arriving bytes: one that isn't the source's is a panic.
    run.is_ok_and(|outcome| outcome.finished.is_some() && outcome.failed == 0 && outcome.held == 0)
}

#[test]
fn who_guesses_a_psn_ahead_does_no_more_harm_than_without_gateways() {
    let seeds = tests::seeds(8, 24);
    for loss in [0.0, 0.002] {
        let mut harmed = [0; MODES.len()];
        for (harmed, recovery) in harmed.iter_mut().zip(MODES) {
            *harmed = (0..seeds).filter(|seed| !inject(*seed, recovery, loss)).count();
        }
        println!("loss {loss}: of {seeds} runs harmed, none, lr2, cached, auto: {harmed:?}");
        assert!(harmed.iter().all(|with| *with <= harmed[0]), "loss {loss}: {harmed:?}");
    }
}

/// Drops all transmissions.
struct Nowhere;

impl Sink for Nowhere {
    type Frame = HeapFrame;

    fn transmit(&mut self, _: Side, _: Class, _: Packet<HeapFrame>) {}
}

fn request(host: u32, qpn: u32, psn: u32) -> Vec<u8> {
    let [_, a, b, c] = host.to_be_bytes();
    let (src, dst) = (std::net::IpAddr::from([10, a, b, c]), lab_ip(2));
    let headers = Headers::new([6; 6], [7; 6], Vlans::NONE, src, dst, 55_555, 0, 64);
    let mut frame = vec![0; headers.frame_len(64)];
    headers.emit(&Bth::new(Opcode::SEND_ONLY, Qpn::new(qpn), Psn::new(psn)), &mut frame, |_| ());
    frame
}

/// A box's memory for `burst` besides its flow table, with 64 flows.
fn bytes_of(mut send: impl FnMut(&mut dyn FnMut(Side, Vec<u8>, Span))) -> u64 {
    let config = Config::lab(Recovery::Auto, 1, 1);
    let mut switch = Switch::<HeapFrame>::new(config);
    let mut now = Time::from_nanos(1_000_000_000);
    let mut give = |side, bytes, wait| {
        now += wait;
        let mut burst = arrayvec::ArrayVec::<HeapFrame, 1>::from([HeapFrame::from(bytes)]);
        switch.burst(side, &mut burst, now, &mut HeapPool, &mut Nowhere);
    };
    send(&mut give);
    // All flows are looked at, and their sum is said.
    for _ in 0..3 {
        switch.housekeeping(now, &mut HeapPool, &mut Nowhere);
    }
    switch.counters().get(Metric::FlowStateBytes)
}

/// PSN 0, then 2^19 - 1, of 64 flows: at once, and after a pause that explains the leap.
#[test]
fn two_packets_of_a_flow_take_the_memory_of_two() {
    for pause in [Span::ZERO, Span::from_millis(50)] {
        for side in [Side::Lan, Side::Wan] {
            let bytes = bytes_of(|give| {
                for qpn in 0..64 {
                    give(side, request(1, qpn, 0), Span::ZERO);
                }
                for qpn in 0..64 {
                    let wait = if qpn == 0 { pause } else { Span::ZERO };
                    give(side, request(1, qpn, (1 << 19) - 1), wait);
                }
            });
            let slot = Footprint::of::<HeapFrame>().sentry_slot as u64;
            assert!(bytes <= 64 * (1024 + 16 * slot), "{bytes} bytes for 64 flows");
        }
    }
}
