//! Packets that arrive: requests, responses, connection management, control messages.

pub(crate) mod cm;
pub(crate) mod control;
pub(crate) mod request;
pub(crate) mod response;
