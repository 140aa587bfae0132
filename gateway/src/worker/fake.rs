//! Ports, pool and clock for tests, on the heap.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use arrayvec::ArrayVec;
use common::frame::{Frame, Shared};
use common::heap::{HeapFrame, HeapPool};
use common::time::{Span, Time};
use dpdk_sys_wrapper::RxRepairs;

use super::io::{Now, Receive, Reserve, Transmit};

/// A receive queue that a test fills. Clones are the same queue.
#[derive(Clone, Default)]
pub(crate) struct FakeRx(Rc<RefCell<VecDeque<HeapFrame>>>);

impl FakeRx {
    pub(crate) fn arrive(&self, frame: impl Into<HeapFrame>) {
        self.0.borrow_mut().push_back(frame.into());
    }
}

impl Receive for FakeRx {
    type Frame = HeapFrame;

    fn receive<const N: usize>(&mut self, frames: &mut ArrayVec<HeapFrame, N>) -> usize {
        let mut queue = self.0.borrow_mut();
        let n = queue.len().min(frames.remaining_capacity());
        frames.extend(queue.drain(..n));
        n
    }

    fn repairs(&self) -> RxRepairs {
        RxRepairs { too_long: 2, ..RxRepairs::default() }
    }
}

/// A transmit queue that takes as many frames as the test allows. Clones are
/// the same queue.
#[derive(Clone)]
pub(crate) struct FakeTx {
    taken: Rc<RefCell<Vec<Vec<u8>>>>,
    room: Rc<Cell<usize>>,
}

impl Default for FakeTx {
    fn default() -> Self {
        Self { taken: Rc::default(), room: Rc::new(Cell::new(usize::MAX)) }
    }
}

impl FakeTx {
    /// From now on takes this many frames more.
    pub(crate) fn accept(&self, frames: usize) {
        self.room.set(frames);
    }

    /// Frames taken since the last call.
    pub(crate) fn drain(&self) -> Vec<Vec<u8>> {
        self.taken.take()
    }

    pub(crate) fn taken(&self) -> Vec<Vec<u8>> {
        self.taken.borrow().clone()
    }
}

type Handle = <HeapFrame as Frame>::Shared;

impl Transmit for FakeTx {
    type Frame = HeapFrame;

    fn send<const N: usize>(&mut self, packets: &mut ArrayVec<Handle, N>) -> usize {
        let n = packets.len().min(self.room.get());
        self.room.set(self.room.get() - n);
        self.taken.borrow_mut().extend(packets.drain(..n).map(|p| p.bytes().to_vec()));
        n
    }
}

impl Reserve for HeapPool {
    fn is_low(&self) -> bool {
        false
    }
}

/// A clock that a test sets. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct FakeClock(Rc<Cell<Time>>);

impl FakeClock {
    pub(crate) fn advance(&self, span: Span) {
        self.0.set(self.0.get() + span);
    }
}

impl Now for FakeClock {
    fn now(&self) -> Time {
        self.0.get()
    }
}
