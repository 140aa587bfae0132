//! Keeps the interrupt thread of DPDK out of a driver while a burst is in it, for `net_memif`.
//!
//! When the other end of a memif has gone, the driver marks the connection as down and unmaps its rings, in DPDK's interrupt
//! thread. A burst looks at the mark once, when it begins. One that has looked, and then lost its CPU to another thread,
//! goes on in memory that is no longer mapped. The driver offers nothing to wait for, and calls nobody before it unmaps.
//!
//! So the interrupt thread spends nearly all its time in a callback of ours. It leaves it every [`PERIOD`] to call the
//! drivers' callbacks, while the gate is shut: bursts of memif ports then do nothing, and it has waited for those that
//! were under way. With this the interrupts of all drivers, alarms too, are up to a period late in such a process.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::error::errno_text;
use crate::ffi;

/// A connection is made by ten messages or so, each of which waits for a period at most.
const PERIOD: Duration = Duration::from_millis(5);
/// A burst that does not end meanwhile has lost its CPU, which may be this one.
const SPINS: u32 = 1_000;
const NAP: Duration = Duration::from_micros(50);

/// The gate of the process.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    /// Always readable, so that DPDK calls the callback in each round of its interrupt thread.
    event: UnixStream,
    _writer: UnixStream,
}

#[derive(Default)]
struct Shared {
    /// Bursts do nothing.
    is_shut: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The interrupt thread is in the callbacks of drivers.
    is_out: bool,
    ends: bool,
    queues: Vec<Weak<Queue>>,
}

struct Queue {
    gate: Arc<Shared>,
    /// A burst is in the driver.
    is_inside: AtomicBool,
}

/// What a queue has to pass before it enters the driver; of other drivers than memif it is always open.
#[derive(Clone, Default)]
pub(crate) struct Pass(Option<Arc<Queue>>);

/// While it lives, the driver's memory stays.
pub(crate) struct Inside<'a>(Option<&'a Queue>);

/// While it lives, the interrupt thread calls no driver.
pub(crate) struct Held<'a> {
    _state: MutexGuard<'a, State>,
}

impl Gate {
    /// Takes hold of the interrupt thread. The error says why that failed.
    pub(crate) fn new() -> Result<Self, String> {
        let (event, mut writer) = UnixStream::pair().map_err(|e| e.to_string())?;
        writer.write_all(&[0]).map_err(|e| e.to_string())?;
        let gate = Self { shared: Arc::default(), event, _writer: writer };
        // SAFETY: the argument lives until `drop` has taken the callback back, and may be shared between threads.
        let ret = unsafe { ffi::lr2_intr_register(gate.fd(), Some(turn), gate.argument()) };
        if ret < 0 { Err(errno_text(ret)) } else { Ok(gate) }
    }

    /// A pass for one queue.
    pub(crate) fn pass(&self) -> Pass {
        let queue =
            Arc::new(Queue { gate: Arc::clone(&self.shared), is_inside: AtomicBool::new(false) });
        let mut state = self.shared.lock();
        state.queues.retain(|queue| queue.strong_count() > 0);
        state.queues.push(Arc::downgrade(&queue));
        Pass(Some(queue))
    }

    /// For calls that change a connection, as its interrupts do.
    pub(crate) fn hold(&self) -> Held<'_> {
        let shared = &self.shared;
        let state = shared.changed.wait_while(shared.lock(), |state| state.is_out);
        Held { _state: state.unwrap_or_else(PoisonError::into_inner) }
    }

    fn fd(&self) -> c_int {
        self.event.as_raw_fd()
    }

    fn argument(&self) -> *mut c_void {
        Arc::as_ptr(&self.shared).cast_mut().cast()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
        // SAFETY: as registered. It waits until the callback does not run.
        let ret = unsafe { ffi::lr2_intr_unregister(self.fd(), Some(turn), self.argument()) };
        if ret < 0 {
            tracing::warn!("DPDK keeps a callback of interrupts: {}", errno_text(ret));
            // It may be called again.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// The callback.
extern "C" fn turn(argument: *mut c_void) {
    // SAFETY: what `Gate::new` has registered, which lives until this is no longer called.
    let shared = unsafe { &*argument.cast::<Shared>() };
    shared.turn();
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) {
        let mut state = self.lock();
        state.is_out = false;
        self.is_shut.store(false, Ordering::SeqCst);
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, PERIOD, |state| !state.ends);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.is_shut.store(true, Ordering::SeqCst);
        for queue in state.queues.iter().filter_map(Weak::upgrade) {
            queue.wait_for_its_end();
        }
        state.is_out = true;
    }
}

impl Queue {
    fn wait_for_its_end(&self) {
        let mut spins = 0;
        while self.is_inside.load(Ordering::SeqCst) {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::sleep(NAP);
            }
        }
    }
}

impl Pass {
    /// `None` while the gate is shut.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let Some(queue) = &self.0 else { return Some(Inside(None)) };
        // Either this load sees that the gate is shut, or the interrupt thread sees this store: both are sequentially consistent.
        queue.is_inside.store(true, Ordering::SeqCst);
        let inside = Inside(Some(queue));
        (!queue.gate.is_shut.load(Ordering::SeqCst)).then_some(inside)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pass").field(&self.0.is_some()).finish()
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.is_inside.store(false, Ordering::Release);
        }
    }
}
