//! `lr2-host`: RoCE traffic from the model of an RNIC on a DPDK port.
//!
//! Two hosts that are started with each other's address and the same options
//! for the connection (number of QPs, PMTU, seed) need no handshake: QP
//! numbers and starting PSNs follow from these.

mod connection;
mod meter;
mod options;
mod report;
mod run;
mod stall;
mod workload;

pub use options::Options;
pub use run::run;
