//! LR2 Gateway, the program: joins DPDK ports to a `switch` and lets an
//! operator see and steer it. Everything about the protocol is elsewhere; here
//! are only I/O and control.
//!
//! Each worker, a thread, polls its queues of the ports and owns its part of
//! the flows; the control thread serves `/metrics` and `/healthz` from
//! published counters, and can never block the workers.

pub mod boot;
pub mod config;
pub mod control;
pub mod cores;
pub mod doctor;
pub mod event;
pub mod held;
pub mod instance;
pub mod log;
pub mod notify;
pub mod peer;
pub mod port;
pub mod reload;
pub mod run;
pub mod shares;
pub mod telemetry;
pub mod worker;
