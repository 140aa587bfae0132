//! Which two flows are the directions of one queue pair.

pub(crate) mod cm;
pub(crate) mod configured;
pub(crate) mod match_acks;
pub(crate) mod pairing;
