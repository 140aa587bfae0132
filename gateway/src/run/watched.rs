//! The main thread's work for a pair of ports: it starts the workers, answers ARP, ND and ping at the WAN ports of a tunnel
//! over UDP, forwards link loss, logs the workers' events, and samples counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use anyhow::anyhow;
use common::ids::{BootId, WorkerId};
use dpdk_sys_wrapper::{Eal, Port};
use tracing::Span;

use super::link_loss::Forwarder;
use super::notes::{self, Notes};
use super::pair::{Pair, Place, Queues, tunnels_of};
use super::span;
use crate::config::{self, Config, ROLES, TUNNELS, word};
use crate::control::station::Station;
use crate::control::{State, Watch};
use crate::cores::{self, Verdict};
use crate::held::{self, Marks};
use crate::port::PortId;
use crate::shares::owners;
use crate::worker::handoff::mesh;
use crate::worker::{Ended, Unfinished, events, links, station};

/// A worker's thread.
type Handle<'scope> = ScopedJoinHandle<'scope, anyhow::Result<Ended>>;

/// A pair of ports and its workers.
pub(super) struct Watched<'scope, 'a> {
    eal: &'a Eal,
    pair: &'a Pair,
    state: &'a State,
    span: Span,
    stop: Arc<AtomicBool>,
    workers: Vec<Handle<'scope>>,
    watches: Vec<Watch>,
    stations: Vec<Station>,
    links: Arc<links::Shared>,
    /// By worker.
    events: Vec<events::ControlEnd>,
    forwarder: Forwarder<'a, Port>,
    notes: Notes,
    up: Vec<Option<bool>>,
    config: &'a Config,
    /// It was said whether the workers are enough for the link.
    is_judged: bool,
    /// The end, once it has come.
    ended: Option<anyhow::Result<Ended>>,
    /// Why a worker was not started.
    failed: Option<anyhow::Error>,
}

impl<'scope, 'a: 'scope> Watched<'scope, 'a> {
    /// Starts the workers, each in a thread of its own.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        (eal, pair, queues): (&'a Eal, &'a Pair, Vec<Queues>),
        (config, state): (&'a Config, &'a State),
        boot: BootId,
    ) -> Self {
        let span = span(config);
        let _entered = span.clone().entered();
        let count = config.worker.count;
        let handoffs = mesh(count, pair.ports.len(), &owners(config, &pair.wan_macs()));
        let mut worker_ends: Vec<_> = (0..count).map(|_| Vec::new()).collect();
        let mut stations = Vec::new();
        for (port, wan) in pair.ports.iter().skip(1).zip(&config.wan) {
            let Some(udp) = wan.udp() else { continue };
            let (ends, control) = station::join(count);
            worker_ends.iter_mut().zip(ends).for_each(|(all, end)| all.push(end));
            stations.push(Station::new(&udp, port.mac(), control, eal.clock().now()));
        }
        let links = Arc::new(links::Shared::default());
        let unfinished = Unfinished::new(count);
        let stop = Arc::new(AtomicBool::new(false));
        let (mut workers, mut events, mut failed) = (Vec::new(), Vec::new(), None);
        let each = (0..).map(WorkerId).zip(queues).zip(handoffs).zip(worker_ends);
        for (((n, queues), handoff), stations) in each {
            let (watch, end) = events::pair();
            events.push(end);
            let place = Place {
                n,
                queues,
                handoff,
                stop: Arc::clone(&stop),
                unfinished: unfinished.clone(),
                published: Arc::clone(&state.workers[usize::from(n.0)]),
                stations,
                links: Arc::clone(&links),
                events: watch.of_tunnels(tunnels_of(config, n), config.lanes()),
                settings: state.parameters.add_worker(),
                flows: state.flows.add_worker(),
                records: state.records.add_worker(),
                tap: state.captures.add_worker(),
            };
            let name = config.pair.label().unwrap_or("worker");
            let span = span.clone();
            let worker =
                thread::Builder::new().name(format!("{name}-{n}")).spawn_scoped(scope, move || {
                    let _entered = span.entered();
                    pair.one(eal, config, boot, place)
                });
            match worker {
                Ok(worker) => workers.push(worker),
                Err(e) => {
                    // Those that run have to be told to end.
                    stop.store(true, Ordering::Relaxed);
                    failed = Some(anyhow::Error::new(e).context("can't start a worker"));
                    break;
                }
            }
        }
        say(config, workers.len());
        Self {
            eal,
            pair,
            state,
            watches: workers.iter().map(|_| Watch::new(Instant::now())).collect(),
            workers,
            stations,
            links,
            events,
            forwarder: Forwarder::new(config, &pair.ports, state, marks(config)),
            notes: Notes::new(config, Instant::now()),
            up: vec![None; pair.ports.len()],
            config,
            is_judged: false,
            stop,
            span,
            ended: None,
            failed,
        }
    }

    /// Tells the workers to release held frames and end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether all workers have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether all workers have shown a sign of life.
    pub(super) fn has_begun(&self) -> bool {
        self.state.workers.iter().all(|worker| worker.beats() > 0)
    }

    /// Does the periodic work; to be called every 20 ms. Returns whether all workers have ended. If one worker ends by
    /// itself, the others of its pair are stopped.
    pub(super) fn look(&mut self) -> bool {
        if self.ended.is_some() {
            return true;
        }
        let _entered = self.span.clone().entered();
        if self.workers.iter().all(ScopedJoinHandle::is_finished) {
            self.end();
            return true;
        }
        if self.workers.iter().any(ScopedJoinHandle::is_finished) {
            self.stop();
        }
        let clock = self.eal.clock();
        let is_up = self.state.is_tunnel_up();
        self.stations.iter_mut().for_each(|station| station.poll(clock.now(), is_up));
        self.pair.share_links(&self.links);
        self.forwarder.look(self.state, Instant::now());
        notes::workers(self.state, &mut self.events, clock.now());
        false
    }

    /// Takes a sample of ports, pool and workers. Returns whether a worker stalls.
    pub(super) fn sample(&mut self, stopping: bool, now: Instant) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let _entered = self.span.clone().entered();
        let (state, clock) = (self.state, self.eal.clock());
        let each = self.watches.iter_mut().zip(&state.workers);
        let each = each.map(|(watch, published)| watch.look(published, now)).collect();
        let refused = state.strangers();
        let mut way = |station: &mut Station| station.way(clock.now(), refused);
        let ways = self.stations.iter_mut().map(&mut way).collect();
        let sample = self.pair.sample(each, stopping, ways);
        notes::links(state, &mut self.up, &sample);
        self.judge();
        if !stopping {
            self.notes.look(state, &sample, now);
        }
        let is_stalled = sample.workers.iter().any(|worker| worker.stalled);
        state.put(sample);
        is_stalled
    }

    /// Says once whether the workers are enough for the link, when its rate is known.
    fn judge(&mut self) {
        if self.is_judged {
            return;
        }
        let speeds = cores::speeds(&self.pair.ports);
        // A LAN port slower than the WAN limits the rate: its speed is known once its link is up.
        if self.config.lan.is_pci() && speeds.get(PortId::LAN.index()).is_none_or(Option::is_none) {
            return;
        }
        let rate = cores::link_rate(self.config, &speeds);
        self.is_judged = rate.is_some();
        // The span has the name of the pair.
        match rate.map(|rate| cores::judge(self.config, rate, Some(self.eal.clock().hertz()))) {
            Some(Verdict::Enough(line)) => tracing::info!("{line}"),
            Some(Verdict::TooFew(line)) => tracing::warn!("{line}"),
            None => {}
        }
    }

    /// The end of the workers.
    fn end(&mut self) {
        self.forwarder.end(self.state);
        let (mut all, mut failed) = (Ended::default(), self.failed.take());
        for worker in self.workers.drain(..) {
            match worker.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked"))) {
                Ok(ended) => {
                    all.held += ended.held;
                    all.queued += ended.queued;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed.as_ref().filter(|_| self.state.pair().is_some()) {
            tracing::error!("this pair of ports forwards no more: {error:#}");
            self.state.fail(format!("{error:#}"));
        }
        self.ended = Some(failed.map_or(Ok(all), Err));
    }

    /// How it ended.
    pub(super) fn join(mut self) -> anyhow::Result<Ended> {
        self.ended.take().unwrap_or_else(|| Ok(Ended::default()))
    }
}

/// Those of the interfaces that this process holds down.
pub(super) fn marks(config: &Config) -> Marks {
    Marks::of(&held::folder(), &config.eal.file_prefix)
}

fn say(config: &Config, workers: usize) {
    tracing::info!(
        "forwarding: role {}, recovery {}, tunnel {}, node {}, {workers} worker(s), {}{}",
        word(ROLES, &config.role),
        word(config::RECOVERIES, &config.recovery.mode),
        word(TUNNELS, &config.tunnel.mode),
        config.peer.node,
        word(config::IDLES, &config.worker.idle),
        if config.eal.cores.is_empty() {
            String::new()
        } else {
            format!(", on CPU {:?}", config.eal.cores)
        },
    );
}
