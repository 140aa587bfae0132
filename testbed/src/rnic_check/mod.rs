//! `lr2-check-rnic`: a wire between two hosts that tries on their RNICs what gateways do to them.
//!
//! A [`Checker`] forwards all frames between two ends, follows the queue pairs of the traffic, and runs one
//! [check](checks::Name) after the other on one of them: it drops, holds, repeats or adds a packet, and looks at what the
//! RNICs do. It sends to no address and no queue pair that it has not seen in the traffic. [`run()`] drives it with two
//! DPDK ports.

mod check;
mod checker;
mod checks;
mod end;
mod flow;
mod flows;
mod options;
mod packets;
mod report;
mod run;
mod trail;

pub use check::{Outcome, Verdict};
pub use checker::{Checker, Config, Done, Event, HELD_MAX, Ledger};
pub use checks::{About, Name};
pub use end::End;
pub use flow::Need;
pub use options::{Options, list};
pub use report::{Port, Report};
pub use run::run;
