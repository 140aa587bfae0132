//! The frames that a node puts on its cables.

use super::cable::Pause;
use super::port::Departure;

/// A node's effects on the cables at its ports.
#[derive(Default)]
pub struct Outbox {
    /// Frames that leave.
    pub frames: Vec<Departure>,
    /// PFC frames, with their port.
    pub pauses: Vec<(usize, Pause)>,
}
