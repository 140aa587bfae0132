//! The seam between a port and the protocol of its queue pairs.

use core::ops::AddAssign;
use std::collections::VecDeque;

use common::time::Time;
use common::wire::{PacketKind, Roce};

use crate::packet::Packet;
use crate::timers::Timer;
use crate::work::{Completion, PostError, Received, WorkRequest};

/// Messages that have ended at either side, in the order they ended.
#[derive(Default, Debug)]
pub struct Events {
    /// Work requests that have ended.
    pub completions: VecDeque<Completion>,
    /// Messages that have arrived completely.
    pub received: VecDeque<Received>,
}

/// The protocol of a queue pair: which packet it sends next, and the effect of
/// a packet that arrives. Addresses, congestion control, the line rate and the
/// order among queue pairs are the [`Port`](super::Port)'s.
pub trait Transport {
    /// The counters of a queue pair.
    type Stats: Default + for<'a> AddAssign<&'a Self::Stats>;

    /// Whether the protocol has packets of this kind; CNPs need not be named.
    fn takes(kind: PacketKind) -> bool;

    /// Queues a message, and returns its number; see [`Port::post`](super::Port::post).
    ///
    /// # Errors
    /// If the message can't be sent.
    fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError>;

    /// Work requests that are posted and not completed.
    fn pending(&self) -> usize;

    /// Whether the queue pair is in the error state: it takes no packets.
    fn has_failed(&self) -> bool;

    /// A packet of a kind that it [takes](Self::takes) has arrived; its ICRC is valid.
    fn on_packet(&mut self, roce: &Roce, frame: &[u8], now: Time, events: &mut Events);

    /// The deadline of `timer` may have passed.
    fn on_timer(&mut self, timer: Timer, now: Time, events: &mut Events);

    /// When `timer` has to be looked at.
    fn deadline(&self, timer: Timer) -> Option<Time>;

    /// The next packet that congestion control does not delay: an ACK or NAK, or
    /// the response to an atomic.
    fn next_ack(&self) -> Option<Packet>;

    /// `packet`, from [`next_ack`](Self::next_ack), is leaving.
    fn ack_sent(&mut self, packet: &Packet);

    /// The next packet that congestion control may delay: a request, or data of
    /// a READ.
    fn next_data(&mut self) -> Option<Packet>;

    /// `packet`, from [`next_data`](Self::next_data), is leaving.
    fn data_sent(&mut self, packet: &Packet, now: Time);

    /// Counts a CNP that has arrived.
    fn count_cnp_received(&mut self);

    /// Counts a CNP that is leaving.
    fn count_cnp_sent(&mut self);

    /// The counters so far.
    fn stats(&self) -> Self::Stats;
}
