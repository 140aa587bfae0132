//! Pools of mbufs.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::frame::Pool;
use nix::errno::Errno;

use crate::eal::{Eal, EalInner};
use crate::error::{Error, errno_text, last_errno};
use crate::ffi;
use crate::mbuf::Mbuf;

/// How to make a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Unique in the process for as long as the EAL runs; at most 25 bytes.
    pub name: String,
    /// How many mbufs: those in the rings of all ports, those in the caches of
    /// all threads (1.5 × `cache` each), those held, and some slack.
    pub mbufs: u32,
    /// Mbufs that a registered thread keeps for itself, up to 512 and not more
    /// than `mbufs` / 1.5; 0: none.
    pub cache: u32,
    /// Bytes of frame that an mbuf holds, without headroom.
    pub data_room: u16,
    /// The NUMA node whose memory it takes; `None`: any.
    pub numa_node: Option<u32>,
}

/// A pool of mbufs. Clones are handles on the same pool. Its memory goes back
/// to DPDK when the EAL ends.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<PoolInner>);

#[derive(Debug)]
struct PoolInner {
    raw: NonNull<ffi::rte_mempool>,
    name: String,
    mbufs: u32,
    data_room: u16,
    /// Mbufs that the rings of open ports may take.
    claimed: AtomicU32,
    eal: Arc<EalInner>,
}

// SAFETY: a mempool may be used from any thread, several at once: its store is
// made for many producers and consumers, and a cache belongs to one lcore id,
// which belongs to one thread.
unsafe impl Send for PoolInner {}
// SAFETY: as above.
unsafe impl Sync for PoolInner {}

/// DPDK prefixes the names of pools, rings and memory zones with up to 6 bytes
/// within 32, the final zero included.
const NAME_MAX: usize = 25;

impl Mempool {
    /// Makes a pool.
    ///
    /// # Errors
    /// [`Error::PoolMemory`] if it doesn't fit in DPDK's memory,
    /// [`Error::Setting`] for values that cannot work, [`Error::Pool`] for
    /// anything else, a name that is taken for instance.
    pub fn new(eal: &Eal, config: &PoolConfig) -> Result<Self, Error> {
        let name = check(config)?;
        let room = config.data_room + ffi::RTE_PKTMBUF_HEADROOM as u16;
        let node = config.numa_node.and_then(|node| i32::try_from(node).ok());
        let node = node.unwrap_or(ffi::LR2_SOCKET_ID_ANY);
        // DPDK's own choice is a ring, which hands out the mbufs that were free longest: all of them are in use in turn,
        // and none of them is in a processor's cache. src/store.c has a stack for each thread.
        // SAFETY: the EAL runs, and the names are C strings that DPDK copies.
        let raw = NonNull::new(unsafe {
            ffi::rte_pktmbuf_pool_create_by_ops(
                name.as_ptr(),
                config.mbufs,
                config.cache,
                0,
                room,
                node,
                ffi::lr2_store_name(),
            )
        });
        let Some(raw) = raw else { return Err(failure(eal, config)) };
        Ok(Self(Arc::new(PoolInner {
            raw,
            name: config.name.clone(),
            mbufs: config.mbufs,
            data_room: config.data_room,
            claimed: AtomicU32::new(0),
            eal: Arc::clone(eal.inner()),
        })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// All mbufs, free or not.
    pub fn size(&self) -> u32 {
        self.0.mbufs
    }

    /// Bytes of frame that an mbuf holds, without headroom.
    pub fn data_room(&self) -> u16 {
        self.0.data_room
    }

    /// Free mbufs, those in the caches of threads included. Counts every
    /// cache: for metrics, not for the data path. Approximate while others use
    /// the pool.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is valid.
        unsafe { ffi::rte_mempool_avail_count(self.raw()) }
    }

    /// Mbufs that are not free: in rings of ports, or held. As costly and as
    /// approximate as [`available`](Self::available).
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool is valid.
        unsafe { ffi::rte_mempool_in_use_count(self.raw()) }
    }

    /// Mbufs that the rings of the open ports may take at most.
    pub fn claimed(&self) -> u32 {
        self.0.claimed.load(Ordering::Relaxed)
    }

    /// An empty frame, or `None` if the pool is dry.
    #[inline]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is valid; a new mbuf is private, direct and single.
        unsafe { Mbuf::from_raw(ffi::lr2_alloc(self.raw())) }
    }

    pub(crate) fn raw(&self) -> *mut ffi::rte_mempool {
        self.0.raw.as_ptr()
    }

    /// Books `needed` mbufs for the rings of a port; else how many are booked
    /// already.
    pub(crate) fn claim(&self, needed: u32) -> Result<(), u32> {
        let add = |claimed: u32| claimed.checked_add(needed).filter(|&c| c <= self.size());
        self.0.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map(drop)
    }

    pub(crate) fn unclaim(&self, booked: u32) {
        self.0.claimed.fetch_sub(booked, Ordering::Relaxed);
    }

    /// Free mbufs in the store that all threads share, without their caches.
    fn in_store(&self) -> u32 {
        // SAFETY: the pool is valid.
        unsafe { ffi::lr2_in_store(self.raw()) }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.eal.retire(self.raw);
    }
}

fn check(config: &PoolConfig) -> Result<CString, Error> {
    let setting = |setting, value: String, rule: &str| {
        Err(Error::Setting { setting, value, rule: rule.into() })
    };
    let name = match CString::new(config.name.as_str()) {
        Ok(name) if (1..=NAME_MAX).contains(&config.name.len()) => name,
        _ => return setting("pool name", format!("{:?}", config.name), "1 to 25 bytes, no zero"),
    };
    if config.mbufs == 0 {
        return setting("mbufs", "0".into(), "a pool has at least one");
    }
    // DPDK lets a cache grow to 1.5 times its size before it gives back.
    if config.cache > ffi::RTE_MEMPOOL_CACHE_MAX_SIZE || config.cache * 3 / 2 > config.mbufs {
        return setting("cache", config.cache.to_string(), "at most 512, and at most mbufs / 1.5");
    }
    if config.data_room > u16::MAX - ffi::RTE_PKTMBUF_HEADROOM as u16 {
        return setting("data_room", config.data_room.to_string(), "at most 65407 bytes");
    }
    Ok(name)
}

fn failure(eal: &Eal, config: &PoolConfig) -> Error {
    let errno = last_errno();
    let pool = config.name.clone();
    match Errno::from_raw(errno) {
        Errno::ENOMEM => {}
        Errno::EEXIST => return Error::Pool { pool, reason: "the name is taken".into() },
        _ => return Error::Pool { pool, reason: errno_text(errno) },
    }
    // SAFETY: arithmetic only.
    let element = unsafe { ffi::lr2_element_bytes(config.data_room) } as u64;
    Error::PoolMemory {
        pool,
        mbufs: config.mbufs,
        data_room: config.data_room,
        needed_mib: (u64::from(config.mbufs) * element).div_ceil(1 << 20),
        memory_mib: eal.inner().memory_mib,
    }
}

/// A worker's way to make frames of its own while RX keeps a reserve.
///
/// The reserve is looked at once in [`STRIDE`] allocations, and it is the store
/// that all threads share that is looked at, not the caches. So the store may
/// fall short of the reserve by the allocations of all threads meanwhile: make it a few
/// bursts larger than the need of RX.
#[derive(Debug)]
pub struct PoolHandle {
    pool: Mempool,
    reserve: u32,
    /// Allocations until the next look.
    credit: u32,
}

/// Allocations between two looks at the reserve.
pub const STRIDE: u32 = 32;

impl PoolHandle {
    /// A handle that leaves `reserve` mbufs in the pool; 0: takes the last.
    pub fn new(pool: &Mempool, reserve: u32) -> Self {
        Self { pool: pool.clone(), reserve, credit: 0 }
    }

    /// The pool behind it.
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    fn may_take(&mut self) -> bool {
        if self.reserve == 0 {
            return true;
        }
        if self.credit == 0 {
            self.credit = self.pool.in_store().saturating_sub(self.reserve).min(STRIDE);
        }
        self.credit = match self.credit.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}

impl Pool for PoolHandle {
    type Frame = Mbuf;

    #[inline]
    fn alloc(&mut self, len: usize) -> Option<Mbuf> {
        if len > usize::from(self.pool.data_room()) || !self.may_take() {
            return None;
        }
        let mut frame = self.pool.alloc()?;
        frame.resize(len).then_some(frame)
    }
}
