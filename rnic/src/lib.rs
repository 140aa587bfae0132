//! An RNIC's reliable-connection (RC) requester and responder as a model: real
//! RoCEv2 frames with a valid ICRC go in and out, go-back-N and all timers
//! behave as real RNICs do, and there is no IO, clock or thread in it.
//!
//! The same model is the traffic generator of the testbed, the two ends of the
//! property tests and the hosts of the simulator.
//!
//! # Driving it
//!
//! A [`Nic`] is a port with queue pairs. Its driver
//!
//! 1. [posts](Nic::post) work requests,
//! 2. hands in each frame that arrives ([`Nic::receive`]),
//! 3. calls [`Nic::on_timers`] and then [`Nic::poll_transmit`] until it gives
//!    nothing, after each of the above and when [`Nic::next_deadline`] has
//!    come,
//! 4. takes completions from [`Nic::poll_completion`] and received messages from
//!    [`Nic::poll_received`].
//!
//! Time never goes backwards between calls. Nothing is allocated per packet
//! once queues have grown to the size that the traffic needs.
//!
//! Queue pairs may have congestion control: [`Dcqcn`].
//!
//! # Checks
//!
//! The content of a message follows from the QP, the message's number and the
//! configured seed; the responder compares every byte of SENDs and WRITEs, the
//! requester every byte that a READ fetches. Atomics work on a word per QP; the
//! requester knows the value that each must find. Some events can't happen between two
//! conforming ends on a network that only loses, delays, reorders or duplicates
//! frames: ACKs for packets never sent, refused requests, wrong bytes, an atomic
//! executed twice. They are counted ([`QpStats`]), not asserted.
//!
//! ```
//! use common::heap::HeapPool;
//! use common::{frame::Frame, time::Time, wire::Qpn};
//! use rnic::{Nic, NicConfig, QpConfig, Status, WorkKind, WorkRequest, lab_ip};
//!
//! let mut a = Nic::new(NicConfig::new([2, 0, 0, 0, 0, 1], lab_ip(1)));
//! let mut b = Nic::new(NicConfig::new([2, 0, 0, 0, 0, 2], lab_ip(2)));
//! let (one, two) = (Qpn::new(0x11), Qpn::new(0x22));
//! let qp = a.add_qp(QpConfig::new(one, two, [2, 0, 0, 0, 0, 2], lab_ip(2)))?;
//! b.add_qp(QpConfig::new(two, one, [2, 0, 0, 0, 0, 1], lab_ip(1)))?;
//!
//! a.post(qp, WorkRequest { kind: WorkKind::Send, len: 5000, id: 7 }, Time::ZERO)?;
//! while let Some(frame) = a.poll_transmit(Time::ZERO, &mut HeapPool) {
//!     b.receive(frame.bytes(), Time::ZERO);
//! }
//! while let Some(frame) = b.poll_transmit(Time::ZERO, &mut HeapPool) {
//!     a.receive(frame.bytes(), Time::ZERO);
//! }
//! assert_eq!(a.poll_completion().unwrap().status, Status::Ok);
//! let received = b.poll_received().unwrap();
//! assert_eq!((received.len, received.corrupt_bytes), (5000, 0));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
mod config;
mod congestion;
mod content;
mod dcqcn;
mod nic;
mod pacer;
mod packet;
mod port;
mod requester;
mod responder;
mod stats;
mod timers;
mod work;

/// The parts of the model, for models of other NICs: a [`Port`] of
/// queue pairs with another protocol, their [`Transport`](parts::Transport).
pub mod parts {
    pub use crate::content::{Content, Stream};
    pub use crate::packet::{Extension, Packet};
    pub use crate::port::{Events, Transport};
    pub use crate::timers::Timer;
}

pub use config::{
    AckCoalescing, ImpliedNak, MIN_FRAME, NicConfig, PartialRead, QpConfig, QpError, ReceiveQueue,
    Region, RetryLimit, SecondNak, WIRE_OVERHEAD, lab_ip, local_ack_timeout, rnr_delay,
    symmetric_udp_port,
};
pub use dcqcn::Dcqcn;
pub use nic::{Nic, ReliableConnection};
pub use port::Port;
pub use stats::{PortStats, QpStats, RequesterStats, ResponderStats, Rtt};
pub use work::{
    ATOMIC_LEN, Completion, MAX_MESSAGE, MAX_READ_PACKETS, PostError, QpId, Received, Status,
    WorkKind, WorkRequest,
};
