//! DPDK 22.11 behind safe types: the only crate with `unsafe` code.
//!
//! [`Eal`] starts DPDK, a [`Mempool`] holds the mbufs, [`Port::open`] turns a
//! device name into a port with its [`RxQueue`]s and [`TxQueue`]s, each for
//! one worker. [`Mbuf`] and [`SharedMbuf`] are the [`Frame`] and [`Shared`] of
//! `common`. Each object keeps its dependencies alive, so that objects may be
//! dropped in any order.
//!
//! The types guarantee:
//! - a frame is freed once, and not used after it was transmitted;
//! - a frame with several owners cannot be edited;
//! - a received frame is one private, contiguous buffer, with any driver
//!   (segments are joined);
//! - a queue is used by one thread at a time;
//! - a port stops before it is closed, after its last queue is dropped, and
//!   DPDK's memory outlives every frame.
//!
//! ```no_run
//! use arrayvec::ArrayVec;
//! use common::frame::Frame;
//! use dpdk_sys_wrapper::{Eal, EalConfig, Mbuf, Mempool, PoolConfig, Port, PortConfig};
//!
//! # fn main() -> Result<(), dpdk_sys_wrapper::Error> {
//! let eal = Eal::init(&EalConfig::default())?;
//! let pool = Mempool::new(
//!     &eal,
//!     &PoolConfig { name: "frames".into(), mbufs: 8191, cache: 256, data_room: 9216, numa_node: None },
//! )?;
//! let config = PortConfig::new("net_memif0,role=server,socket=@lan,bsize=9216");
//! let (_port, mut rx, mut tx) = Port::open(&eal, &config, &pool)?;
//! loop {
//!     let mut frames = ArrayVec::<_, 32>::new();
//!     rx[0].burst(&mut frames);
//!     let mut packets: ArrayVec<_, 32> = frames.into_iter().map(Mbuf::share).collect();
//!     tx[0].burst(&mut packets); // frames not sent are still in `packets`
//! }
//! # }
//! ```
//!
//! [`Frame`]: common::frame::Frame
//! [`Shared`]: common::frame::Shared

mod clock;
mod cpus;
mod device;
mod eal;
mod error;
mod ffi;
mod hugepages;
mod lcore;
mod log;
pub mod mbuf;
mod mempool;
mod port;
mod queue;
mod rss;

pub use clock::Clock;
pub use cpus::{allowed_cpus, ranges as cpu_ranges};
pub use eal::{Eal, EalConfig, Huge};
pub use error::Error;
pub use lcore::LcoreGuard;
pub use mbuf::{Mbuf, SharedMbuf};
pub use mempool::{Mempool, PoolConfig, PoolHandle, STRIDE};
pub use port::{Link, Port, PortConfig, PortStats, raise_interface};
pub use queue::{RxQueue, RxRepairs, TxQueue};

/// The release of DPDK in use, `DPDK 22.11.11` for instance.
pub fn version() -> String {
    // SAFETY: a constant string.
    unsafe { std::ffi::CStr::from_ptr(ffi::rte_version()) }.to_string_lossy().into_owned()
}
