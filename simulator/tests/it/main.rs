//! The crate's tests from outside, in one program: each links the crate only once.

mod capture;
mod cli;
mod closed_forms;
mod connections;
mod lan_port;
mod lan_repair;
mod long_haul;
mod never_worse;
mod paper;
mod peers;
mod plan;
mod report;
mod runs;
mod scenario;
mod selective;
mod short_memory;
mod sizing;
mod spray;
mod support;
mod traffic;
mod tunnel;
