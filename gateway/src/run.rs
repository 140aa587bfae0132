//! The life of the process: from a configuration to ports, a worker and a
//! control thread, and back in the right order.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use common::control::Keys;
use common::frame::Side;
use common::wire::Opcode;
use dpdk_sys_wrapper::{
    Clock, Eal, EalConfig, Huge, LcoreGuard, Mempool, PoolConfig, PoolHandle, Port, PortConfig,
    RxQueue, TxQueue,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use switch::{Switch, Tuning};

use crate::config::{self, Config, HugePages, Keying, ROLES, word};
use crate::control::{PortStats, Sample, State, Watch, server, side_name};
use crate::worker::egress::Egress;
use crate::worker::idle::{Idler, sharpen_timers};
use crate::worker::{Ended, Order, Parts, Worker, io};

/// Time between two looks at signals and at the worker's end.
const TICK: Duration = Duration::from_millis(20);

/// Time between two samples of ports and pool.
const SAMPLE: Duration = Duration::from_millis(500);

/// mbufs that the worker keeps for itself.
const MEMPOOL_CACHE: u32 = 256;

/// Runs the gateway until a signal ends it.
///
/// # Errors
/// In one line: what could not be had at the start, and how to get it.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let state = Arc::new(State::new(word(ROLES, &config.role)));
    server::spawn(server::bind(config.listen)?, Arc::clone(&state))?;
    tracing::info!("metrics at http://{}/metrics", config.listen);

    let (machine, queues) = Machine::open(config)?;
    let ended = machine.work(config, queues, &state, &stop)?;
    machine.close();
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

/// A port's queues.
type Queues = (RxQueue, TxQueue);

/// What DPDK gave us. Fields are dropped in this order: ports, pool, EAL.
struct Machine {
    ports: [Port; 2],
    pool: Mempool,
    eal: Eal,
}

impl Machine {
    fn open(config: &Config) -> anyhow::Result<(Self, [Queues; 2])> {
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
        let (lan, lan_queues) = open_port(&eal, Side::Lan, &config.lan, &pool)?;
        let (wan, wan_queues) = open_port(&eal, Side::Wan, &config.wan, &pool)?;
        Ok((Self { ports: [lan, wan], pool, eal }, [lan_queues, wan_queues]))
    }

    /// Runs the worker in a thread of its own and watches it until it ends.
    fn work(
        &self,
        config: &Config,
        [(lan_rx, lan_tx), (wan_rx, wan_tx)]: [Queues; 2],
        state: &State,
        stop: &AtomicBool,
    ) -> anyhow::Result<Ended> {
        let (orders, taker) = rtrb::RingBuffer::new(16);
        let switch = switch_config(config)?;
        let published = Arc::clone(&state.worker);
        // All that recovery holds may be let go at once.
        let limit = (config.pool.holdable() + config::BACKLOG) as usize;
        thread::scope(|scope| {
            let body = move || -> anyhow::Result<Ended> {
                // Dropped last: the mbufs of the worker go back through the
                // cache that its thread has as long as it is registered.
                let lcore = LcoreGuard::register(&self.eal)?;
                if let Some(&cpu) = config.eal.cores.first() {
                    lcore.pin(cpu)?;
                }
                sharpen_timers();
                let worker = Worker::new(Parts {
                    rx: [lan_rx, wan_rx],
                    egress: Egress::new(lan_tx, wan_tx, limit),
                    switch: Switch::new(switch),
                    pool: PoolHandle::new(&self.pool, io::RESERVE),
                    clock: Clock::tsc(&self.eal),
                    idle: Idler::new(config.worker.idle),
                    orders: taker,
                    published,
                });
                // The size of a burst is fixed where the code is compiled.
                Ok(match config.worker.burst {
                    0..=16 => worker.run::<16>(),
                    17..=32 => worker.run::<32>(),
                    _ => worker.run::<64>(),
                })
            };
            let worker = thread::Builder::new()
                .name("worker-0".into())
                .spawn_scoped(scope, body)
                .context("can't start the worker")?;
            tracing::info!(
                "forwarding: role {}, recovery {}, node {:#010x}, worker {}{}",
                word(ROLES, &config.role),
                word(config::RECOVERIES, &config.recovery.mode),
                config.peer.node,
                word(config::IDLES, &config.worker.idle),
                config.eal.cores.first().map(|c| format!(" on CPU {c}")).unwrap_or_default(),
            );
            self.supervise(config, state, stop, &worker, orders);
            worker.join().map_err(|_| anyhow!("the worker panicked"))?
        })
    }

    fn supervise<T>(
        &self,
        config: &Config,
        state: &State,
        stop: &AtomicBool,
        worker: &ScopedJoinHandle<'_, T>,
        mut orders: rtrb::Producer<Order>,
    ) {
        let mut watch = Watch::new(Instant::now());
        let mut stopping = false;
        let mut next_sample = Instant::now();
        let mut up = [None; 2];
        while !worker.is_finished() {
            if !stopping && stop.load(Ordering::Relaxed) {
                // A full ring is tried again at the next tick.
                stopping = orders.push(Order::Stop(config.drain_timeout)).is_ok();
                next_sample = Instant::now();
                tracing::info!("stopping; a second signal ends the process at once");
            }
            let now = Instant::now();
            if now >= next_sample {
                next_sample = now + SAMPLE;
                let (stalled, busy_ratio) = watch.look(&state.worker, now);
                let sample = self.sample(stalled, busy_ratio, stopping);
                log_links(&mut up, &sample);
                state.put(sample);
            }
            thread::sleep(TICK);
        }
    }

    fn sample(&self, stalled: bool, busy_ratio: f64, stopping: bool) -> Sample {
        let ports = self.ports.each_ref().map(|port| {
            let stats = port.stats();
            PortStats {
                missed: stats.rx_missed,
                rx_errors: stats.rx_errors,
                tx_errors: stats.tx_errors,
                no_mbuf: stats.rx_no_mbuf,
                up: port.link().up,
            }
        });
        Sample {
            ports,
            mbufs_free: self.pool.available(),
            mbufs: self.pool.size(),
            busy_ratio,
            stalled,
            stopping,
        }
    }

    /// Ends in the order that DPDK needs. The worker, its frames and its
    /// queues are gone already.
    fn close(self) {
        let Self { ports, pool, eal } = self;
        drop(ports);
        drop(pool);
        drop(eal);
    }
}

fn log_links(up: &mut [Option<bool>; 2], sample: &Sample) {
    for side in [Side::Lan, Side::Wan] {
        let now = sample.ports[side.index()].up;
        if up[side.index()].replace(now) != Some(now) {
            tracing::info!("port {} is {}", side_name(side), if now { "up" } else { "down" });
        }
    }
}

fn eal_config(config: &Config) -> EalConfig {
    let pci = |port: &config::Port| port.is_pci().then(|| port.device.clone());
    EalConfig {
        program: "lr2-gateway".into(),
        huge: match config.eal.huge_pages {
            HugePages::Auto => Huge::Auto,
            HugePages::Never => Huge::Never,
            HugePages::Require => Huge::Require,
        },
        memory_mib: u32::try_from(config.eal.memory >> 20).unwrap_or(u32::MAX),
        file_prefix: config.eal.file_prefix.clone(),
        // The worker pins itself; this thread and the control thread must not
        // run on its core.
        cores: Vec::new(),
        pci_allow: [&config.lan, &config.wan].into_iter().filter_map(pci).collect(),
        vdevs: Vec::new(),
        extra: config.eal.extra.clone(),
    }
}

fn open_port(
    eal: &Eal,
    side: Side,
    port: &config::Port,
    pool: &Mempool,
) -> anyhow::Result<(Port, Queues)> {
    let name = side_name(side);
    let config = PortConfig {
        device: port.device.clone(),
        mtu: port.mtu,
        rx_queues: 1,
        tx_queues: 1,
        rx_desc: port.rx_desc,
        tx_desc: port.tx_desc,
        promiscuous: port.promiscuous,
    };
    let (opened, mut rx, mut tx) =
        Port::open(eal, &config, pool).with_context(|| format!("{name}.device"))?;
    let mac = opened.mac().map(|b| format!("{b:02x}")).join(":");
    tracing::info!(
        "port {name}: {} ({}), MAC {mac}, MTU {}",
        opened.name(),
        opened.driver(),
        port.mtu
    );
    match (rx.pop(), tx.pop()) {
        (Some(rx), Some(tx)) => Ok((opened, (rx, tx))),
        _ => bail!("{name}.device: the port came without queues"),
    }
}

fn switch_config(config: &Config) -> anyhow::Result<switch::Config> {
    let keys = match &config.peer.keying {
        Keying::Shared { current, previous, .. } => {
            let keys = Keys::from_secret(current.bytes());
            match previous {
                Some((_, previous)) => keys.also_accepting(previous.bytes()),
                None => keys,
            }
        }
        Keying::LabUnkeyed => Keys::unkeyed_lab(),
    };
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the system clock is before 1970; peers take this box for a stale one")?;
    let recovery = &config.recovery;
    let frames = holdable_shares(config);
    Ok(switch::Config {
        role: config.role,
        recovery: recovery.mode,
        node: config.peer.node,
        boot: u64::try_from(since_epoch.as_nanos())?,
        keys,
        control_opcode: Opcode(config.peer.control_opcode),
        // Keys of the standard library's hash maps come from the OS.
        hash_seed: RandomState::new().build_hasher().finish(),
        max_flows: config.worker.max_flows as usize,
        reorder_pool_bytes: recovery.reorder_pool,
        reorder_pool_frames: frames.reorder_pool,
        resend_cache_bytes: recovery.resend_cache,
        resend_cache_frames: frames.resend_cache,
        backup_pool_bytes: recovery.backup_pool,
        backup_pool_frames: frames.backup_pool,
        local_retries: recovery.local_retries,
        playout: recovery.playout,
        remote_prefixes: config.peer.remote_prefixes.clone(),
        queue_pairs: config.queue_pairs.clone(),
        flow_idle: FLOW_IDLE,
        tuning: Tuning {
            rtt_guess: recovery.rtt_guess,
            tail_timeout: recovery.tail_timeout,
            status_interval: recovery.status_interval,
            peer_timeout: recovery.peer_timeout,
            give_up: recovery.give_up,
            t_out: recovery.t_out,
        },
    })
}

/// Mbufs that each pool may pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shares {
    resend_cache: u64,
    reorder_pool: u64,
    backup_pool: u64,
}

/// The mbufs that nothing else in the box needs, divided among the pools as
/// their bytes are.
fn holdable_shares(config: &Config) -> Shares {
    let bytes = |used: bool, bytes: u64| if used { u128::from(bytes) } else { 0 };
    let recovery = &config.recovery;
    let cache = bytes(config.role.is_sentry(), recovery.resend_cache);
    let reorder = bytes(config.role.is_depot(), recovery.reorder_pool);
    let backup = bytes(config.role.is_depot(), recovery.backup_pool);
    let all = (cache + reorder + backup).max(1);
    let holdable = config.pool.holdable();
    // Each is at most `holdable`, which is a u32.
    let share = |part| u64::try_from(u128::from(holdable) * part / all).unwrap_or(0);
    Shares { resend_cache: share(cache), reorder_pool: share(reorder), backup_pool: share(backup) }
}

/// Silence after which a flow's entry is forgotten.
const FLOW_IDLE: common::time::Span = common::time::Span::from_millis(60_000);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use switch::Role;

    use super::*;

    #[test]
    fn the_mbufs_that_are_free_to_hold_are_divided_as_the_bytes_are() {
        let text = "[lan]\ndevice = \"net_null0\"\n[wan]\ndevice = \"net_null1\"\n\
                    [peer]\nlab_unkeyed = true\n[recovery]\nresend_cache = \"32MiB\"\n\
                    reorder_pool = \"64MiB\"\nbackup_pool = \"16MiB\"\n";
        for (role, resend_cache, reorder_pool, backup_pool) in [
            (Role::Sentry, 8192, 0, 0),
            (Role::Depot, 0, 16384, 4096),
            (Role::Both, 8192, 16384, 4096),
        ] {
            let config = config::parse(Path::new("gw.toml"), text, Some(role)).unwrap();
            let expected = Shares { resend_cache, reorder_pool, backup_pool };
            assert_eq!(holdable_shares(&config), expected, "{role:?}");
        }
    }
}
