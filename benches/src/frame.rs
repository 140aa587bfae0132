//! Frames with the cost of mbufs.
//!
//! A heap buffer per frame would measure the allocator. An mbuf is a pointer into
//! memory that is there already; sharing it changes its type only, a further
//! handle is a reference count, and the last one puts it back on a list of its
//! thread. So it is here, with three differences: the count is a plain one, where
//! Debian's DPDK uses an atomic operation for a frame with several owners; a frame
//! goes back to the list by itself, and not in bulk; and it is in the cache.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use common::frame::{Frame, Headroom, Pool, Shared};

/// Capacity of a frame in bytes. It holds the longest STATUS.
const ROOM: usize = 512;

/// Room in front of a [`Roomy`] frame, in bytes.
const HEADROOM: usize = 64;

struct Buffer {
    /// Where a frame with headroom begins.
    start: usize,
    len: usize,
    room: [u8; ROOM],
}

thread_local! {
    /// Buffers that are free. Without a destructor no access has to check whether it
    /// was run.
    static FREE: ManuallyDrop<RefCell<Vec<Rc<Buffer>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// A frame with one owner.
pub struct Recycled(Option<Rc<Buffer>>);

/// A frame that may have several owners.
#[derive(Clone)]
pub struct RecycledShared(Option<Rc<Buffer>>);

/// Where they come from. It allocates if no frame has come back; nothing that is
/// measured should.
#[derive(Clone, Copy, Default)]
pub struct Recycler;

const TAKEN: &str = "only `drop` and `share` take the buffer";

fn read(buffer: &Option<Rc<Buffer>>) -> &[u8] {
    let buffer = buffer.as_ref().expect(TAKEN);
    &buffer.room[..buffer.len]
}

fn recycle(buffer: &mut Option<Rc<Buffer>>) {
    if let Some(buffer) = buffer.take()
        && Rc::strong_count(&buffer) == 1
    {
        FREE.with(|free| free.borrow_mut().push(buffer));
    }
}

impl Recycled {
    /// A frame of `len` bytes with unspecified content.
    ///
    /// # Panics
    /// If it has no room for `len` bytes.
    pub fn new(len: usize) -> Self {
        assert!(len <= ROOM, "{len} bytes don't fit into {ROOM}");
        let free = FREE.with(|free| free.borrow_mut().pop());
        let mut buffer =
            free.unwrap_or_else(|| Rc::new(Buffer { start: 0, len: 0, room: [0; ROOM] }));
        Rc::get_mut(&mut buffer).expect("nobody uses it").len = len;
        Self(Some(buffer))
    }

    /// A frame with these bytes.
    ///
    /// # Panics
    /// If it has no room for them.
    pub fn copy(bytes: &[u8]) -> Self {
        let mut frame = Self::new(bytes.len());
        frame.bytes_mut().copy_from_slice(bytes);
        frame
    }
}

impl Frame for Recycled {
    type Shared = RecycledShared;

    #[inline]
    fn bytes(&self) -> &[u8] {
        read(&self.0)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let buffer = self.0.as_mut().and_then(Rc::get_mut).expect("it has one owner");
        &mut buffer.room[..buffer.len]
    }

    #[inline]
    fn share(mut self) -> RecycledShared {
        RecycledShared(self.0.take())
    }
}

impl Shared for RecycledShared {
    #[inline]
    fn bytes(&self) -> &[u8] {
        read(&self.0)
    }
}

impl Drop for Recycled {
    #[inline]
    fn drop(&mut self) {
        recycle(&mut self.0);
    }
}

impl Drop for RecycledShared {
    #[inline]
    fn drop(&mut self) {
        recycle(&mut self.0);
    }
}

impl Pool for Recycler {
    type Frame = Recycled;

    #[inline]
    fn alloc(&mut self, len: usize) -> Option<Recycled> {
        (len <= ROOM).then(|| Recycled::new(len))
    }
}

/// A frame with one owner that a header can be written in front of. The others have none, and no offset to add.
pub struct Roomy(Option<Rc<Buffer>>);

/// The same with several owners.
#[derive(Clone)]
pub struct RoomyShared(Option<Rc<Buffer>>);

/// Where they come from.
#[derive(Clone, Copy, Default)]
pub struct RoomyRecycler;

impl Roomy {
    /// A frame with these bytes.
    ///
    /// # Panics
    /// If it has no room for them.
    pub fn copy(bytes: &[u8]) -> Self {
        let mut frame = RoomyRecycler.alloc(bytes.len()).expect("they fit");
        frame.bytes_mut().copy_from_slice(bytes);
        frame
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        self.0.as_mut().and_then(Rc::get_mut).expect("it has one owner")
    }
}

#[inline]
fn read_behind_headroom(buffer: &Option<Rc<Buffer>>) -> &[u8] {
    let buffer = buffer.as_ref().expect(TAKEN);
    &buffer.room[buffer.start..buffer.start + buffer.len]
}

impl Frame for Roomy {
    type Shared = RoomyShared;

    #[inline]
    fn bytes(&self) -> &[u8] {
        read_behind_headroom(&self.0)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let buffer = self.buffer();
        &mut buffer.room[buffer.start..buffer.start + buffer.len]
    }

    #[inline]
    fn share(mut self) -> RoomyShared {
        RoomyShared(self.0.take())
    }
}

impl Headroom for Roomy {
    #[inline]
    fn headroom(&self) -> usize {
        self.0.as_ref().expect(TAKEN).start
    }

    #[inline]
    fn grow_front(&mut self, len: usize) -> bool {
        let buffer = self.buffer();
        let has_room = buffer.start >= len;
        if has_room {
            buffer.start -= len;
            buffer.len += len;
        }
        has_room
    }

    #[inline]
    fn shrink_front(&mut self, len: usize) {
        let buffer = self.buffer();
        buffer.start += len;
        buffer.len -= len;
    }
}

impl Shared for RoomyShared {
    #[inline]
    fn bytes(&self) -> &[u8] {
        read_behind_headroom(&self.0)
    }
}

impl Drop for Roomy {
    #[inline]
    fn drop(&mut self) {
        recycle(&mut self.0);
    }
}

impl Drop for RoomyShared {
    #[inline]
    fn drop(&mut self) {
        recycle(&mut self.0);
    }
}

impl Pool for RoomyRecycler {
    type Frame = Roomy;

    #[inline]
    fn alloc(&mut self, len: usize) -> Option<Roomy> {
        (len <= ROOM - HEADROOM).then(|| {
            let mut frame = Roomy(Recycled::new(len).0.take());
            frame.buffer().start = HEADROOM;
            frame
        })
    }
}

const _: () = assert!(size_of::<Recycled>() == size_of::<usize>(), "a pointer, as an mbuf is");
