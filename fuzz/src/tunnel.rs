//! The tunnel: [`shim`]s and control messages of any bytes, [headers](encapsulation) around any frame, two [`session`] ends on a bad path, and
//! [`lanes`] between a sender and a receiver.

pub mod encapsulation;
pub mod lanes;
pub mod session;
pub mod shim;
