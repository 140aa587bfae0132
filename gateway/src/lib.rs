//! LR2 Gateway, the program: joins DPDK ports to a `switch` and lets an
//! operator see and steer it. Everything about the protocol is elsewhere; here
//! are only I/O and control.
//!
//! Two threads. The worker polls the ports and owns the flows; the
//! control thread serves `/metrics` and `/healthz` from what the worker
//! publishes, and can never block it.

pub mod config;
pub mod control;
pub mod run;
pub mod telemetry;
pub mod worker;
