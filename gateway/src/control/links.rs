//! The ports that link-loss forwarding takes down: for `/healthz` and the metrics.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::port::PortId;

/// A bit for each port, by [`PortId::index`].
#[derive(Debug, Default)]
pub struct Links {
    held: AtomicU16,
    settable: AtomicU16,
}

impl Links {
    /// Whether a port is taken down now.
    pub fn is_held(&self, port: PortId) -> bool {
        self.held.load(Relaxed) & bit(port) != 0
    }

    /// Whether the driver of a port can take it down.
    pub fn is_settable(&self, port: PortId) -> bool {
        self.settable.load(Relaxed) & bit(port) != 0
    }

    /// A port is taken down, or not any more.
    pub fn set_held(&self, port: PortId, is_held: bool) {
        set(&self.held, port, is_held);
    }

    /// The driver of a port can take it down, or can't.
    pub fn set_settable(&self, port: PortId, is_settable: bool) {
        set(&self.settable, port, is_settable);
    }
}

const fn bit(port: PortId) -> u16 {
    1 << port.index()
}

fn set(bits: &AtomicU16, port: PortId, is_set: bool) {
    if is_set {
        bits.fetch_or(bit(port), Relaxed);
    } else {
        bits.fetch_and(!bit(port), Relaxed);
    }
}
