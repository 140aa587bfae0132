//! Test support that several crates share: packets and messages as a test writes them, flows with
//! their surroundings, and books. No product crate depends on it, except for its tests in `tests/`:
//! to a unit test in `sentry/src` the types of the `sentry` that this crate uses are other types.

pub mod books;
pub mod control;
pub mod depot;
pub mod flow;
pub mod frames;
mod harness;
pub mod operations;
pub mod packets;
pub mod sentry;
pub mod timers;
pub mod twins;
pub mod wires;
