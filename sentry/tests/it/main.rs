//! The crate's tests from outside, in one program: each links the crate only once.

mod chaos;
mod data;
mod fetch;
mod filter;
mod gaps;
mod incarnations;
mod naks;
mod peers;
mod quiet;
mod reads;
mod repair;
mod selective;
mod size;
mod source_lan;
mod spans;
mod timers;
