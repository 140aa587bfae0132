//! Errors, in one line each: the finding and the remedy.

use std::ffi::CStr;

use crate::ffi;

/// Why DPDK refused a request. `Display` gives one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// DPDK can be started once in the life of a process.
    #[error("DPDK was already started in this process; it can be started only once")]
    AlreadyStarted,

    /// A setting that cannot work, found before DPDK was asked.
    #[error("{setting} = {value}: {rule}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// To which value.
        value: String,
        /// The allowed values.
        rule: String,
    },

    /// Hugepages were required, and there are too few.
    #[error(
        "{needed_mib} MiB of hugepages are required and {free_mib} MiB are free: {hint}, or let DPDK run without hugepages"
    )]
    Hugepages {
        /// Memory asked for.
        needed_mib: u32,
        /// Memory in free hugepages of all sizes.
        free_mib: u64,
        /// The command that reserves them.
        hint: String,
    },

    /// Ordinary pages are to be used, and this machine has too little memory.
    #[error("{needed_mib} MiB of memory are required and {available_mib} MiB are available")]
    Memory {
        /// Memory asked for.
        needed_mib: u32,
        /// Memory that programs can still have.
        available_mib: u64,
    },

    /// The EAL did not start.
    #[error("DPDK does not start: {reason}")]
    Eal {
        /// From DPDK's own log, with a remedy where one is known.
        reason: String,
    },

    /// A pool of mbufs could not be made for another reason than memory.
    #[error("mbuf pool \"{pool}\": {reason}")]
    Pool {
        /// Its name.
        pool: String,
        /// DPDK's reason.
        reason: String,
    },

    /// A pool of mbufs does not fit in DPDK's memory.
    #[error(
        "mbuf pool \"{pool}\": {mbufs} mbufs of {data_room} bytes take {needed_mib} MiB and DPDK was started with {memory_mib} MiB: give it more memory or ask for fewer mbufs"
    )]
    PoolMemory {
        /// Its name.
        pool: String,
        /// How many mbufs it should have.
        mbufs: u32,
        /// Bytes of frame per mbuf.
        data_room: u16,
        /// Memory of the mbufs, overhead included.
        needed_mib: u64,
        /// Memory of the EAL.
        memory_mib: u32,
    },

    /// A pool has too few mbufs for the rings of the ports that use it.
    #[error(
        "port {device}: its rings need {needed} mbufs, and of the {size} in pool \"{pool}\" other ports claim {claimed}: make the pool larger by {missing} or the rings shorter"
    )]
    TooFewMbufs {
        /// The port.
        device: String,
        /// The pool.
        pool: String,
        /// Mbufs in the pool.
        size: u32,
        /// Mbufs that the rings of earlier ports may take.
        claimed: u32,
        /// Mbufs that the rings of this port may take.
        needed: u32,
        /// How many are missing.
        missing: u32,
    },

    /// There is no such device, or DPDK has no driver for it.
    #[error("port {device}: {reason}")]
    NoDevice {
        /// As given.
        device: String,
        /// The finding and the remedy.
        reason: String,
    },

    /// The device is there and refuses a setting.
    #[error("port {device}: {step}: {reason}")]
    Port {
        /// As given.
        device: String,
        /// The step that failed.
        step: String,
        /// The device's message, or its limit.
        reason: String,
    },

    /// A thread could not be registered or pinned.
    #[error("{what}: {reason}")]
    Lcore {
        /// The operation that failed.
        what: String,
        /// The reason.
        reason: String,
    },
}

/// The text of an `errno` value, negative as DPDK returns it or positive.
pub(crate) fn errno_text(code: i32) -> String {
    // SAFETY: rte_strerror takes any number and returns a string in a buffer
    // of this thread, which is copied before the next call.
    unsafe { CStr::from_ptr(ffi::rte_strerror(code.abs())) }.to_string_lossy().into_owned()
}

/// The calling thread's `rte_errno`.
pub(crate) fn last_errno() -> i32 {
    // SAFETY: reads a thread-local.
    unsafe { ffi::lr2_errno() }
}

/// The calling thread's `rte_errno` as text.
pub(crate) fn last_error() -> String {
    errno_text(last_errno())
}
