//! `lr2-wan`: the [impairment engine](crate::wan) between two DPDK ports.

mod options;
mod report;
mod run;

pub use options::Options;
pub use run::run;
