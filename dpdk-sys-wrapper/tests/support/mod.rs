//! Shared parts of the DPDK tests. Each test is a program of its own, since a
//! process can start one EAL, and needs neither NIC, hugepages nor root.

// Each test program uses its part of this.
#![allow(dead_code)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::frame::Frame;
use dpdk_sys_wrapper::{Eal, EalConfig, Huge, Mbuf, Mempool, PoolConfig};

/// A configuration under a name of this process's own: without hugepages, or
/// with them if `LR2_TEST_HUGEPAGES` is set.
pub fn config(memory_mib: u32) -> EalConfig {
    let huge = match std::env::var_os("LR2_TEST_HUGEPAGES") {
        Some(_) => Huge::Require,
        None => Huge::Never,
    };
    EalConfig { program: "test".into(), huge, memory_mib, ..Default::default() }
}

/// An EAL as in [`config`].
pub fn eal(memory_mib: u32) -> Eal {
    Eal::init(&config(memory_mib)).unwrap_or_else(|e| panic!("{e}"))
}

/// A pool called "frames".
pub fn pool(eal: &Eal, mbufs: u32, data_room: u16) -> Mempool {
    let config = PoolConfig { name: "frames".into(), mbufs, cache: 32, data_room, numa_node: None };
    Mempool::new(eal, &config).expect("there is memory for the pool")
}

/// A frame of `len` bytes that tell `seed` and their place.
pub fn frame(pool: &Mempool, len: usize, seed: usize) -> Mbuf {
    let mut frame = pool.alloc().expect("the pool is not dry");
    assert!(frame.resize(len));
    for (i, byte) in frame.bytes_mut().iter_mut().enumerate() {
        *byte = (i * 7 + i / 251 + seed * 13) as u8;
    }
    frame
}

/// Tries `step` until it gives something, for at most 10 s.
pub fn wait<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = step() {
            return result;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no {what} within 10 s");
        sleep(Duration::from_millis(1));
    }
}
