//! The benefit of a pair of gateways on a link: a discrete-event simulator that
//! drives the very same `switch`, `sentry`, `depot`, `rnic` and `link` crates as
//! the product and its testbed, beside models of their peers.
//!
//! A [`scenario::Scenario`] and a [`scheme::Scheme`] give [`results::RunResult`],
//! the same on every run and machine for the same seed.

pub mod capture;
pub mod cli;
pub mod engine;
pub mod frame;
pub mod input;
pub mod net;
pub mod node;
pub mod paper;
pub mod path;
pub mod peers;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod scheme;
pub mod schemes;
mod text;
pub mod topology;
pub mod traffic;
