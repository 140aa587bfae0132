//! The vocabulary of LR2 Gateway, without DPDK and without IO: time, PSN
//! arithmetic, frames, wire formats, control messages, flow keys, counters.

pub mod allowance;
pub mod budget;
pub mod control;
pub mod cpu;
pub mod fair_queue;
pub mod frame;
pub mod heap;
pub mod histogram;
pub mod ids;
pub mod metrics;
pub mod psn;
pub mod recorder;
pub mod rtt;
pub mod summary;
pub mod time;
pub mod verdict;
pub mod window;
pub mod wire;
