//! Hosts with selective repeat in the RNIC: IRN (Mittal et al., *Revisiting
//! Network Support for RDMA*, SIGCOMM 2018).
//!
//! The interface is that of [`rnic::Nic`], and the frames are RoCEv2 with a
//! valid ICRC, so that hosts of either sort fit into the same network. Its queue
//! pairs do SENDs and WRITEs.
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
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

use rnic::{NicConfig, Port, QpConfig, QpError, QpId};

use self::receiver::Receiver;
use self::sender::Sender;
use super::selective::{self, Arrivals, Pair};
use crate::node::Rnic;

pub use config::Irn;

/// A port with its queue pairs, to be driven like [`rnic::Nic`].
type IrnNic = Port<Pair<Sender, Receiver>>;

/// The RNIC of a host: a port whose queue pairs have the parameters `irn`.
pub fn nic(config: NicConfig, irn: Irn) -> impl Rnic {
    selective::nic(config, move |port, qp| add_qp(port, qp, irn))
}

/// Sets up a connected QP on `nic`. Of `config` these count: QP numbers,
/// addresses, VLANs, UDP source port, ToS, PSNs, PMTU, `ack_req_every`,
/// `remote_region`, `dcqcn` and `content_seed`. It takes SENDs and WRITEs.
///
/// # Errors
/// If a field of `config` or `irn` is out of range or the QP number is in
/// use.
fn add_qp(nic: &mut IrnNic, config: QpConfig, irn: Irn) -> Result<QpId, QpError> {
    irn.check()?;
    nic.add(config, |qp, config| Pair {
        sender: Sender::new(qp, config, irn),
        receiver: Receiver::new(irn),
        arrivals: Arrivals::new(qp, config),
    })
}
