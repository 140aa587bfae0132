//! Frames on the heap: for the simulator, for tests and for fuzzing.

use std::sync::Arc;

use crate::frame::{Frame, Headroom, Pool, Shared};

/// A frame in a heap buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapFrame(Vec<u8>);

/// A heap buffer with several owners.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapShared(Arc<Vec<u8>>);

/// A pool without limit.
#[derive(Clone, Copy, Default, Debug)]
pub struct HeapPool;

impl From<Vec<u8>> for HeapFrame {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Frame for HeapFrame {
    type Shared = HeapShared;

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn share(self) -> HeapShared {
        HeapShared(Arc::new(self.0))
    }
}

impl Headroom for HeapFrame {
    fn headroom(&self) -> usize {
        usize::MAX
    }

    fn grow_front(&mut self, len: usize) -> bool {
        self.0.splice(..0, core::iter::repeat_n(0, len));
        true
    }

    fn shrink_front(&mut self, len: usize) {
        self.0.drain(..len);
    }
}

impl Shared for HeapShared {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Pool for HeapPool {
    type Frame = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        Some(HeapFrame(vec![0; len]))
    }
}
