//! `lr2-wan`: the [model of a bad link](::link) between pairs of DPDK ports.

mod link;
mod options;
mod report;
mod run;
mod way;

pub use options::Options;
pub use run::run;
