//! The tunnel between two boxes: frames are numbered on *lanes*, and a frame that a lane loses is resent.
//!
//! A lane is a sequence of frames in one direction on one path, which the network keeps in order. A
//! [`Sender`] gives every transmission a number of its own and keeps each frame until a [`Report`](message::Report) says
//! that it has arrived. A [`Receiver`] sees a missing number at once, and delivers a frame only behind its
//! *predecessor*, the frame before it of the same flow bucket: no frame overtakes an earlier one of its
//! own flow, on however many lanes they travel.
//!
//! No clock, no IO and no randomness: callers pass frames and the time, and implement
//! [`Transmit`], [`Recover`] and [`Deliver`].

#![forbid(unsafe_code)]

mod division;
mod ecn;
pub mod encapsulation;
mod features;
mod flow;
mod gaps;
mod marks;
pub mod message;
mod number;
mod paths;
mod protection;
mod receiver;
mod repair_shim;
mod sender;
pub mod session;
pub mod shim;
pub mod spray;
mod tuning;
mod tunnel;
mod waiting;

pub use division::{Division, Part};
pub use features::{Features, LansRepaired};
pub use fec::Plan;
pub use flow::{Flow, Order};
pub use number::{FrameId, Lane, Number, Port, Session, WireNumber};
pub use paths::PathState;
pub use protection::Protected;
pub use receiver::{Deliver, Received, Receiver, ReceiverConfig};
pub use sender::{BUCKETS, Health, Recover, Sender, SenderConfig, Sent, Transmit, report_interval};
pub use tuning::Tuning;
pub use tunnel::{Config, Counts, Dropped, Io, LaneState, Tunnel};
