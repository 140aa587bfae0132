//! Counters that the worker copies, now and then, into memory that it shares with the control
//! thread.
//!
//! The worker counts in plain memory of its own ([`IoCounters`], and the
//! switch's [`Counters`]) and stores a copy with relaxed ordering. A reader
//! sees every number whole; two numbers may be a few microseconds apart.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::frame::Side;
use common::metrics::{Counters, Desc, Metric, MetricKind};
use crossbeam_utils::CachePadded;

/// An enum of counters, family by family: `Kind "family" "HELP" { Variant ["label" = "value"], .. }`.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident $(
        $kind:ident $family:literal $help:literal {
            $( $variant:ident $([$label:literal = $value:literal])? ),+
        }
    )+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum $name { $( $( #[doc = $help] $variant ),+ ),+ }

        impl $name {
            /// All of them, in order, each with its name, label and HELP.
            pub const TABLE: &'static [(Self, Desc)] = &[ $( $( (Self::$variant, Desc {
                name: $family,
                labels: &[ $( ($label, $value) )? ],
                help: $help,
                kind: MetricKind::$kind,
            }) ),+ ),+ ];
        }
    };
}

counters! {
    /// A worker's counters per port.
    PortIo
    Counter "lr2_port_received_frames_total" "Frames received by a port." { RxFrames }
    Counter "lr2_port_received_bytes_total" "Bytes received by a port, without FCS." { RxBytes }
    Counter "lr2_port_flattened_frames_total"
        "Frames that came in pieces and were copied into one buffer." { RxFlattened }
    Counter "lr2_port_receive_dropped_frames_total"
        "Frames dropped on arrival, by reason; not among those received." {
        RxTooLong ["reason" = "too_long"], RxNoMbuf ["reason" = "no_mbuf"]
    }
    Counter "lr2_port_handed_over_frames_total"
        "Frames received on a queue of another worker than theirs." { HandedOver }
    Counter "lr2_port_handover_dropped_frames_total"
        "Frames received, and dropped on the way to their worker: too slow, or gone." { DropHandover }
    Counter "lr2_port_transmitted_frames_total" "Frames that a port took to transmit." { TxFrames }
    Counter "lr2_port_transmitted_bytes_total"
        "Bytes that a port took to transmit, without FCS." { TxBytes }
    Counter "lr2_port_egress_dropped_frames_total"
        "Frames dropped on their way to a port, by reason." {
        DropFull ["reason" = "queue_full"], DropStalled ["reason" = "port_stalled"],
        DropEnd ["reason" = "shutdown"]
    }
    Gauge "lr2_port_egress_queued_frames" "Frames that wait for a port." { Queued }
}

counters! {
    /// A worker's use of its time. Sleep is idle.
    LoopIo
    Counter "lr2_worker_rounds_total"
        "Rounds of the worker's loop, by whether there was something to do." {
        BusyRounds ["state" = "busy"], IdleRounds ["state" = "idle"]
    }
    Counter "lr2_worker_nanoseconds_total"
        "Time the worker spent, by whether there was something to do." {
        BusyNanos ["state" = "busy"], IdleNanos ["state" = "idle"]
    }
}

const PORT: usize = PortIo::TABLE.len();
const LOOP: usize = LoopIo::TABLE.len();

/// A worker's own counters, beside those of its switch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IoCounters {
    ports: [[u64; PORT]; 2],
    rounds: [u64; LOOP],
}

impl IoCounters {
    /// Adds `n` to a port's counter.
    #[inline]
    pub fn add(&mut self, side: Side, what: PortIo, n: u64) {
        self.ports[side.index()][what as usize] += n;
    }

    /// Sets a port's gauge.
    #[inline]
    pub fn set(&mut self, side: Side, what: PortIo, value: u64) {
        self.ports[side.index()][what as usize] = value;
    }

    /// A port's counter.
    pub fn port(&self, side: Side, what: PortIo) -> u64 {
        self.ports[side.index()][what as usize]
    }

    /// Adds `n` to a counter of the loop.
    #[inline]
    pub fn add_loop(&mut self, what: LoopIo, n: u64) {
        self.rounds[what as usize] += n;
    }

    /// Adds the counters of another worker.
    pub fn join(&mut self, other: &Self) {
        let theirs = other.ports.iter().flatten().chain(&other.rounds);
        for (sum, n) in self.ports.iter_mut().flatten().chain(&mut self.rounds).zip(theirs) {
            *sum += n;
        }
    }

    /// A counter of the loop.
    pub fn round(&self, what: LoopIo) -> u64 {
        self.rounds[what as usize]
    }
}

/// The copy that both threads see. Written by one worker.
#[derive(Debug)]
pub struct Published {
    switch: CachePadded<[AtomicU64; Metric::COUNT]>,
    ports: CachePadded<[[AtomicU64; PORT]; 2]>,
    rounds: CachePadded<[AtomicU64; LOOP]>,
    beats: CachePadded<AtomicU64>,
}

impl Default for Published {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            switch: CachePadded::new(std::array::from_fn(zero)),
            ports: CachePadded::new(std::array::from_fn(|_| std::array::from_fn(zero))),
            rounds: CachePadded::new(std::array::from_fn(zero)),
            beats: CachePadded::new(AtomicU64::new(0)),
        }
    }
}

impl Published {
    /// Replaces the copy, and counts one more sign of life.
    pub fn store(&self, switch: &Counters, io: &IoCounters) {
        let store = |to: &[AtomicU64], from: &[u64]| {
            for (to, from) in to.iter().zip(from) {
                to.store(*from, Relaxed);
            }
        };
        store(&self.switch[..], switch.values());
        for (to, from) in self.ports.iter().zip(&io.ports) {
            store(to, from);
        }
        store(&self.rounds[..], &io.rounds);
        self.beats.store(self.beats.load(Relaxed) + 1, Relaxed);
    }

    /// A counter of the switch.
    pub fn switch(&self, metric: Metric) -> u64 {
        self.switch[metric as usize].load(Relaxed)
    }

    /// The worker's own counters.
    pub fn io(&self) -> IoCounters {
        let load = |a: &AtomicU64| a.load(Relaxed);
        IoCounters {
            ports: std::array::from_fn(|p| self.ports[p].each_ref().map(load)),
            rounds: self.rounds.each_ref().map(load),
        }
    }

    /// How often the copy was replaced: a worker that lives makes it grow.
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read() {
        let mut switch = Counters::default();
        switch.add(Metric::GapsSeen, 3);
        let mut io = IoCounters::default();
        io.add(Side::Lan, PortIo::RxFrames, 5);
        io.add(Side::Wan, PortIo::Queued, 7);
        io.add_loop(LoopIo::IdleNanos, 11);
        let published = Published::default();
        published.store(&switch, &io);
        assert_eq!(published.switch(Metric::GapsSeen), 3);
        assert_eq!(published.io(), io);
        assert_eq!(published.beats(), 1);
    }
}
