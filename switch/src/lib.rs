//! One end of the long-haul link, between a box's LAN and WAN ports, without IO and clock.
//!
//! A packet's way: [`Switch::burst`] parses each frame once ([`common::wire::parse`]) and
//! forwards all but RoCEv2 RC traffic unchanged. A request from the LAN goes to the
//! [`sentry::Flow`] of its flow, a request from the WAN to the [`depot::Flow`]. A response is
//! forwarded, and acknowledges packets of the flow that it belongs to. A control message of
//! the peer is consumed. Connection management on QP 1 is forwarded, and read.
//!
//! `rx` has a file for each of these, `flow` the table of flows, `qp` which two flows are one
//! queue pair, and `tx` turns the pipelines' actions into frames, which leave through the
//! [`Sink`](common::frame::Sink).
//!
//! The caller hands in bursts as they arrive, calls [`Switch::timers`] whenever
//! [`Switch::next_deadline`] has passed, and [`Switch::housekeeping`] a few times a second.

mod capacity;
mod config;
mod context;
mod flow;
mod io;
mod maintenance;
mod operator;
mod peer;
mod qp;
mod retune;
mod rx;
mod summary;
mod switch;
mod tx;

pub use capacity::{Footprint, Pools};
pub use config::{Config, End, QueuePair, Recovery, Role, Settings, Tuning};
pub use ipnet::IpNet;
pub use peer::{PeerState, RefusedMessage};
pub use sentry::Standing;
pub use summary::{FlowName, FlowStage, FlowSummary};
pub use switch::{HeldBytes, Switch};
