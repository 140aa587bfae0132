//! Fuzz targets. Each module has a `run` that takes any bytes, has the code
//! under test do something with them, and panics where that went wrong. The
//! programs in `targets/` hand it to libFuzzer; `scripts/fuzz` builds and runs
//! them; `tests/corpus.rs` replays earlier findings.
//!
//! - Parsers: [frames], [`cm`], [`control`], [`config`], [shims](tunnel::shim), and
//!   [headers](tunnel::encapsulation) around them.
//! - Sequences of [operations]: on a flow of the Sentry, on one of the Depot, and on two
//!   switches with a bad link between them, each beside one without fast paths; on both ends of the tunnel's [sessions](tunnel::session) and
//!   [`lanes`](tunnel::lanes), and of a lane with repair frames ([`mod@fec`]). The bytes are read front to back as
//!   numbers: where they end, so does the sequence.
//!
//! The drivers use public interfaces only, and know nothing of the inside.

#![forbid(unsafe_code)]

pub mod cm;
pub mod config;
pub mod control;
pub mod fec;
pub mod tunnel;

use testkit::{frames, operations};

/// A target's name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 12] = [
    ("frame", frames::run),
    ("cm", cm::run),
    ("control", control::run),
    ("config", config::run),
    ("sentry", operations::sentry::run),
    ("depot", operations::depot::run),
    ("switch", operations::switch::run),
    ("shim", tunnel::shim::run),
    ("encapsulation", tunnel::encapsulation::run),
    ("session", tunnel::session::run),
    ("lanes", tunnel::lanes::run),
    ("fec", fec::run),
];
