//! The crate's tests from outside, in one program: each links the crate only once.

mod acks;
mod blackout;
mod bursts;
mod changeover;
mod copies;
mod division;
mod encapsulation;
mod message;
mod pacing;
mod paths;
mod protection;
mod receiver;
mod refused;
mod releases;
mod retune;
mod session;
mod silence;
mod spray;
mod support;
mod tags_and_sums;
mod tolerance;
mod tunnel;
mod world;
