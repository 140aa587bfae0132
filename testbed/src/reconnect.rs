//! A `net_memif` client whose server has gone: DPDK's driver looks for the server when the port starts, and not later.

use common::time::{Span, Time};
use dpdk_sys_wrapper::{Port, RxQueue, TxQueue};

/// How often the link is looked at.
const LOOK: Span = Span::from_millis(100);
/// Between the loss of the link and the first attempt, and between attempts. The driver's interrupt thread frees
/// the old connection meanwhile.
const ATTEMPT: Span = Span::from_millis(1_000);

/// Restarts the port while it has no link.
pub struct Reconnect {
    /// `net_memif` in the role of the client; other ports are left alone.
    is_client: bool,
    next_look: Time,
    /// Of the loss, or of the last attempt.
    down_since: Option<Time>,
    stopped: bool,
}

impl Reconnect {
    /// For a port that `device` has opened.
    pub fn new(port: &Port, device: &str) -> Self {
        // The client's role is the driver's default.
        let is_client = port.driver() == "net_memif" && !device.contains("role=server");
        Self { is_client, next_look: Time::ZERO, down_since: None, stopped: false }
    }

    /// Looks after the port, and returns whether its queues may be used.
    pub fn tend(&mut self, now: Time, port: &Port, rx: &mut RxQueue, tx: &mut TxQueue) -> bool {
        if !self.is_client || now < self.next_look {
            return !self.stopped;
        }
        self.next_look = now + LOOK;
        if !self.stopped && port.link().up {
            self.down_since = None;
            return true;
        }
        if now.since(*self.down_since.get_or_insert(now)) >= ATTEMPT {
            self.down_since = Some(now);
            self.stopped = port.restart(rx, tx).is_err();
        }
        !self.stopped
    }
}
