//! Frames in DPDK memory.
//!
//! [`Mbuf`] has one owner and may be edited. [`SharedMbuf`] has several and is
//! read-only. Both free their mbuf when dropped. This is the one place
//! that reads fields of `rte_mbuf`.
//!
//! A transmitted frame cannot be used any more:
//! ```compile_fail,E0382
//! # use dpdk_sys_wrapper::{Mbuf, TxQueue};
//! # use common::frame::Frame;
//! fn f(mut frame: Mbuf, tx: &mut TxQueue) {
//!     let mut burst = arrayvec::ArrayVec::<_, 1>::new();
//!     burst.push(frame.share());
//!     tx.burst(&mut burst);
//!     frame.bytes_mut()[0] = 1; // borrow of moved value
//! }
//! ```
//! A shared frame cannot be edited:
//! ```compile_fail,E0599
//! # use dpdk_sys_wrapper::Mbuf;
//! # use common::frame::Frame;
//! fn f(frame: Mbuf) {
//!     let mut shared = frame.share();
//!     shared.bytes_mut()[0] = 1; // no such method
//! }
//! ```
//! and no longer through the name it had before:
//! ```compile_fail,E0382
//! # use dpdk_sys_wrapper::Mbuf;
//! # use common::frame::Frame;
//! fn f(mut frame: Mbuf) {
//!     let shared = frame.share();
//!     frame.bytes_mut()[0] = 1; // borrow of moved value
//! }
//! ```
//! An owned frame cannot be cloned, which would free it twice:
//! ```compile_fail,E0599
//! # use dpdk_sys_wrapper::Mbuf;
//! fn f(frame: Mbuf) {
//!     let twin = frame.clone(); // no such method
//! }
//! ```
//! Two threads cannot use one handle at once; each needs a handle of its own:
//! ```compile_fail,E0277
//! fn needs_sync<T: Sync>() {}
//! needs_sync::<dpdk_sys_wrapper::SharedMbuf>();
//! ```

use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;

use arrayvec::ArrayVec;
use common::frame::{Frame, Headroom, Shared};

use crate::ffi;

/// A frame in DPDK memory with exactly one owner: a single segment in its own
/// buffer, reference count 1. Freed when dropped.
#[repr(transparent)]
pub struct Mbuf(NonNull<ffi::rte_mbuf>);

/// A frame in DPDK memory that may have several owners, and is read-only.
/// Cloning adds one to the mbuf's reference count, dropping takes one away.
#[repr(transparent)]
pub struct SharedMbuf(NonNull<ffi::rte_mbuf>);

// SAFETY: an mbuf belongs to no thread, its pool takes it back from any, and
// `Mbuf` is its only handle.
unsafe impl Send for Mbuf {}
// SAFETY: as for `Mbuf`. Other handles may live on other threads: all of them
// only read, and DPDK counts references atomically. Not `Sync`, because
// rte_mbuf_refcnt_update skips the atomic operation when the count is 1, which
// is sound only if the one handle there is cannot be cloned twice at once.
unsafe impl Send for SharedMbuf {}

impl Mbuf {
    /// Takes over a pointer that C handed out; `None` for null (a dry pool).
    ///
    /// # Safety
    /// `raw` is null, or an allocated, direct, single-segment mbuf with
    /// reference count 1 that nothing else will use or free.
    pub(crate) unsafe fn from_raw(raw: *mut ffi::rte_mbuf) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Gives the pointer away without freeing.
    fn into_raw(self) -> NonNull<ffi::rte_mbuf> {
        ManuallyDrop::new(self).0
    }

    /// How many bytes fit behind the headroom.
    pub fn capacity(&self) -> usize {
        // SAFETY: `self` owns a valid mbuf.
        let m = unsafe { self.0.as_ref() };
        usize::from(m.buf_len.saturating_sub(m.data_off))
    }

    /// Makes the frame `len` bytes long, keeping the bytes that stay; new
    /// bytes at the end are unspecified. `false`, and no change, if `len`
    /// exceeds the [capacity](Self::capacity).
    #[must_use]
    pub fn resize(&mut self, len: usize) -> bool {
        if len > self.capacity() {
            return false;
        }
        // SAFETY: `self` is the only owner of a valid mbuf, and it is borrowed mutably.
        let m = unsafe { self.0.as_mut() };
        // No truncation: the capacity is below 2^16.
        m.data_len = len as u16;
        m.pkt_len = len as u32;
        true
    }
}

/// The bytes of a single-segment mbuf.
///
/// # Safety
/// `m` is a valid single-segment mbuf, nobody writes to it during `'a`, and it
/// is not freed before `'a` ends.
#[inline]
unsafe fn data<'a>(m: NonNull<ffi::rte_mbuf>) -> &'a [u8] {
    // SAFETY: valid by contract; data_off + data_len never exceeds buf_len,
    // which DPDK guarantees for received frames, and `resize` and `Headroom`
    // for the rest.
    unsafe {
        let m = m.as_ref();
        let start = m.buf_addr.cast::<u8>().add(usize::from(m.data_off));
        slice::from_raw_parts(start, usize::from(m.data_len))
    }
}

/// Fetches the header of an mbuf into the cache.
#[inline]
fn prefetch(m: NonNull<ffi::rte_mbuf>) {
    let header = m.as_ptr().cast::<i8>();
    // SAFETY: fetching a line changes nothing, at any address. The second line of the
    // header is not read when a frame of one segment is freed by `release_all`.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(header) };
}

impl Frame for Mbuf {
    type Shared = SharedMbuf;

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `self` owns the mbuf, so the borrow of `self` covers it.
        unsafe { data(self.0) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; `&mut self` of the only handle makes it unique.
        unsafe {
            let m = self.0.as_ref();
            let start = m.buf_addr.cast::<u8>().add(usize::from(m.data_off));
            slice::from_raw_parts_mut(start, usize::from(m.data_len))
        }
    }

    #[inline]
    fn share(self) -> SharedMbuf {
        SharedMbuf(self.into_raw())
    }

    #[inline]
    fn share_twice(self) -> (SharedMbuf, SharedMbuf) {
        let mbuf = self.into_raw();
        // SAFETY: `self` was the only owner of a valid mbuf, so that nobody else reads or writes the count.
        unsafe { (*mbuf.as_ptr()).refcnt = 2 };
        (SharedMbuf(mbuf), SharedMbuf(mbuf))
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(self.0);
    }
}

/// Within the buffer of the mbuf: only its offset and its lengths change.
impl Headroom for Mbuf {
    #[inline]
    fn headroom(&self) -> usize {
        // SAFETY: `self` owns a valid mbuf.
        usize::from(unsafe { self.0.as_ref() }.data_off)
    }

    #[inline]
    fn grow_front(&mut self, len: usize) -> bool {
        // SAFETY: `self` is the only owner of a valid mbuf, and it is borrowed mutably.
        let m = unsafe { self.0.as_mut() };
        if len > usize::from(m.data_off) {
            return false;
        }
        // No truncation: `len` is below 2^16 here. No overflow: the frame still ends where it did,
        // within a buffer whose length is below 2^16.
        m.data_off -= len as u16;
        m.data_len += len as u16;
        m.pkt_len += len as u32;
        true
    }

    #[inline]
    fn prefetch_front(&self) {
        let front = self.bytes().as_ptr().wrapping_sub(1);
        // SAFETY: fetching a line changes nothing, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(front.cast()) };
    }

    #[inline]
    fn shrink_front(&mut self, len: usize) {
        // SAFETY: `self` is the only owner of a valid mbuf, and it is borrowed mutably.
        let m = unsafe { self.0.as_mut() };
        assert!(
            len <= usize::from(m.data_len),
            "a frame of {} bytes has no {len} to remove",
            m.data_len
        );
        // No truncation: `len` is at most a length of 16 bits. No overflow: the end stays.
        m.data_off += len as u16;
        m.data_len -= len as u16;
        m.pkt_len -= len as u32;
    }
}

impl Shared for SharedMbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: this handle keeps the mbuf alive, and no handle of a shared
        // mbuf can write.
        unsafe { data(self.0) }
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(self.0);
    }

    fn release_all<const N: usize>(handles: &mut ArrayVec<Self, N>) {
        let n = handles.len();
        // SAFETY: `SharedMbuf` is a transparent pointer, and the first `n` are
        // valid. DPDK takes a reference from each, as dropping them would; so
        // they are forgotten.
        unsafe {
            handles.set_len(0);
            ffi::lr2_free_bulk(handles.as_mut_ptr().cast(), n as u32);
        }
    }

    fn release_some(handles: &mut [Option<Self>]) -> usize {
        // SAFETY: `Option<SharedMbuf>` is a pointer that may be null, each other one is valid. DPDK takes a reference from each,
        // as dropping them would, and leaves null in its place.
        unsafe { ffi::lr2_free_some(handles.as_mut_ptr().cast(), handles.len()) }
    }
}

const _: () = assert!(size_of::<Option<SharedMbuf>>() == size_of::<*mut ffi::rte_mbuf>());

impl SharedMbuf {
    /// The pointer within.
    #[cfg(test)]
    pub(crate) const fn raw(&self) -> *mut ffi::rte_mbuf {
        self.0.as_ptr()
    }

    /// How many handles there are, those of TX rings included.
    pub fn owners(&self) -> u16 {
        // SAFETY: this handle keeps the mbuf alive.
        unsafe { ffi::lr2_refcnt(self.0.as_ptr()) }
    }

    /// A private copy out of the same pool; `None` if that is dry.
    pub fn copy(&self) -> Option<Mbuf> {
        // SAFETY: the source is valid and read-only. The copy is new, and fits
        // in one mbuf because the source came from one of the same pool.
        unsafe { Mbuf::from_raw(ffi::lr2_copy(self.0.as_ptr())) }
    }
}

impl Clone for SharedMbuf {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this handle keeps the mbuf alive, and `!Sync` means nobody
        // clones this very handle at the same time.
        unsafe { ffi::lr2_ref(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the only handle of a valid mbuf, gone after this.
        unsafe { ffi::lr2_free(self.0.as_ptr()) }
    }
}

impl Drop for SharedMbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: frees this handle's reference; DPDK frees the mbuf with the
        // last one.
        unsafe { ffi::lr2_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mbuf({} bytes)", self.bytes().len())
    }
}

impl fmt::Debug for SharedMbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMbuf({} bytes, {} owners)", self.bytes().len(), self.owners())
    }
}
