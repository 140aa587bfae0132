//! The run of the process: from a configuration to ports, workers and a
//! control thread, and back in the right order.

mod link_loss;
mod notes;
mod ports;
mod reloader;
pub mod trial;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use common::ids::{BootId, WorkerId};
use common::wire::MacAddr;
use dpdk_sys_wrapper::{
    Eal, LcoreGuard, Mbuf, Mempool, PoolConfig, PoolHandle, Port, RxQueue, TxQueue,
};
use rtrb::Consumer;
use signal_hook::consts::{SIGINT, SIGTERM};
use tunnel::Part;

use self::link_loss::Forwarder;
use self::notes::Notes;
use self::ports::{deal, eal_config, open_port};
use self::reloader::Reloader;
use crate::boot::Boot;
use crate::config::{self, Config, ROLES, TUNNELS, TunnelMode, word};
use crate::control::actions::Actions;
use crate::control::socket::{self, Socket};
use crate::control::station::{Station, Way};
use crate::control::tunnel::Expected;
use crate::control::{Sample, State, Watch, WorkerHealth, server};
use crate::instance::Instance;
use crate::log::Log;
use crate::notify::Notifier;
use crate::port::PortId;
use crate::reload::Change;
use crate::shares::{boot, division, lan_repair, owners, switch_config, tunnel_config};
use crate::telemetry::Published;
use crate::worker::capture::Tap;
use crate::worker::egress::Egress;
use crate::worker::events::{self, Watch as EventWatch};
use crate::worker::handoff::{Handoff, mesh};
use crate::worker::idle::{Idler, sharpen_timers};
use crate::worker::links::{self, Links};
use crate::worker::plane::Plane;
use crate::worker::station::{self, WorkerEnd};
use crate::worker::{Ended, Parts, Unfinished, Worker, io};
use crate::worker::{flows, records};

/// Time between two looks at signals and at the worker's end.
const TICK: Duration = Duration::from_millis(20);

/// Time between two samples of ports and pool.
const SAMPLE: Duration = Duration::from_millis(500);

/// mbufs that each worker keeps for itself.
const MEMPOOL_CACHE: u32 = 256;

pub use self::reloader::Load;

/// The main thread's duties while the workers run.
struct Duties<'a> {
    notes: Notes,
    reloader: Reloader<'a>,
    notifier: Notifier,
}

/// Runs the gateway until a signal ends it. `load` reads the configuration again, for SIGHUP; `log` changes the level of
/// the log.
///
/// # Errors
/// In one line: the resource that was missing at the start, and how to get it.
pub fn run(config: &Config, load: Load<'_>, log: Log) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let mut duties = Duties {
        notes: Notes::new(config, Instant::now()),
        reloader: Reloader::new(config, load)?,
        notifier: Notifier::from_environment(),
    };
    let tunnel = Expected::of(config);
    let workers = config.worker.count.into();
    let state = State::new(word(ROLES, &config.role), workers, tunnel);
    let state = Arc::new(state.of(config).with(Actions::new(Arc::clone(&stop), log)));
    // Who can't be asked forwards all the same.
    let ignore = |error| tracing::error!("{error:#}; frames are forwarded all the same");
    let bind = |path| socket::bind(path, config.group.as_deref()).map_err(ignore).ok();
    let socket = config.socket.as_deref().and_then(bind);
    // The file of the socket goes at the end.
    let (socket, _file) = socket.map(Socket::into_parts).unzip();
    let listener = server::bind(config.listen).map_err(ignore).ok();
    server::spawn((config.listen, listener), socket, Arc::clone(&state))?;

    // Another one would fail at its devices, which says more.
    let _instance = Instance::claim(&config.eal.file_prefix).ok().flatten();
    let (machine, queues) = Machine::open(config)?;
    let ended = machine.work(config, queues, &state, &stop, &mut duties)?;
    drop(machine);
    if ended.held + ended.queued > 0 {
        tracing::warn!(
            "stopped after drain_timeout: {} held and {} queued frames were dropped",
            ended.held,
            ended.queued
        );
    } else {
        tracing::info!("stopped");
    }
    Ok(())
}

/// The flag that SIGTERM and SIGINT set. A second signal ends the process at
/// once, with status 1.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("can't catch signals")?;
    }
    Ok(stop)
}

/// The queues of one worker, by [`PortId::index`]. A port that has fewer receive queues
/// than there are workers leaves some without.
#[derive(Default)]
struct Queues {
    rx: Vec<Option<RxQueue>>,
    tx: Vec<TxQueue>,
}

/// A worker's part of the shared resources.
struct Place {
    n: WorkerId,
    queues: Queues,
    handoff: Handoff<Mbuf>,
    stop: Arc<AtomicBool>,
    unfinished: Unfinished,
    published: Arc<Published>,
    /// The ways to the stations of the WAN ports.
    stations: Vec<WorkerEnd>,
    links: Arc<links::Shared>,
    events: EventWatch,
    settings: Consumer<Change>,
    flows: flows::Lister,
    records: records::Lister,
    tap: Tap,
}

/// The main thread's ends of the ways to the workers.
struct Ends {
    stations: Vec<Station>,
    links: Arc<links::Shared>,
    /// By worker.
    events: Vec<events::ControlEnd>,
}

/// DPDK's resources. Fields are dropped in this order: ports, pool, EAL.
struct Machine {
    /// By [`PortId::index`].
    ports: Vec<Port>,
    pool: Mempool,
    eal: Eal,
}

impl Machine {
    fn open(config: &Config) -> anyhow::Result<(Self, Vec<Queues>)> {
        let eal = Eal::init(&eal_config(config))?;
        let pool = Mempool::new(
            &eal,
            &PoolConfig {
                name: "frames".into(),
                mbufs: config.pool.mbufs,
                cache: MEMPOOL_CACHE,
                data_room: config.pool.data_room,
            },
        )?;
        tracing::info!(
            "{} mbufs of {} bytes, of which recovery may hold {}; {} hugepages",
            config.pool.mbufs,
            config.pool.data_room,
            config.pool.holdable(),
            if eal.uses_hugepages() { "with" } else { "without" }
        );
        let workers = config.worker.count;
        let mut queues: Vec<_> = (0..workers).map(|_| Queues::default()).collect();
        let mut ports = Vec::new();
        let mut faults = Vec::new();
        for (id, (section, port)) in PortId::all(u8::MAX).zip(config.ports()) {
            match open_port(&eal, (id, section), port, config, &pool) {
                Ok((port, rx, tx)) => {
                    deal(&mut queues, id, rx, tx);
                    ports.push(port);
                }
                Err(fault) => faults.push(format!("{fault:#}")),
            }
        }
        if !faults.is_empty() {
            anyhow::bail!("{}", faults.join("; "));
        }
        Ok((Self { ports, pool, eal }, queues))
    }

    /// Runs the workers, each in a thread of its own, and watches them until they end.
    fn work(
        &self,
        config: &Config,
        queues: Vec<Queues>,
        state: &State,
        stop: &Arc<AtomicBool>,
        duties: &mut Duties<'_>,
    ) -> anyhow::Result<Ended> {
        let workers = &config.worker;
        let handoffs = mesh(workers.count, self.ports.len(), &owners(config, &self.wan_macs()));
        let Boot { id, warning } = boot(config)?;
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        // It is set once.
        let _ = state.boot.set(id.0);
        let mut worker_ends: Vec<_> = (0..workers.count).map(|_| Vec::new()).collect();
        let mut stations = Vec::new();
        for (port, wan) in self.ports.iter().skip(1).zip(&config.wan) {
            let Some(udp) = &wan.udp else { continue };
            let (ends, control) = station::join(workers.count);
            worker_ends.iter_mut().zip(ends).for_each(|(all, end)| all.push(end));
            stations.push(Station::new(udp, port.mac(), control, self.eal.clock().now()));
        }
        let links = Arc::new(links::Shared::default());
        let unfinished = Unfinished::new(workers.count);
        let mut events = Vec::new();
        thread::scope(|scope| {
            let (mut workers, mut failed) = (Vec::new(), None);
            let each = (0..).map(WorkerId).zip(queues).zip(handoffs).zip(worker_ends);
            for (((n, queues), handoff), stations) in each {
                let published = Arc::clone(&state.workers[usize::from(n.0)]);
                let links = Arc::clone(&links);
                let (watch, end) = events::pair();
                events.push(end);
                let place = Place {
                    n,
                    queues,
                    handoff,
                    stop: Arc::clone(stop),
                    unfinished: unfinished.clone(),
                    published,
                    stations,
                    links,
                    events: watch.of_tunnels(tunnels_of(config, n), config.lanes()),
                    settings: state.parameters.add_worker(),
                    flows: state.flows.add_worker(),
                    records: state.records.add_worker(),
                    tap: state.captures.add_worker(),
                };
                let worker = thread::Builder::new()
                    .name(format!("worker-{n}"))
                    .spawn_scoped(scope, move || self.one(config, id, place));
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
            tracing::info!(
                "forwarding: role {}, recovery {}, tunnel {}, node {}, {} worker(s), {}{}",
                word(ROLES, &config.role),
                word(config::RECOVERIES, &config.recovery.mode),
                word(TUNNELS, &config.tunnel.mode),
                config.peer.node,
                workers.len(),
                word(config::IDLES, &config.worker.idle),
                if config.eal.cores.is_empty() {
                    String::new()
                } else {
                    format!(", on CPU {:?}", config.eal.cores)
                },
            );
            let ends = Ends { stations, links, events };
            let mut links = Forwarder::new(config, &self.ports, state);
            self.supervise(duties, (state, stop), &workers, ends, &mut links);
            links.end(state);
            let mut all = Ended::default();
            for worker in workers {
                let ended = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
                all.held += ended.held;
                all.queued += ended.queued;
            }
            failed.map_or(Ok(all), Err)
        })
    }

    /// One worker, in its own thread.
    fn one(&self, config: &Config, boot: BootId, place: Place) -> anyhow::Result<Ended> {
        // Dropped last: the mbufs of the worker go back through the cache
        // that its thread has as long as it is registered.
        let lcore = LcoreGuard::register(&self.eal)?;
        let Place { n, queues, handoff, stop, unfinished, published, stations, links, .. } = place;
        let Place { events, settings, flows, records, tap, .. } = place;
        let Queues { rx, tx } = queues;
        let mut tx = tx.into_iter();
        let lan = tx.next().context("there is no LAN port")?;
        if let Some(&cpu) = config.eal.cores.get(usize::from(n.0)) {
            lcore.pin(cpu)?;
        }
        sharpen_timers();
        let plane = match config.tunnel.mode {
            TunnelMode::Off => Plane::switch(switch_config(config, boot, n)),
            TunnelMode::Ethernet | TunnelMode::Udp => {
                let (macs, workers) = (self.wan_macs(), config.worker.count);
                let ends = tunnels_of(config, n).map(|part| {
                    (tunnel_config(config, boot, &macs, part), lan_repair(config, boot, part))
                });
                let owners = owners(config, &macs);
                Plane::tunnels(ends, (owners, workers), stations, Links::new(links))
            }
        };
        // All held frames may be released at once.
        let holdable = config.pool.holdable() / u32::from(config.worker.count);
        let worker = Worker::new(Parts {
            rx,
            handoff,
            egress: Egress::new(lan, tx.collect(), (holdable + config::BACKLOG) as usize, tap),
            plane,
            pool: PoolHandle::new(&self.pool, io::RESERVE),
            clock: self.eal.clock(),
            idle: Idler::new(config.worker.idle, config.worker.count),
            stop,
            unfinished,
            drain_timeout: config.drain_timeout,
            published,
            events,
            settings,
            flows,
            records,
        });
        // The size of a burst is fixed where the code is compiled.
        Ok(match config.worker.burst {
            0..=16 => worker.run::<16>(),
            17..=32 => worker.run::<32>(),
            _ => worker.run::<64>(),
        })
    }

    /// Follows the workers until all have ended. One that ends by itself takes
    /// the others with it.
    fn supervise<T>(
        &self,
        Duties { notes, reloader, notifier }: &mut Duties<'_>,
        (state, stop): (&State, &AtomicBool),
        workers: &[ScopedJoinHandle<'_, T>],
        Ends { mut stations, links, mut events }: Ends,
        forwarder: &mut Forwarder<'_, Port>,
    ) {
        let clock = self.eal.clock();
        let mut watches: Vec<_> = workers.iter().map(|_| Watch::new(Instant::now())).collect();
        let mut stopping = false;
        let mut next_sample = Instant::now();
        let mut up = vec![None; self.ports.len()];
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            if workers.iter().any(ScopedJoinHandle::is_finished) {
                stop.store(true, Ordering::Relaxed);
            }
            if !stopping && stop.load(Ordering::Relaxed) {
                stopping = true;
                next_sample = Instant::now();
                tracing::info!("stopping; a second signal ends the process at once");
                notifier.stopping();
            }
            reloader.poll(state);
            if state.workers.iter().all(|worker| worker.beats() > 0) {
                notifier.ready();
            }
            let is_up = state.is_tunnel_up();
            stations.iter_mut().for_each(|station| station.poll(clock.now(), is_up));
            self.share_links(&links);
            forwarder.look(state, Instant::now());
            notes::workers(state, &mut events, clock.now());
            let now = Instant::now();
            if now >= next_sample {
                next_sample = now + SAMPLE;
                let each = watches.iter_mut().zip(&state.workers);
                let each = each.map(|(watch, published)| watch.look(published, now)).collect();
                let refused = state.strangers();
                let mut way = |station: &mut Station| station.way(clock.now(), refused);
                let ways = stations.iter_mut().map(&mut way).collect();
                let sample = self.sample(each, stopping, ways);
                notes::links(state, &mut up, &sample);
                if !stopping {
                    notes.look(state, &sample, now);
                }
                // A stuck worker trips the watchdog.
                if sample.workers.iter().all(|worker| !worker.stalled) {
                    notifier.alive();
                }
                state.put(sample);
            }
            thread::sleep(TICK);
        }
        if !stopping {
            // The workers were that quick.
            notifier.stopping();
        }
    }

    /// The MAC addresses of the WAN ports.
    fn wan_macs(&self) -> Vec<MacAddr> {
        self.ports.iter().skip(1).map(Port::mac).collect()
    }

    /// Tells the workers of the WAN ports' links, if there are several.
    fn share_links(&self, links: &links::Shared) {
        if self.ports.len() > 2 {
            for (id, port) in PortId::all(u8::MAX).zip(&self.ports).skip(1) {
                // What the driver does not say this time stays as it was.
                let Some(link) = port.known_link() else { continue };
                links.set(id.wan_port(), link.up.then(|| link.speed_mbps.unwrap_or(0)));
            }
        }
    }

    fn sample(&self, workers: Vec<WorkerHealth>, stopping: bool, ways: Vec<Way>) -> Sample {
        Sample {
            ports: self.ports.iter().map(Port::stats).collect(),
            up: self.ports.iter().map(|port| port.link().up).collect(),
            mbufs_free: self.pool.available(),
            mbufs: self.pool.size(),
            workers,
            stopping,
            ways,
        }
    }
}

/// The tunnels of worker `n`; none without a tunnel.
fn tunnels_of(config: &Config, n: WorkerId) -> impl Iterator<Item = Part> {
    let is_there = config.tunnel.mode != TunnelMode::Off;
    let all = division(config).parts().filter(move |_| is_there);
    all.skip(n.0.into()).step_by(config.worker.count.into())
}
