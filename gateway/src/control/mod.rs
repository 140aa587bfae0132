//! The control side: the view of operators and their tools.
//!
//! [`State`] holds the state; [`metrics`] renders it for Prometheus,
//! [`health`] and [`tunnel`] judge it, [`events`] remembers its changes, [`parameters`] has its configuration, [`status`] tells the rest, [`actions`]
//! has what the operator asks for, and [`server`] serves all over HTTP from a thread of its own.

pub mod actions;
#[cfg(test)]
mod alerts;
pub mod capabilities;
pub mod capture;
pub mod conditions;
pub mod connections;
pub mod events;
pub mod flows;
pub mod health;
pub mod journal;
pub mod links;
mod listing;
pub mod metrics;
#[cfg(test)]
mod metrics_page;
pub mod neighbour;
mod page;
pub mod parameters;
mod paths;
pub mod peers;
pub mod reason;
pub mod records;
pub mod refused;
mod routes;
pub mod server;
pub mod socket;
pub mod station;
pub mod status;
mod trace;
pub mod tunnel;
pub mod wall;

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dpdk_sys_wrapper::PortStats;
use parking_lot::Mutex;

use crate::config::{Config, Pair, Pool};
use crate::telemetry::{LoopIo, Published, PublishedTunnel, TunnelCounters, TunnelIo};

/// How a worker does.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct WorkerHealth {
    /// Share of time in which it found something to do, 0 to 1.
    pub busy_ratio: f64,
    /// It has shown no sign of life for longer than it may.
    pub stalled: bool,
}

/// State that only the owner of ports and pools can read. Sampled a few times a
/// second.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Counters of the ports since they were opened, by [`PortId::index`](crate::port::PortId::index).
    pub ports: Vec<PortStats>,
    /// Whether their links are up.
    pub up: Vec<bool>,
    /// mbufs that can be had.
    pub mbufs_free: u32,
    /// All mbufs.
    pub mbufs: u32,
    /// How each worker does.
    pub workers: Vec<WorkerHealth>,
    /// The process is on its way out.
    pub stopping: bool,
    /// The way to the peer from each WAN port, with a tunnel over UDP.
    pub ways: Vec<station::Way>,
}

/// Why a pair of ports does not forward.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// In one line.
    pub why: String,
    /// When it is tried again; `None`: not before the next start of the process.
    pub next: Option<Instant>,
}

/// All that the control thread knows of a pair of ports.
#[derive(Debug)]
pub struct State {
    /// Counters of each worker.
    pub workers: Vec<Arc<Published>>,
    role: &'static str,
    pair: Pair,
    fault: Mutex<Option<Fault>>,
    /// WAN ports.
    wans: u8,
    tunnel: Option<tunnel::Expected>,
    /// The newest events.
    pub events: events::Events,
    /// What the box can do.
    pub capabilities: capabilities::Capabilities,
    /// The ports that are taken down.
    pub links: links::Links,
    /// The boxes at the other end.
    pub peers: peers::Peers,
    /// The reasons that the watchers of the counters found.
    reasons: Mutex<Vec<reason::Reason>>,
    /// When each reason of any watcher began.
    ages: reason::Ages,
    /// What the operator asks the main thread to do.
    pub actions: Arc<actions::Actions>,
    /// The flows that the workers know.
    pub flows: flows::Flows,
    /// What the workers have recorded of packets.
    pub records: records::Records,
    /// The workers' clock.
    pub wall: wall::Wall,
    /// Captures of frames.
    pub captures: capture::Captures,
    /// The boot id, once it is known.
    pub boot: OnceLock<u64>,
    facts: Mutex<Arc<status::Facts>>,
    /// The parameters by name.
    pub parameters: parameters::Parameters,
    started: Instant,
    start_time: f64,
    /// `None` until ports and pools exist.
    sample: Mutex<Option<Sample>>,
}

impl State {
    /// The state of a process that starts now, with so many workers, which share the tunnels that are
    /// expected.
    pub fn new(role: &'static str, workers: usize, tunnel: Option<tunnel::Expected>) -> Self {
        let (tunnels, lanes) = tunnel.as_ref().map_or((0, 0), |it| (it.tunnels.into(), it.lanes));
        let published = |n| {
            let of_worker = (n..tunnels).step_by(workers).len();
            Arc::new(Published::new(of_worker, lanes))
        };
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            workers: (0..workers).map(published).collect(),
            role,
            pair: Pair::default(),
            fault: Mutex::default(),
            wans: tunnel.as_ref().map_or(1, |tunnel| tunnel.ports),
            tunnel,
            events: events::Events::default(),
            capabilities: capabilities::Capabilities::default(),
            links: links::Links::default(),
            peers: peers::Peers::default(),
            reasons: Mutex::default(),
            ages: reason::Ages::default(),
            actions: Arc::default(),
            flows: flows::Flows::default(),
            records: records::Records::default(),
            wall: wall::Wall::default(),
            captures: capture::Captures::default(),
            boot: OnceLock::new(),
            facts: Mutex::default(),
            parameters: parameters::Parameters::default(),
            started: Instant::now(),
            start_time: epoch.as_secs_f64(),
            sample: Mutex::default(),
        }
    }

    /// The same, with the parameters and capabilities of a configuration.
    pub fn of(self, config: &Config) -> Self {
        let parameters = parameters::Parameters::new(config);
        let capabilities = capabilities::Capabilities::of(config);
        let facts = Mutex::new(Arc::new(status::Facts::of(config, &config.pool)));
        let captures = capture::Captures::of(config);
        let pair = config.pair.clone();
        Self { parameters, capabilities, facts, captures, pair, ..self }
    }

    fn facts(&self) -> Arc<status::Facts> {
        Arc::clone(&self.facts.lock())
    }

    /// The configuration is another one now, in the mbufs that were reserved.
    pub fn set_facts(&self, config: &Config, reserved: &Pool) {
        let facts = Arc::new(status::Facts::of(config, reserved));
        *self.facts.lock() = facts;
    }

    /// The same, with a way to ask the main thread.
    pub fn with(self, actions: impl Into<Arc<actions::Actions>>) -> Self {
        Self { actions: actions.into(), ..self }
    }

    /// This pair of ports does not forward, for that reason, as long as the process runs.
    pub fn fail(&self, why: String) {
        self.fail_until(why, None);
    }

    /// This pair of ports does not forward, for that reason, and is tried again at that time, if there is one.
    pub fn fail_until(&self, why: String, next: Option<Instant>) {
        *self.fault.lock() = Some(Fault { why, next });
    }

    /// It forwards from now on.
    pub fn mended(&self) {
        *self.fault.lock() = None;
    }

    /// Why it does not forward, if it has failed.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().clone()
    }

    /// The name of the pair of ports, if there are several.
    pub fn pair(&self) -> Option<&str> {
        self.pair.label()
    }

    /// The name of the pair of ports; if there is only one, its number.
    pub fn name(&self) -> &str {
        &self.pair.name
    }

    /// Replaces the last sample.
    pub fn put(&self, sample: Sample) {
        *self.sample.lock() = Some(sample);
    }

    /// Replaces the reasons that the watchers of the counters found. Call with all of them, about twice a second.
    pub fn set_reasons(&self, reasons: Vec<reason::Reason>) {
        *self.reasons.lock() = reasons;
    }

    /// The reasons of the last [`set_reasons`](Self::set_reasons).
    pub fn reasons(&self) -> Vec<reason::Reason> {
        self.reasons.lock().clone()
    }

    /// The tunnels, in ascending order; none if there is no tunnel.
    pub fn tunnels(&self) -> impl Iterator<Item = &PublishedTunnel> {
        let count = self.tunnel.as_ref().map_or(0, |tunnel| usize::from(tunnel.tunnels));
        let workers = self.workers.len();
        (0..count).filter_map(move |n| self.workers.get(n % workers)?.tunnels().get(n / workers))
    }

    /// Counters of all tunnels together; `None` if there is no tunnel.
    pub fn all_tunnels(&self) -> Option<TunnelCounters> {
        self.tunnels().map(PublishedTunnel::counters).reduce(|mut all, tunnel| {
            all.join(&tunnel);
            all
        })
    }

    /// The place of an event of a worker, in one of its tunnels.
    pub fn place(&self, worker: usize, tunnel: u8) -> events::Place {
        let has_several = self.tunnel.as_ref().is_some_and(|expected| expected.tunnels > 1);
        events::Place { worker: Some(worker), tunnel: has_several.then_some(tunnel) }
    }

    /// Whether one of the tunnels has a session.
    pub fn is_tunnel_up(&self) -> bool {
        self.tunnels().any(|tunnel| tunnel.get(TunnelIo::Up) > 0)
    }

    /// Frames from other addresses than the peer's, of all tunnels.
    pub fn strangers(&self) -> u64 {
        self.tunnels().map(|tunnel| tunnel.get(TunnelIo::DropSource)).sum()
    }

    /// The reasons for which the tunnel does not protect every frame, as of this sample. `is_refusing`: the peer's datagrams come,
    /// and this box refuses them, which is a reason of its own.
    pub fn tunnel_reasons(&self, sample: &Sample, is_refusing: bool) -> Vec<reason::Reason> {
        let Some(expected) = &self.tunnel else { return Vec::new() };
        let tunnels: Vec<_> = self.tunnels().map(PublishedTunnel::counters).collect();
        tunnel::reasons(expected, &tunnels, &tunnel::Known { ways: &sample.ways, is_refusing })
    }

    /// The last sample.
    pub fn sample(&self) -> Option<Sample> {
        self.sample.lock().clone()
    }
}

/// Follows a worker's signs of life and its load from sample to sample.
#[derive(Debug)]
pub struct Watch {
    beats: u64,
    changed: Instant,
    busy: u64,
    idle: u64,
}

impl Watch {
    /// Starts to follow.
    pub fn new(now: Instant) -> Self {
        Self { beats: 0, changed: now, busy: 0, idle: 0 }
    }

    /// Whether the worker stalls, and its busy ratio since the last call.
    pub fn look(&mut self, worker: &Published, now: Instant) -> WorkerHealth {
        let beats = worker.beats();
        if beats != self.beats {
            (self.beats, self.changed) = (beats, now);
        }
        let io = worker.io();
        let (busy, idle) = (io.round(LoopIo::BusyNanos), io.round(LoopIo::IdleNanos));
        let (b, i) = (busy - self.busy, idle - self.idle);
        (self.busy, self.idle) = (busy, idle);
        let ratio = if b + i == 0 { 0.0 } else { b as f64 / (b + i) as f64 };
        WorkerHealth {
            busy_ratio: ratio,
            stalled: now.duration_since(self.changed) >= health::STALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use common::metrics::Counters;

    use super::*;
    use crate::telemetry::IoCounters;

    fn health(stalled: bool, busy_ratio: f64) -> WorkerHealth {
        WorkerHealth { busy_ratio, stalled }
    }

    #[test]
    fn a_worker_without_signs_of_incarnation_stalls_until_the_next_one() {
        let start = Instant::now();
        let worker = Published::default();
        let mut watch = Watch::new(start);
        let mut io = IoCounters::default();
        io.add_loop(LoopIo::BusyNanos, 30);
        io.add_loop(LoopIo::IdleNanos, 10);
        worker.store(&Counters::default(), &io);
        assert_eq!(watch.look(&worker, start), health(false, 0.75));
        assert_eq!(watch.look(&worker, start + health::STALL / 2), health(false, 0.0));
        assert_eq!(watch.look(&worker, start + health::STALL), health(true, 0.0));
        worker.store(&Counters::default(), &io);
        assert_eq!(watch.look(&worker, start + 2 * health::STALL), health(false, 0.0));
    }
}
