//! The crate's tests from outside, in one program: each links the crate only once.

mod backup;
mod chaos;
mod doubt;
mod incarnations;
mod lan;
mod naks;
mod network;
mod order;
mod orphans;
mod pacing;
mod reads;
mod reports;
mod responses;
mod short;
mod size;
mod tolerance;
