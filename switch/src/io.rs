//! Access of the switch to frames, ports and time for one call, and a packet that arrived.

use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::ids::FlowId;
use common::metrics::{Counters, Metric};
use common::time::Time;
use common::wire::Roce;

use crate::flow::key::FlowKey;

/// The outside of the switch, for the time of one call.
pub(crate) trait Io {
    /// The kind of frame.
    type Frame: Frame;

    /// See [`Pool::alloc`].
    fn alloc(&mut self, len: usize) -> Option<Self::Frame>;

    /// See [`Sink::transmit`].
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<Self::Frame>);

    /// The time of this call.
    fn now(&self) -> Time;
}

/// A pool and a sink at one time.
pub(crate) struct Ports<'a, P, S> {
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    pub now: Time,
}

impl<P: Pool, S: Sink<Frame = P::Frame>> Io for Ports<'_, P, S> {
    type Frame = P::Frame;

    #[inline]
    fn alloc(&mut self, len: usize) -> Option<P::Frame> {
        self.pool.alloc(len)
    }

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<P::Frame>) {
        self.sink.transmit(side, class, packet);
    }

    #[inline]
    fn now(&self) -> Time {
        self.now
    }
}

/// A RoCEv2 packet that arrived.
pub(crate) struct Arrival<'a, F> {
    /// The port that it arrived on.
    pub side: Side,
    pub frame: F,
    pub roce: &'a Roce,
    /// The entry of its stream, if the burst's look-up found one.
    pub flow: Option<FlowId>,
}

impl<F> Arrival<'_, F> {
    /// The key of its stream.
    #[inline]
    pub fn key(&self) -> FlowKey {
        FlowKey::of(self.side, self.roce)
    }
}

/// Transmits a frame and books it.
#[inline(always)]
pub(crate) fn transmit<I: Io>(
    counters: &mut Counters,
    io: &mut I,
    side: Side,
    class: Class,
    packet: Packet<I::Frame>,
) {
    counters.inc(match side {
        Side::Lan => Metric::TransmittedLan,
        Side::Wan => Metric::TransmittedWan,
    });
    io.transmit(side, class, packet);
}
