//! Receive and transmit queues, the data path.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use arrayvec::ArrayVec;
use common::frame::Frame;

use crate::ffi;
use crate::mbuf::{Mbuf, SharedMbuf};
use crate::port::inner::PortInner;

/// A receive queue. One worker uses it at a time.
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<dpdk_sys_wrapper::RxQueue>();
/// ```
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<PortInner>,
    queue: u16,
    repairs: RxRepairs,
    _not_sync: PhantomData<Cell<()>>,
}

/// Received frames that were not one private, contiguous mbuf.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RxRepairs {
    /// Came in several segments, or in memory that others own, and were made
    /// into one private mbuf. This costs a copy per frame; virtual devices
    /// without a NIC don't need it.
    pub flattened: u64,
    /// Dropped: longer than an mbuf, or a slot of a packet socket, holds.
    pub too_long: u64,
    /// Dropped: they needed a copy, and the pool was dry.
    pub no_mbuf: u64,
}

impl RxQueue {
    /// Whether it is a queue of this port.
    pub(crate) fn is_of(&self, port: &Arc<PortInner>) -> bool {
        Arc::ptr_eq(&self.port, port)
    }

    pub(crate) fn new(port: &Arc<PortInner>, queue: u16) -> Self {
        Self {
            port: Arc::clone(port),
            queue,
            repairs: RxRepairs::default(),
            _not_sync: PhantomData,
        }
    }

    /// Appends frames that have arrived to `out`, as many as fit, and returns
    /// how many. Does not wait. Prefetches the first cache line of each.
    ///
    /// Leave room for 4 frames at least: vectorised drivers take them by four.
    #[inline]
    pub fn burst<const N: usize>(&mut self, out: &mut ArrayVec<Mbuf, N>) -> usize {
        const { assert!(N <= u16::MAX as usize, "DPDK counts a burst in 16 bits") };
        let old = out.len();
        let room = out.remaining_capacity();
        if room == 0 {
            return 0;
        }
        let mut repairs = ffi::lr2_rx_repairs { flattened: 0, too_long: 0, no_mbuf: 0 };
        // SAFETY: the port is started, `&mut self` makes this the only poll of
        // the queue, and the pool is valid. `Mbuf` is a transparent pointer;
        // `out` has room for `room` of them from `old` on, and the shim wrote
        // `n` single, direct, unshared mbufs there that are ours now.
        let n = unsafe {
            let spare = out.as_mut_ptr().add(old).cast::<*mut ffi::rte_mbuf>();
            let n = ffi::lr2_rx_burst(
                self.port.id,
                self.queue,
                spare,
                room as u16,
                self.port.pool.raw(),
                &raw mut repairs,
            );
            let n = usize::from(n);
            out.set_len(old + n);
            n
        };
        self.repairs.flattened += repairs.flattened;
        self.repairs.too_long += repairs.too_long;
        self.repairs.no_mbuf += repairs.no_mbuf;
        match self.port.cut_from {
            None => n,
            Some(length) => self.drop_cut(out, old, length),
        }
    }

    /// Drops the frames from index `old` on that may have been truncated. Returns how many frames remain from there on.
    #[cold]
    fn drop_cut<const N: usize>(
        &mut self,
        out: &mut ArrayVec<Mbuf, N>,
        old: usize,
        length: usize,
    ) -> usize {
        let mut at = old;
        while let Some(frame) = out.get(at) {
            if frame.bytes().len() < length {
                at += 1;
            } else {
                drop(out.remove(at));
                self.repairs.too_long += 1;
            }
        }
        at - old
    }

    /// Repairs of frames since the queue was opened.
    pub fn repairs(&self) -> RxRepairs {
        self.repairs
    }
}

/// A transmit queue. One worker uses it at a time.
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<dpdk_sys_wrapper::TxQueue>();
/// ```
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<PortInner>,
    queue: u16,
    _not_sync: PhantomData<Cell<()>>,
}

impl TxQueue {
    /// Whether it is a queue of this port.
    pub(crate) fn is_of(&self, port: &Arc<PortInner>) -> bool {
        Arc::ptr_eq(&self.port, port)
    }

    pub(crate) fn new(port: &Arc<PortInner>, queue: u16) -> Self {
        Self { port: Arc::clone(port), queue, _not_sync: PhantomData }
    }

    /// Hands frames to the device, in order, and returns how many it took.
    /// Those are gone from `frames`; the rest moved to its front, for the
    /// caller to try again or drop.
    ///
    /// On a port that [hands pointers on](crate::Port::hands_pointers_on) a
    /// frame with other owners is replaced by a copy; if the pool is dry, the
    /// burst ends before it.
    #[inline]
    pub fn burst<const N: usize>(&mut self, frames: &mut ArrayVec<SharedMbuf, N>) -> usize {
        const { assert!(N <= u16::MAX as usize, "DPDK counts a burst in 16 bits") };
        let ready = if self.port.hands_pointers_on { make_private(frames) } else { frames.len() };
        if ready == 0 {
            return 0;
        }
        // SAFETY: the port is started, `&mut self` makes this the only use of
        // the queue, and `SharedMbuf` is a transparent pointer: `frames` begins with
        // `ready` valid mbufs. Those that DPDK took are forgotten below.
        let sent = unsafe {
            let raw = frames.as_mut_ptr().cast();
            ffi::lr2_tx_burst(self.port.id, self.queue, raw, ready as u16)
        };
        let sent = usize::from(sent);
        frames.drain(..sent).for_each(mem::forget);
        sent
    }
}

/// Makes sure that nobody else owns the frames. Returns how many are so.
fn make_private(frames: &mut [SharedMbuf]) -> usize {
    for (i, frame) in frames.iter_mut().enumerate() {
        // A sole owner cannot be joined by another: only owners clone.
        if frame.owners() > 1 {
            match frame.copy() {
                Some(copy) => *frame = copy.share(),
                None => return i,
            }
        }
    }
    frames.len()
}

#[cfg(test)]
mod tests {
    use common::frame::{Frame, Shared};

    use super::*;
    use crate::{Eal, EalConfig, Huge, Mempool, PoolConfig, Port, PortConfig};

    const ROOM: u16 = 1600;

    /// The one unit test that starts DPDK, of which a process has one. Frames that
    /// only a driver could send bypass `TxQueue` here.
    #[test]
    fn whatever_a_driver_delivers_becomes_one_private_mbuf() {
        let config = EalConfig { huge: Huge::Never, memory_mib: 32, ..Default::default() };
        let eal = Eal::init(&config).unwrap();
        let pool_config = PoolConfig {
            name: "frames".into(),
            mbufs: 4095,
            cache: 0,
            data_room: ROOM,
            numa_node: None,
        };
        let pool = Mempool::new(&eal, &pool_config).unwrap();
        let port_config = PortConfig { mtu: 1500, ..PortConfig::new("net_ring0") };
        let (port, mut rx, _tx) = Port::open(&eal, &port_config, &pool).unwrap();
        let rx = &mut rx[0];

        // A frame that somebody else holds.
        let held = frame(&pool, 100, 1).share();
        send(&port, held.clone());
        let mut got = ArrayVec::<Mbuf, 4>::new();
        assert_eq!(rx.burst(&mut got), 1);
        assert_eq!(got[0].bytes(), held.bytes());
        got[0].bytes_mut().fill(0);
        assert_eq!(held.bytes(), frame(&pool, 100, 1).bytes());
        assert_eq!(rx.repairs(), RxRepairs { flattened: 1, ..Default::default() });

        // Two segments that fit in one, and two that do not, around a plain one.
        got.clear();
        send(&port, chain(frame(&pool, 700, 2), frame(&pool, 900, 3)));
        send(&port, chain(frame(&pool, 1000, 4), frame(&pool, 601, 5)));
        send(&port, frame(&pool, 60, 6).share());
        assert_eq!(rx.burst(&mut got), 2);
        let (head, tail) = (frame(&pool, 700, 2), frame(&pool, 900, 3));
        assert_eq!(got[0].bytes(), [head.bytes(), tail.bytes()].concat());
        assert_eq!(got[1].bytes(), frame(&pool, 60, 6).bytes());
        assert_eq!(rx.repairs(), RxRepairs { flattened: 2, too_long: 1, no_mbuf: 0 });

        // No mbuf for the copy.
        drop((got, head, tail));
        let mut got = ArrayVec::<Mbuf, 4>::new();
        send(&port, held.clone());
        let hoard: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
        assert_eq!(rx.burst(&mut got), 0);
        assert_eq!(rx.repairs(), RxRepairs { flattened: 2, too_long: 1, no_mbuf: 1 });
        assert_eq!(held.owners(), 1, "the frame that could not be copied was let go");

        drop((hoard, held));
        assert_eq!(pool.in_use(), 0);
    }

    fn frame(pool: &Mempool, len: usize, seed: u8) -> Mbuf {
        let mut frame = pool.alloc().unwrap();
        assert!(frame.resize(len));
        let pattern = (0..=u8::MAX).cycle().skip(usize::from(seed));
        frame.bytes_mut().iter_mut().zip(pattern).for_each(|(b, v)| *b = v);
        frame
    }

    fn chain(head: Mbuf, tail: Mbuf) -> SharedMbuf {
        let (head, tail) = (head.share(), tail.share());
        let (first, second) = (head.raw(), tail.raw());
        // SAFETY: two single-segment mbufs that only this test sees; the
        // second now belongs to the first.
        unsafe {
            (*first).next = second;
            (*first).nb_segs = 2;
            (*first).pkt_len += u32::from((*second).data_len);
        }
        mem::forget(tail);
        head
    }

    fn send(port: &Port, frame: SharedMbuf) {
        let mut raw = frame.raw();
        // SAFETY: a started port, used by this thread only, and one valid mbuf,
        // which now belongs to the ring.
        assert_eq!(unsafe { ffi::lr2_tx_burst(port.id(), 0, &raw mut raw, 1) }, 1);
        mem::forget(frame);
    }
}
