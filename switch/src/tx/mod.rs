//! What leaves: frames that pipelines forward or make, and messages to the peers.

pub(crate) mod actions;
pub(crate) mod peers;
pub(crate) mod release;
