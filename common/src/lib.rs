//! The vocabulary of LR2 Gateway, without DPDK and without IO: time, PSN
//! arithmetic, frames, wire formats, control messages and the flow table.
pub mod frame;
pub mod heap;
pub mod psn;
pub mod time;
pub mod wire;
