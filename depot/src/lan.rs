//! Congestion control towards the hosts of the Depot's LAN.
//!
//! A Depot that resends hides losses from the source, which would slow down at them. So it
//! slows down itself: a host that has lost something gets a *window*, the bytes that may be
//! delivered to it and not acknowledged. The window is halved at a loss, at most once in a
//! round trip, and grows as TCP's does (RFC 5681): by acknowledged bytes until it is half
//! of the flight size at the last loss, then by a packet per round trip. Flows that wait
//! for room take turns. A host that has lost nothing has no window.

use std::collections::{HashMap, VecDeque};

use common::ids::FlowId;
use common::time::{Span, Time};
use common::wire::{Addr, Vlans};

use crate::hosts::{ClockId, Clocks};

/// Smallest window in bytes.
const LEAST: u64 = 16 << 10;
/// Largest window in bytes.
const MOST: u64 = 64 << 20;
/// By how much a window grows in a round trip, beyond its threshold.
const STEP: u64 = 4 << 10;
/// Bytes that a flow may deliver in its turn.
pub(crate) const TURN: u64 = 16 << 10;
/// Time without a loss, and without a flow that waits, after which a window vanishes.
const CALM: Span = Span::from_millis(100);

/// A host of the LAN.
pub type Host = (Addr, Vlans);

/// All windows of a worker.
#[derive(Default)]
pub struct Lan {
    hosts: HashMap<Host, u32>,
    windows: HashMap<u32, LanWindow>,
    /// Number of the newest window.
    newest: u32,
    /// Changes whenever a window comes or goes.
    generation: u8,
    /// Windows with room that flows may wait for.
    runnable: VecDeque<u32>,
    /// Response times of the hosts.
    pub(crate) clocks: Clocks,
}

/// The window of one host.
pub(crate) struct LanWindow {
    host: Host,
    /// Bytes that may be on the way.
    size: u64,
    /// Up to here it grows by acknowledged bytes.
    threshold: u64,
    /// Bytes that are on the way.
    flight: u64,
    /// Flows that are bound by it.
    flows: u32,
    /// Flows that wait for room, in the order of their turns.
    waiters: VecDeque<FlowId>,
    /// Whether it is in `runnable`.
    is_runnable: bool,
    /// When it was last halved.
    halved: Time,
    /// When something was last lost, or had to wait.
    busy: Time,
    clock: ClockId,
}

impl LanWindow {
    /// Whether more may be delivered.
    pub fn has_room(&self) -> bool {
        self.flight < self.size
    }

    /// Whether flows wait.
    pub fn is_crowded(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// `bytes` were acknowledged.
    fn grow(&mut self, bytes: u64) {
        // Only a window that limits is known to be too small.
        if self.waiters.is_empty() && self.flight + bytes < self.size {
            return;
        }
        let step = if self.size < self.threshold { bytes } else { bytes * STEP / self.size };
        self.size = (self.size + step).min(MOST);
    }
}

impl Lan {
    /// Changes whenever a window comes or goes.
    #[inline]
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// Windows there are.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether no host has a window.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Flows that wait for room.
    pub fn waiting(&self) -> u64 {
        self.windows.values().map(|window| window.waiters.len() as u64).sum()
    }

    /// Bytes on the way to hosts with windows.
    pub fn on_the_way(&self) -> u64 {
        self.windows.values().map(|window| window.flight).sum()
    }

    pub(crate) fn find(&self, host: &Host) -> Option<u32> {
        self.hosts.get(host).copied()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&LanWindow> {
        self.windows.get(&slot)
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut LanWindow> {
        self.windows.get_mut(&slot)
    }

    /// Gives `host` a window.
    pub(crate) fn open(&mut self, host: Host, size: u64, clock: ClockId, now: Time) {
        if self.hosts.contains_key(&host) {
            return;
        }
        let size = size.clamp(LEAST, MOST);
        let window = LanWindow {
            host,
            size,
            threshold: size,
            flight: 0,
            flows: 0,
            waiters: VecDeque::new(),
            is_runnable: false,
            halved: now,
            busy: now,
            clock,
        };
        self.newest = self.newest.wrapping_add(1);
        self.windows.insert(self.newest, window);
        self.hosts.insert(host, self.newest);
        self.generation = self.generation.wrapping_add(1);
    }

    /// A flow delivers within this window from now on.
    pub(crate) fn join(&mut self, slot: u32) {
        if let Some(window) = self.get_mut(slot) {
            window.flows += 1;
        }
    }

    /// It no longer does, and had `flight` bytes on the way. A window that no flow is bound by
    /// vanishes; returns whether it did.
    pub(crate) fn leave(&mut self, slot: u32, flight: u64) -> bool {
        self.moved(slot, flight, 0);
        let Some(window) = self.get_mut(slot) else { return false };
        window.flows -= 1;
        window.flows == 0 && self.close(slot)
    }

    fn close(&mut self, slot: u32) -> bool {
        let Some(window) = self.windows.remove(&slot) else { return false };
        self.hosts.remove(&window.host);
        self.generation = self.generation.wrapping_add(1);
        true
    }

    /// A flow has `now` bytes on the way rather than `before`.
    pub(crate) fn moved(&mut self, slot: u32, before: u64, now: u64) {
        let Some(window) = self.get_mut(slot) else { return };
        window.flight = (window.flight + now).saturating_sub(before);
        if window.has_room() && window.is_crowded() && !window.is_runnable {
            window.is_runnable = true;
            self.runnable.push_back(slot);
        }
    }

    /// The host has acknowledged `bytes`. Returns whether its window has vanished (R-LAN-3).
    pub(crate) fn acknowledged(&mut self, slot: u32, bytes: u64, now: Time) -> bool {
        let Some(window) = self.get_mut(slot) else { return false };
        window.grow(bytes);
        if window.is_crowded() {
            window.busy = now;
        } else if now >= window.busy + CALM {
            return self.close(slot);
        }
        false
    }

    /// Something was lost on the way to the host. Returns whether its window was halved.
    pub(crate) fn lost(&mut self, slot: u32, now: Time) -> bool {
        let Some(window) = self.windows.get_mut(&slot) else { return false };
        window.busy = now;
        if now < window.halved + self.clocks.get(window.clock).mean() {
            return false;
        }
        window.halved = now;
        window.size = (window.size / 2).max(LEAST);
        window.threshold = window.size;
        true
    }

    /// Flow `id` waits for room.
    pub(crate) fn wait(&mut self, slot: u32, id: FlowId, now: Time) {
        let Some(window) = self.get_mut(slot) else { return };
        window.waiters.push_back(id);
        window.busy = now;
    }

    /// The next flow that has room and waited for it.
    #[inline]
    pub fn next_turn(&mut self) -> Option<FlowId> {
        while let Some(slot) = self.runnable.front().copied() {
            if let Some(window) = self.windows.get_mut(&slot) {
                if window.has_room()
                    && let Some(id) = window.waiters.pop_front()
                {
                    return Some(id);
                }
                window.is_runnable = false;
            }
            self.runnable.pop_front();
        }
        None
    }
}
