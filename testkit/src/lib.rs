//! Test support that several crates share: packets and messages as a test writes them, and books.
//! No product crate depends on it, except for its tests.

pub mod books;
pub mod control;
pub mod flow;
pub mod packets;
