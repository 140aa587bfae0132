//! The worker's view of the machine, as traits: DPDK's queues, pool and
//! clock when it runs, heap frames and a virtual clock when it is tested.

use arrayvec::ArrayVec;
use common::frame::{Frame, Pool};
use common::time::Time;
use dpdk_sys_wrapper::{Clock, Mbuf, PoolHandle, RxQueue, RxRepairs, SharedMbuf, TxQueue};

/// A receive queue.
pub trait Receive {
    /// The kind of frame.
    type Frame: Frame;

    /// Appends frames that have arrived, as many as fit, and returns how many.
    fn receive<const N: usize>(&mut self, frames: &mut ArrayVec<Self::Frame, N>) -> usize;

    /// Repairs of frames so far, to make them single buffers.
    fn repairs(&self) -> RxRepairs;
}

/// A transmit queue.
pub trait Transmit {
    /// The kind of frame.
    type Frame: Frame;

    /// Sends frames in order. Those that the port took are gone from
    /// `frames`, the rest has moved to its front. Returns how many it took.
    fn send<const N: usize>(
        &mut self,
        frames: &mut ArrayVec<<Self::Frame as Frame>::Shared, N>,
    ) -> usize;
}

/// A pool that knows when it runs low.
pub trait Reserve: Pool {
    /// Whether so little is free that reception is in danger. Not for every
    /// packet.
    fn is_low(&self) -> bool;
}

/// A clock.
pub trait Now {
    /// Now.
    fn now(&self) -> Time;
}

impl Receive for RxQueue {
    type Frame = Mbuf;

    #[inline]
    fn receive<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        self.burst(frames)
    }

    fn repairs(&self) -> RxRepairs {
        self.repairs()
    }
}

impl Transmit for TxQueue {
    type Frame = Mbuf;

    #[inline]
    fn send<const N: usize>(&mut self, frames: &mut ArrayVec<SharedMbuf, N>) -> usize {
        self.burst(frames)
    }
}

/// mbufs that the worker's own frames leave to reception.
pub const RESERVE: u32 = 512;

impl Reserve for PoolHandle {
    fn is_low(&self) -> bool {
        self.pool().available() < 2 * RESERVE
    }
}

impl Now for Clock {
    #[inline]
    fn now(&self) -> Time {
        self.now()
    }
}
