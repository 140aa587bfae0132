//! The state of the WAN ports' links: written by the main thread, which may ask the drivers, and read by the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tunnel::Port;

const PORTS: usize = Port::COUNT_MAX as usize;
/// In place of the speed of a link that is down.
const DOWN: u32 = u32::MAX;

/// Speeds in Mbit/s, 0 if unknown, or `DOWN`.
#[derive(Debug, Default)]
pub struct Shared([AtomicU32; PORTS]);

impl Shared {
    /// The link of a port is up, with that speed in Mbit/s, or 0 if that is unknown; `None`: it is down.
    pub fn set(&self, port: Port, mbit_per_s: Option<u32>) {
        self.0[usize::from(port.get())].store(mbit_per_s.unwrap_or(DOWN), Relaxed);
    }
}

/// The state that the worker knows.
pub struct Links {
    shared: Arc<Shared>,
    /// By port, as of the last look: up, and the speed.
    seen: [(bool, u32); PORTS],
}

impl Default for Links {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Links {
    /// All are up until the worker looks.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, seen: [(true, 0); PORTS] }
    }

    /// Mbit/s of a port; 0 if it is not known.
    #[inline]
    pub fn speed(&self, port: Port) -> u32 {
        self.seen[usize::from(port.get())].1
    }

    /// Ports whose links went up or down since the last call.
    pub fn changes(&mut self) -> impl Iterator<Item = (Port, bool)> + use<> {
        let mut changes = arrayvec::ArrayVec::<_, PORTS>::new();
        for (port, seen) in Port::all(Port::COUNT_MAX).zip(&mut self.seen) {
            let now = self.shared.0[usize::from(port.get())].load(Relaxed);
            let is_up = now != DOWN;
            if core::mem::replace(seen, (is_up, if is_up { now } else { 0 })).0 != is_up {
                changes.push((port, is_up));
            }
        }
        changes.into_iter()
    }
}
