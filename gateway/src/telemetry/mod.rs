//! Counters that the worker copies, now and then, into memory that it shares with the control
//! thread.
//!
//! The worker counts in plain memory of its own ([`IoCounters`], and the
//! switch's [`Counters`]) and stores a copy with relaxed ordering. A reader
//! sees every number whole; two numbers may be a few microseconds apart.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::metrics::{Counters, Desc, Metric, MetricKind};
use crossbeam_utils::CachePadded;

use crate::port::{PORTS, PortId};

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

mod lane;
mod path;
mod timings;
mod tunnel;

pub use lane::{LaneIo, PublishedLane};
pub use timings::PublishedTimings;
pub use tunnel::{PublishedTunnel, TunnelCounters, TunnelIo};

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
    Counter "lr2_port_overloaded_seconds_total"
        "Time for which a worker did not keep up with a port: no poll found its receive queue with less than a burst." {
        OverloadedNanos
    }
    Counter "lr2_port_handoff_frames_total"
        "Frames handed off to the worker that owns their flow." { Handoff }
    Counter "lr2_port_handoff_dropped_frames_total"
        "Frames dropped in a handoff: the ring was full, or the worker had ended." { DropHandoff }
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

impl PortIo {
    /// The value as Prometheus has it: time in seconds.
    pub fn scaled(self, value: u64) -> f64 {
        match self {
            Self::OverloadedNanos => value as f64 / 1e9,
            _ => value as f64,
        }
    }
}

counters! {
    /// A worker's use of its time. Sleep is idle.
    LoopIo
    Counter "lr2_worker_rounds_total"
        "Rounds of the worker's loop, by whether there was something to do." {
        BusyRounds ["state" = "busy"], IdleRounds ["state" = "idle"]
    }
    Counter "lr2_worker_seconds_total"
        "Time the worker spent, by whether there was something to do." {
        BusyNanos ["state" = "busy"], IdleNanos ["state" = "idle"]
    }
}

impl LoopIo {
    /// The value as Prometheus has it: time in seconds.
    pub fn scaled(self, value: u64) -> f64 {
        match self {
            Self::BusyNanos | Self::IdleNanos => value as f64 / 1e9,
            Self::BusyRounds | Self::IdleRounds => value as f64,
        }
    }
}

const PORT: usize = PortIo::TABLE.len();
const LOOP: usize = LoopIo::TABLE.len();
const ALL: usize = PORTS * PORT + LOOP;

/// A worker's own counters, beside those of its switch: those of the ports, and of the loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoCounters([u64; ALL]);

impl Default for IoCounters {
    fn default() -> Self {
        Self([0; ALL])
    }
}

const fn port(port: PortId, what: PortIo) -> usize {
    port.index() * PORT + what as usize
}

const fn of_loop(what: LoopIo) -> usize {
    PORTS * PORT + what as usize
}

impl IoCounters {
    /// Adds `n` to a port's counter.
    #[inline]
    pub fn add(&mut self, of: PortId, what: PortIo, n: u64) {
        self.0[port(of, what)] += n;
    }

    /// Sets a port's gauge.
    #[inline]
    pub fn set(&mut self, of: PortId, what: PortIo, value: u64) {
        self.0[port(of, what)] = value;
    }

    /// A port's counter.
    pub fn port(&self, of: PortId, what: PortIo) -> u64 {
        self.0[port(of, what)]
    }

    /// Adds `n` to a counter of the loop.
    #[inline]
    pub fn add_loop(&mut self, what: LoopIo, n: u64) {
        self.0[of_loop(what)] += n;
    }

    /// Adds the counters of another worker.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// A counter of the loop.
    pub fn round(&self, what: LoopIo) -> u64 {
        self.0[of_loop(what)]
    }
}

/// The copy that both threads see. Written by one worker.
#[derive(Debug)]
pub struct Published {
    switch: CachePadded<[AtomicU64; Metric::COUNT]>,
    io: CachePadded<[AtomicU64; ALL]>,
    /// Those of the worker's tunnels, in ascending order.
    tunnels: Box<[PublishedTunnel]>,
    /// Of the flows, and of the tunnels.
    timings: CachePadded<[PublishedTimings; 2]>,
    beats: CachePadded<AtomicU64>,
}

impl Default for Published {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl Published {
    /// Zeros, for a worker with so many tunnels of so many lanes.
    pub fn new(tunnels: usize, lanes: u8) -> Self {
        Self {
            switch: CachePadded::new([const { AtomicU64::new(0) }; _]),
            io: CachePadded::new([const { AtomicU64::new(0) }; _]),
            tunnels: (0..tunnels).map(|_| PublishedTunnel::new(lanes)).collect(),
            timings: CachePadded::default(),
            beats: CachePadded::default(),
        }
    }

    /// Replaces the copy, and counts one more sign of life.
    pub fn store(&self, switch: &Counters, io: &IoCounters) {
        let to = self.switch.iter().chain(&*self.io);
        for (to, from) in to.zip(switch.values().iter().chain(&io.0)) {
            to.store(*from, Relaxed);
        }
        self.flow_timings().store(switch.timings());
        self.beats.store(self.beats.load(Relaxed) + 1, Relaxed);
    }

    /// Those of the worker's tunnels, in ascending order.
    pub fn tunnels(&self) -> &[PublishedTunnel] {
        &self.tunnels
    }

    /// Times of the repair of flows.
    pub fn flow_timings(&self) -> &PublishedTimings {
        &self.timings[0]
    }

    /// Times of the worker's tunnels.
    pub fn tunnel_timings(&self) -> &PublishedTimings {
        &self.timings[1]
    }

    /// A counter of the switch.
    pub fn switch(&self, metric: Metric) -> u64 {
        self.switch[metric as usize].load(Relaxed)
    }

    /// The worker's own counters.
    pub fn io(&self) -> IoCounters {
        IoCounters(self.io.each_ref().map(|n| n.load(Relaxed)))
    }

    /// How often the copy was replaced: a worker that lives makes it grow.
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use common::frame::Side;
    use common::histogram::{Histogram, Timing};
    use common::time::Span;

    use super::*;

    #[test]
    fn what_is_stored_is_read() {
        let mut switch = Counters::default();
        switch.add(Metric::GapsSeen, 3);
        switch.record(Timing::Hold, Span::from_micros(20));
        let mut io = IoCounters::default();
        io.add(PortId::LAN, PortIo::RxFrames, 5);
        io.add(Side::Wan.into(), PortIo::Queued, 7);
        io.add_loop(LoopIo::IdleNanos, 11);
        let published = Published::default();
        published.store(&switch, &io);
        assert_eq!(published.switch(Metric::GapsSeen), 3);
        assert_eq!(published.io(), io);
        assert_eq!(&published.flow_timings().get(Timing::Hold), switch.timings().get(Timing::Hold));
        assert_eq!(published.tunnel_timings().get(Timing::Hold), Histogram::default());
        assert_eq!(published.beats(), 1);
    }
}
