//! Frames in the simulator: real bytes with a reference count, so that a frame
//! that a pool keeps and one that is on its way are the same memory.

use std::sync::Arc;

use common::frame::{Frame, Headroom, Packet, Pool, Shared};

/// A frame, owned or shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimFrame(Arc<Vec<u8>>);

impl SimFrame {
    /// The frame that a box transmits.
    pub fn of(packet: Packet<Self>) -> Self {
        match packet {
            Packet::Owned(frame) | Packet::Shared(frame) => frame,
        }
    }
}

impl From<Vec<u8>> for SimFrame {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

impl Frame for SimFrame {
    type Shared = Self;

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Copies if a pool has a handle on it: a switch's mark on the wire
    /// doesn't change a gateway's copy.
    fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0).as_mut_slice()
    }

    fn share(self) -> Self {
        self
    }
}

/// Copies if a pool has a handle on it, as [`bytes_mut`](Frame::bytes_mut) does.
impl Headroom for SimFrame {
    fn headroom(&self) -> usize {
        usize::MAX
    }

    fn grow_front(&mut self, len: usize) -> bool {
        Arc::make_mut(&mut self.0).splice(..0, core::iter::repeat_n(0, len));
        true
    }

    fn shrink_front(&mut self, len: usize) {
        Arc::make_mut(&mut self.0).drain(..len);
    }
}

impl Shared for SimFrame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Memory without end.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimPool;

impl Pool for SimPool {
    type Frame = SimFrame;

    fn alloc(&mut self, len: usize) -> Option<SimFrame> {
        Some(SimFrame::from(vec![0; len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_go_in_front_of_one_handle_only() {
        let kept = SimFrame::from(vec![1, 2, 3]);
        let mut frame = kept.clone();
        assert!(frame.grow_front(2));
        frame.bytes_mut()[..2].copy_from_slice(&[8, 9]);
        assert_eq!(Frame::bytes(&frame), [8, 9, 1, 2, 3]);
        frame.shrink_front(3);
        assert_eq!((Frame::bytes(&frame), Frame::bytes(&kept)), (&[2, 3][..], &[1, 2, 3][..]));
    }
}
