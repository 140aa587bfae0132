//! The cost of a flood of control messages, next to the data it takes the time
//! from: one frame per iteration.
//!
//! `cargo bench -p switch --bench control_flood`

use arrayvec::ArrayVec;
use common::control::{Keys, Message, Reason, SyncMessage};
use common::frame::{Class, Packet, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Opcode, Vlans};
use switch::{Config, Recovery, Switch};
use testkit::control::{self, HEADER, sync};
use testkit::packets::{frame, headers};

fn main() {
    divan::main();
}

/// Takes everything and keeps nothing.
struct Nowhere;

impl Sink for Nowhere {
    type Frame = HeapFrame;

    fn transmit(&mut self, _: Side, _: Class, packet: Packet<HeapFrame>) {
        divan::black_box(packet.bytes().len());
    }
}

fn open(keys: &Keys) -> Vec<u8> {
    let open = sync(Reason::Open, Psn::new(0), Time::ZERO);
    let message = Message::Sync(SyncMessage { pmtu: 4096, ..open });
    control::frame(&headers(1, 2, Vlans::NONE), HEADER.dest_qpn, &HEADER, &message, keys)
}

fn data(psn: u32) -> Vec<u8> {
    frame(&headers(1, 2, Vlans::NONE), Opcode::WRITE_MIDDLE, 0x11, psn, &[0; 1024])
}

/// Hands the same frame to a switch again and again.
fn flood(bencher: divan::Bencher, side: Side, frame: &[u8]) {
    let mut switch = Switch::new(Config {
        keys: Keys::from_secret(b"another secret"),
        ..Config::lab(Recovery::Auto, 1, 1)
    });
    let now = Time::from_nanos(1);
    bencher.with_inputs(|| HeapFrame::from(frame.to_vec())).bench_local_values(|frame| {
        let mut burst = ArrayVec::<HeapFrame, 1>::new();
        burst.push(frame);
        switch.burst(side, &mut burst, now, &mut HeapPool, &mut Nowhere);
    });
}

/// In-order data of 1024 bytes, new to the Sentry.
#[divan::bench]
fn data_new(bencher: divan::Bencher) {
    let mut switch = Switch::new(Config::lab(Recovery::Lr2, 1, 1));
    let mut psn = 0;
    bencher
        .with_inputs(|| {
            psn += 1;
            HeapFrame::from(data(psn))
        })
        .bench_local_values(|frame| {
            let mut burst = ArrayVec::<HeapFrame, 1>::new();
            burst.push(frame);
            let now = Time::from_nanos(1);
            switch.burst(Side::Lan, &mut burst, now, &mut HeapPool, &mut Nowhere);
        });
}

/// From a LAN port: not even decoded.
#[divan::bench]
fn control_from_lan(bencher: divan::Bencher) {
    flood(bencher, Side::Lan, &open(&Keys::unkeyed_lab()));
}

/// From the WAN with a right ICRC and a wrong tag: the dearest to refuse.
#[divan::bench]
fn control_bad_tag(bencher: divan::Bencher) {
    flood(bencher, Side::Wan, &open(&Keys::from_secret(b"nobody's secret")));
}

/// With the right tag, for the second time.
#[divan::bench]
fn control_replayed(bencher: divan::Bencher) {
    flood(bencher, Side::Wan, &open(&Keys::from_secret(b"another secret")));
}
