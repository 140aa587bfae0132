//! A bad link: rate, queue, delay, jitter, loss at random and in bursts,
//! reordering, duplication, corruption, outages. A link is two independent
//! [`Direction`]s, driven by `lr2-wan` between DPDK ports and by the
//! simulator under virtual time. There is no IO, clock or thread in it.
//!
//! ```text
//!            tail drop          random, listed,        propagation: delay,
//!  offered ─▶ queue ─▶ line ─▶ outage loss ─▶ corrupt ─▶ jitter, reordering ─▶ delivered
//!                     (rate)                  copy ─▶
//! ```
//!
//! The order is that of a real link: a frame that the link loses has used its
//! share of the rate before, one that found the queue full has not. The fate
//! of a frame is decided once, when it is offered; afterwards it only
//! waits for its time. The link is blind to content: data, ACKs and
//! control messages are impaired alike.
//!
//! Each kind of impairment has its own random stream, derived from the seed,
//! so that switching one on leaves the pattern of the others as it was.
//!
//! At every instant, per direction: frames offered + copies made = frames
//! delivered + held + lost by reason.

mod config;
mod corrupt;
mod counters;
mod dice;
mod direction;
mod kind;
mod line;
mod loss;
mod transit;

#[cfg(test)]
mod tests;

pub use config::{
    Corruption, CorruptionScope, DirectionConfig, Invalid, LossModel, Outage, Reordering,
};
pub use counters::{ByKind, Counters, LossReason, Lost, Tally};
pub use direction::{Direction, Receipt};
pub use kind::{FrameKind, within};
pub use line::{FRAME_OVERHEAD, Line, wire_bytes};
