//! The cost of each stage of a packet's way.
//!
//! A [`Case`] is an operation that a box repeats in its steady state. Three
//! programs go through [`CASES`]:
//!
//! - `benches/cycles.rs` takes the time;
//! - `src/bin/instructions.rs` does one of them under callgrind, which counts
//!   instructions; `instructions.toml` pins them, and `scripts/test instructions`
//!   compares;
//! - `tests/allocations.rs` makes sure that there are none, and that each case does
//!   its name says.
//!
//! Frames are [`frame::Recycled`]. They are in the cache when they come, which those
//! that a NIC has just written are not: `scripts/bench` has that.

pub mod depot_flow;
pub mod fec;
pub mod flow;
pub mod frame;
pub mod lan;
pub mod link;
pub mod packets;
pub mod sentry_flow;
pub mod tunnel;
pub mod wire;

use common::frame::Side;
use datapath::Which::{self, AfterNak, All};
use lan::Lans;
use link::{Link, Passage};
use sentry::Recovery as FlowRecovery;
use switch::Recovery;
use tunnel::Pipe;

/// Packets that come at once.
pub const BURST: u32 = 32;

/// Records of the flight recorder, as a gateway has by default.
const RECORDS: usize = 1 << 16;

/// `recovery.lan = "off"`.
const OFF: Option<Which> = None;

/// Something that can be done again and again.
pub trait Stage {
    /// Makes the next round ready, and tidies up after the one before. Not
    /// measured.
    fn prepare(&mut self);

    /// One measured round.
    fn run(&mut self);

    /// How often it was done so far, by the product's own counters where it has
    /// any.
    fn done(&self) -> u64;

    /// Whether each round does it as often.
    fn is_steady(&self) -> bool {
        true
    }

    /// Whether all flows are protected that will be. The ring of one that begins is allocated.
    fn is_settled(&self) -> bool {
        true
    }
}

/// One thing that is measured.
pub struct Case {
    /// The operation, in a word or two.
    pub name: &'static str,
    /// How often a round does it.
    pub per_round: u32,
    /// Begins it.
    pub make: fn() -> Box<dyn Stage>,
}

macro_rules! cases {
    ($($name:literal, $per:expr, $make:expr;)*) => {
        /// All of them.
        pub const CASES: &[Case] = &[$(Case {
            name: $name,
            per_round: $per,
            make: || Box::new($make),
        }),*];
    };
}

cases! {
    "parse", BURST, wire::parse_burst();
    "icrc 1024", 1, wire::icrc_of(1024);
    "icrc 4096", 1, wire::icrc_of(4096);
    "encode sync", 1, wire::encode(wire::sync());
    "decode sync", 1, wire::decode(wire::sync());
    "encode status", 1, wire::encode(wire::status(0));
    "decode status", 1, wire::decode(wire::status(0));
    "encode status 8 gaps", 1, wire::encode(wire::status(8));
    "decode status 8 gaps", 1, wire::decode(wire::status(8));

    "sentry new lr2", BURST, sentry_flow::in_order(FlowRecovery::Lr2);
    "sentry new cached", BURST, sentry_flow::in_order(FlowRecovery::Cached);
    "sentry ack of 16 lr2", 2, sentry_flow::acks(FlowRecovery::Lr2);
    "sentry ack of 16 cached", 2, sentry_flow::acks(FlowRecovery::Cached);
    "sentry filter", BURST, sentry_flow::repeats();
    "depot in order", BURST, depot_flow::in_order(true);
    "depot in order, no backup", BURST, depot_flow::in_order(false);
    "depot ack of 16", 2, depot_flow::acks();
    "depot hold", BURST, depot_flow::early();
    "depot drain", BURST, depot_flow::drain();

    "switch pass", BURST, Passage::new(Recovery::Off, 1);
    "switch look-up, 1 flow", BURST, Passage::new(Recovery::Cached, 1);
    "switch look-up, 64 flows", BURST, Passage::new(Recovery::Cached, 64);
    "switch look-up, 64 k flows", BURST, Passage::new(Recovery::Cached, 1 << 16);
    "switch sentry lr2, 64 flows", BURST, Link::steady(Side::Lan, Recovery::Lr2, 64);
    "switch sentry cached, 1 flow", BURST, Link::steady(Side::Lan, Recovery::Cached, 1);
    "switch sentry cached, 64 flows", BURST, Link::steady(Side::Lan, Recovery::Cached, 64);
    "switch sentry cached, 4 k flows", BURST, Link::steady(Side::Lan, Recovery::Cached, 4096);
    "switch sentry cached, 64 k flows", BURST, Link::steady(Side::Lan, Recovery::Cached, 1 << 16);
    "switch depot lr2, 64 flows", BURST, Link::steady(Side::Wan, Recovery::Lr2, 64);
    "switch depot cached, 1 flow", BURST, Link::steady(Side::Wan, Recovery::Cached, 1);
    "switch depot cached, 64 flows", BURST, Link::steady(Side::Wan, Recovery::Cached, 64);
    "switch depot cached, 4 k flows", BURST, Link::steady(Side::Wan, Recovery::Cached, 4096);
    "switch depot cached, 64 k flows", BURST, Link::steady(Side::Wan, Recovery::Cached, 1 << 16);
    "switch sentry cached, 1 % lost", BURST, Link::lossy(Side::Lan, Recovery::Cached, 64, 101);
    "switch depot cached, 1 % lost", BURST, Link::lossy(Side::Wan, Recovery::Cached, 64, 101);
    "tunnel sender, 64 flows", BURST, Pipe::sender(64);
    "tunnel sender, 64 k flows", BURST, Pipe::sender(1 << 16);
    "tunnel receiver, 64 flows", BURST, Pipe::receiver(64);
    "tunnel receiver, 64 k flows", BURST, Pipe::receiver(1 << 16);
    "tunnel sender, 8 lanes", BURST, Pipe::sender_on(8, 64);
    "tunnel receiver, 8 lanes", BURST, Pipe::receiver_on(8, 64);
    "tunnel sender, 1 % lost", BURST, Pipe::lossy_sender(64, 100);
    "tunnel receiver, 1 % lost", BURST, Pipe::lossy_receiver(64, 100);
    "fec sender 4096", BURST, fec::Sender::begin();
    "fec receiver 4096", BURST, fec::Receiver::begin();

    "lan off sender, 64 flows", BURST, Lans::sender(OFF, 64, 0);
    "lan off receiver, 64 flows", BURST, Lans::receiver(OFF, 64, 0);
    "lan off sender, 64 k flows", BURST, Lans::sender(OFF, 1 << 16, 0);
    "lan off receiver, 64 k flows", BURST, Lans::receiver(OFF, 1 << 16, 0);
    "lan auto sender, 64 flows", BURST, Lans::sender(Some(AfterNak), 64, 0);
    "lan auto receiver, 64 flows", BURST, Lans::receiver(Some(AfterNak), 64, 0);
    "lan auto sender, 64 k flows", BURST, Lans::sender(Some(AfterNak), 1 << 16, 0);
    "lan auto receiver, 64 k flows", BURST, Lans::receiver(Some(AfterNak), 1 << 16, 0);
    "lan auto sender, 0.1 % repaired", BURST, Lans::sender(Some(AfterNak), 1 << 16, 1);
    "lan auto receiver, 0.1 % repaired", BURST, Lans::receiver(Some(AfterNak), 1 << 16, 1);
    "lan auto sender, 1 % repaired", BURST, Lans::sender(Some(AfterNak), 1 << 16, 10);
    "lan auto receiver, 1 % repaired", BURST, Lans::receiver(Some(AfterNak), 1 << 16, 10);
    "lan on sender, 64 flows", BURST, Lans::sender(Some(All), 64, 0);
    "lan on receiver, 64 flows", BURST, Lans::receiver(Some(All), 64, 0);
}

/// The case of that name.
pub fn case(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}
