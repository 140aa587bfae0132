//! Frames that leave: forwarded, made by pipelines, or messages to the peers.

pub(crate) mod actions;
pub(crate) mod peers;
pub(crate) mod release;
