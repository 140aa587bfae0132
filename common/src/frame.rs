//! Ownership of frames, and the ports that they leave by.
//!
//! A frame is an mbuf on DPDK and a heap buffer elsewhere. An owned [`Frame`]
//! may be edited. Once it is [shared](Frame::share) several owners (a port's
//! TX ring, the resend cache, the reordering pool) see the same bytes, so
//! no owner may edit them: that is another type, [`Shared`].

use arrayvec::ArrayVec;

/// A frame with exactly one owner.
pub trait Frame: Sized {
    /// The read-only form with several owners.
    type Shared: Shared;

    /// The whole frame, from the destination MAC to the last byte of the ICRC.
    fn bytes(&self) -> &[u8];

    /// The same bytes, writable.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Gives up the right to edit in exchange for the right to clone.
    fn share(self) -> Self::Shared;

    /// The same, with two handles. This costs less than to clone one.
    #[inline]
    fn share_twice(self) -> (Self::Shared, Self::Shared) {
        let first = self.share();
        (first.clone(), first)
    }

    /// See [`Shared::prefetch`].
    #[inline]
    fn prefetch(&self) {}
}

/// A frame whose front can move, so that headers are written before it without a copy.
pub trait Headroom: Frame {
    /// Bytes for which there is room in front.
    fn headroom(&self) -> usize;

    /// Adds `len` bytes of unspecified content in front. False, and nothing changes, if there is no
    /// room for them.
    fn grow_front(&mut self, len: usize) -> bool;

    /// A hint that headers will soon be written in front of the frame: a prefetch of the memory there.
    #[inline]
    fn prefetch_front(&self) {}

    /// Removes the first `len` bytes.
    ///
    /// # Panics
    /// If it has fewer.
    fn shrink_front(&mut self, len: usize);
}

/// A frame that may have several owners. Cloning costs one reference count.
pub trait Shared: Clone {
    /// The whole frame.
    fn bytes(&self) -> &[u8];

    /// A hint that this handle will be sent or released soon: a prefetch of the memory
    /// that this touches.
    #[inline]
    fn prefetch(&self) {}

    /// Frees several handles, and empties `handles`. Returning them to an mbuf pool at once
    /// costs less than one by one.
    #[inline]
    fn release_all<const N: usize>(handles: &mut ArrayVec<Self, N>) {
        handles.clear();
    }

    /// Frees those of these handles that are there, and returns how many.
    #[inline]
    fn release_some(handles: &mut [Option<Self>]) -> usize {
        handles.iter_mut().filter_map(Option::take).count()
    }
}

/// A handle in a pool, with the length of its frame: a frame has long left the cache
/// when it is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept<S> {
    /// The handle.
    pub handle: S,
    /// Bytes of the frame.
    pub len: u32,
}

/// Where new frames come from.
pub trait Pool {
    /// The kind of frame.
    type Frame: Frame;

    /// A frame of `len` bytes with unspecified content, or `None` if the pool
    /// is at its reserve or `len` exceeds the size of a frame.
    fn alloc(&mut self, len: usize) -> Option<Self::Frame>;
}

/// A frame on its way out.
#[derive(Debug)]
pub enum Packet<F: Frame> {
    /// Nobody else has it.
    Owned(F),
    /// A pool may hold another handle on it.
    Shared(F::Shared),
}

impl<F: Frame> Packet<F> {
    /// The whole frame.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(f) => f.bytes(),
            Self::Shared(s) => s.bytes(),
        }
    }

    /// See [`Shared::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        match self {
            Self::Owned(f) => f.prefetch(),
            Self::Shared(s) => s.prefetch(),
        }
    }
}

/// The two sides of a box. A pair of ports has one of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Towards the hosts.
    Lan,
    /// Towards the long-haul link.
    Wan,
}

impl Side {
    /// The other side.
    pub const fn other(self) -> Self {
        match self {
            Self::Lan => Self::Wan,
            Self::Wan => Self::Lan,
        }
    }

    /// 0 for LAN, 1 for WAN.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Egress class on a port; strict priority between packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Control messages and resent packets.
    High,
    /// Everything else, in arrival order.
    Data,
}

/// Takes transmitted frames. Dropped frames are simply freed, after the
/// ledger has booked the reason.
pub trait Sink {
    /// The kind of frame.
    type Frame: Frame;

    /// Queues `packet` for transmission on `side`.
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<Self::Frame>);
}
