//! Threads as DPDK sees them.

use std::marker::PhantomData;
use std::sync::Arc;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::eal::{Eal, EalInner};
use crate::error::{Error, last_error};
use crate::ffi;

/// Registers the calling thread with DPDK while it lives. A thread that is not
/// registered has no lcore id, so that each mbuf it takes or frees goes past
/// the mempool's per-lcore cache to the ring that all threads share.
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

/// The CPUs on which the calling thread may run, ascending.
pub fn allowed_cpus() -> Vec<u32> {
    // Without an answer from the kernel CPU 0 is the one that always exists.
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return vec![0] };
    (0..CpuSet::count()).filter(|&c| set.is_set(c).unwrap_or(false)).map(|c| c as u32).collect()
}

/// `0-3,8` for 0, 1, 2, 3, 8.
pub(crate) fn ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ranges_read_as_people_write_them() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[1, 3, 5, 6]), "1,3,5-6");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn some_cpu_is_allowed() {
        assert!(!allowed_cpus().is_empty());
    }
}
