//! Hosts whose RNIC takes packets in any order and acknowledges each of them, as
//! Ultra Ethernet Transport (UET 1.0, reliable unordered delivery) requires of a
//! NIC, with unlimited memory. An upper bound for repair by hosts.
//!
//! # The rules
//!
//! - *Direct placement.* The receiver puts each packet where it belongs when it comes. It
//!   holds nothing back, and refuses nothing: of a packet ahead it
//!   remembers a bit.
//! - *Selective acknowledgement.* Each packet triggers an ACK with the next PSN in
//!   order and a bitmap of 64 packets up to the one that arrived. So a lost ACK costs
//!   nothing.
//! - *Loss.* A packet is lost once one that was sent after it, new or repeated, has come.
//!   A repeat that is lost is found in the same way, a round trip later: there
//!   is no other timeout than that of a tail, of two round trips without a word,
//!   doubled each time. Reordering counts as loss. A packet acknowledged sooner than a
//!   round trip after its repeat had arrived before.
//! - *Window.* It counts packets on their way: those that came ahead of a gap are
//!   none, so that a gap never stops the source.
//! - Messages complete in order, and congestion control is [`rnic::Dcqcn`], as that of all
//!   others.
//!
//! # Left out
//!
//! The frames are RoCEv2: an ACK is an atomic's, which has room for 64 bits. UET's own
//! headers, its congestion control (NSCC, RCCC), packet trimming and spraying are left
//! out.

mod receiver;
mod sender;

use common::time::Span;
use rnic::NicConfig;

use self::receiver::Receiver;
use self::sender::Sender;
use super::selective::{self, Arrivals, Pair};
use crate::node::Rnic;

/// The RNIC of a host, on paths with a round trip of `rtt`.
pub fn nic(config: NicConfig, rtt: Span) -> impl Rnic {
    selective::nic(config, move |port, config| {
        port.add(config, |qp, config| Pair {
            sender: Sender::new(qp, config, rtt),
            receiver: Receiver,
            arrivals: Arrivals::new(qp, config),
        })
    })
}
