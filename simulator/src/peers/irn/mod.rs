//! Hosts with selective repeat in the RNIC: IRN (Mittal et al., *Revisiting
//! Network Support for RDMA*, SIGCOMM 2018).
//!
//! The interface is that of [`rnic::Nic`], and the frames are RoCEv2 with a
//! valid ICRC, so that hosts of either sort fit into the same network. A port
//! is an [`IrnNic`]; its queue pairs do SENDs and WRITEs.
//!
//! # Taken from IRN
//!
//! Rules of the paper (section 3) and, where it leaves something open, of the
//! hardware description that its authors published:
//!
//! - The receiver takes packets in any order, as far as a bitmap of
//!   [`Irn::cap`] packets reaches. A packet ahead of the expected one brings
//!   forth a NACK with two numbers: the expected PSN, which acknowledges
//!   everything before it, and its own.
//! - The sender remembers selective acknowledgements. It is in *loss
//!   recovery* from a NACK or timeout until everything is acknowledged that it
//!   had sent before the last repeat (up to the *recovery sequence*). In
//!   recovery it sends lost packets, in order and each once, before anything
//!   new: on entry the oldest packet that is not acknowledged, then each that has
//!   a packet acknowledged selectively further on. So reordering is taken for
//!   loss, a packet whose NACK was lost is sent again, and a repeat that is lost as
//!   well is left to the timeout. After a timeout nothing that was sent before it is
//!   taken to be in flight: an advance sends the next one that is missing.
//! - BDP-FC: never more than [`Irn::cap`] packets from the oldest that is not
//!   acknowledged to the newest that was sent. As long as a packet is missing
//!   the oldest one doesn't move: with a cap of one bandwidth-delay product
//!   each loss stops new packets for up to a round trip. With two or more a
//!   long flow gets 1 − p of the line, less timeouts.
//! - The timer runs from the last advance, or from the repeat of the oldest
//!   packet. It is [`Irn::rto_low`] while at most [`Irn::few`] packets are in
//!   flight, since these may bring forth no NACK, else [`Irn::rto_high`].
//!   There is no limit to how often it goes off.
//! - Work requests complete in order, at both ends.
//!
//! # Left out
//!
//! - IRN puts the number of the packet that caused a NACK into a header of its
//!   own. Here it stands in the MSN field of the AETH.
//! - IRN gives each WRITE packet an address and each SEND packet the number of
//!   its request, up to 16 bytes, so that it can be placed on arrival. Here only
//!   the first packet of a WRITE has an address, as in RoCEv2; the content
//!   of a packet follows from its PSN. Frames are that much shorter
//!   than IRN's.
//! - Packets ask for ACKs as those of [`rnic`] do
//!   ([`rnic::QpConfig::ack_req_every`]); IRN acknowledges each.
//! - Congestion control is [`rnic::Dcqcn`], the same code.

mod config;
mod nic;
mod receiver;
mod sender;
mod stats;

#[cfg(test)]
mod tests;

pub use config::Irn;
pub use nic::{IrnNic, SelectiveRepeat, nic};
pub use stats::IrnStats;
