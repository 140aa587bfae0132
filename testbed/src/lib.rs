//! What a pair of gateways is tried out with when there is no long-haul link
//! and no RNIC: a link emulator and RoCE hosts, both on DPDK ports.
//!
//! - [`wan`]: the impairment engine behind `lr2-wan`: rate, delay, jitter,
//!   loss, reordering, duplication, corruption and outages. It does no IO and
//!   reads no clock, so its tests run on virtual time.
pub mod wan;
