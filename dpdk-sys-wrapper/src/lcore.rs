//! Threads as DPDK sees them.

use std::marker::PhantomData;
use std::sync::Arc;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::cpus::{allowed_cpus, ranges};
use crate::eal::{Eal, EalInner};
use crate::error::{Error, last_error};
use crate::ffi;

/// Registers the calling thread with DPDK while it lives. A thread that is not
/// registered has no lcore id, so that each mbuf it takes or frees goes past
/// the mempool's per-lcore cache to the store that all threads share.
///
/// The thread that started the EAL is registered from the start.
#[must_use = "the thread is unregistered when this is dropped"]
#[derive(Debug)]
pub struct LcoreGuard {
    registered_here: bool,
    _eal: Arc<EalInner>,
    // The registration is this thread's: it must be undone on it.
    _not_send: PhantomData<*const ()>,
}

impl LcoreGuard {
    /// Registers the calling thread.
    ///
    /// # Errors
    /// [`Error::Lcore`] if DPDK has no lcore id left (it has 128).
    pub fn register(eal: &Eal) -> Result<Self, Error> {
        // SAFETY: reads a thread-local.
        let known = unsafe { ffi::lr2_lcore_id() } != ffi::LR2_LCORE_ID_ANY;
        // SAFETY: the EAL runs, and the thread is not registered yet.
        if !known && unsafe { ffi::rte_thread_register() } != 0 {
            return Err(Error::Lcore {
                what: "DPDK does not take another thread".into(),
                reason: last_error(),
            });
        }
        Ok(Self { registered_here: !known, _eal: Arc::clone(eal.inner()), _not_send: PhantomData })
    }

    /// The id under which DPDK knows this thread.
    pub fn id(&self) -> u32 {
        // SAFETY: reads a thread-local.
        unsafe { ffi::lr2_lcore_id() }
    }

    /// Keeps the calling thread on one CPU.
    ///
    /// # Errors
    /// [`Error::Lcore`] if there is no such CPU or the process may not use it.
    pub fn pin(&self, cpu: u32) -> Result<(), Error> {
        let mut set = CpuSet::new();
        set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).map_err(
            |e| Error::Lcore {
                what: format!(
                    "cannot run on CPU {cpu} (this process may use {})",
                    ranges(&allowed_cpus())
                ),
                reason: e.desc().into(),
            },
        )
    }
}

impl Drop for LcoreGuard {
    fn drop(&mut self) {
        if self.registered_here {
            // SAFETY: this thread was registered by this guard, which cannot
            // have moved to another thread, and the EAL still runs.
            unsafe { ffi::rte_thread_unregister() };
        }
    }
}
