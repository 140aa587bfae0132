//! The resources of one pair of ports, and its workers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use common::ids::{BootId, WorkerId};
use common::wire::MacAddr;
use dpdk_sys_wrapper::{Eal, LcoreGuard, Mbuf, Mempool, PoolHandle, Port, RxQueue, TxQueue};
use rtrb::Consumer;
use tunnel::Part;

use crate::config::{self, Config, TunnelMode};
use crate::control::station::Way;
use crate::control::{Sample, WorkerHealth};
use crate::port::PortId;
use crate::reload::Change;
use crate::shares::{division, lan_repair, owners, switch_config, tunnel_config};
use crate::telemetry::Published;
use crate::worker::capture::Tap;
use crate::worker::egress::Egress;
use crate::worker::events::Watch as EventWatch;
use crate::worker::handoff::Handoff;
use crate::worker::idle::{Idler, sharpen_timers};
use crate::worker::links::{self, Links};
use crate::worker::plane::Plane;
use crate::worker::station::WorkerEnd;
use crate::worker::{Ended, Parts, Unfinished, Worker, flows, io, records};

/// The queues of one worker, by [`PortId::index`]. A port that has fewer receive queues
/// than there are workers leaves some without.
#[derive(Default)]
pub(super) struct Queues {
    pub rx: Vec<Option<RxQueue>>,
    pub tx: Vec<TxQueue>,
}

/// A worker's part of the shared resources.
pub(super) struct Place {
    pub n: WorkerId,
    pub queues: Queues,
    pub handoff: Handoff<Mbuf>,
    pub stop: Arc<AtomicBool>,
    pub unfinished: Unfinished,
    pub published: Arc<Published>,
    /// The ways to the stations of the WAN ports.
    pub stations: Vec<WorkerEnd>,
    pub links: Arc<links::Shared>,
    pub events: EventWatch,
    pub settings: Consumer<Change>,
    pub flows: flows::Lister,
    pub records: records::Lister,
    pub tap: Tap,
}

/// The ports and the pool of a pair. Fields are dropped in this order; the EAL ends after them.
pub(super) struct Pair {
    /// By [`PortId::index`].
    pub ports: Vec<Port>,
    pub pool: Mempool,
}

impl Pair {
    /// One worker, in its own thread.
    pub(super) fn one(
        &self,
        eal: &Eal,
        config: &Config,
        boot: BootId,
        place: Place,
    ) -> anyhow::Result<Ended> {
        // Dropped last: the mbufs of the worker go back through the cache
        // that its thread has as long as it is registered.
        let lcore = LcoreGuard::register(eal)?;
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
            clock: eal.clock(),
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

    /// The MAC addresses of the WAN ports.
    pub(super) fn wan_macs(&self) -> Vec<MacAddr> {
        self.ports.iter().skip(1).map(Port::mac).collect()
    }

    /// Tells the workers of the WAN ports' links, if there are several.
    pub(super) fn share_links(&self, links: &links::Shared) {
        if self.ports.len() > 2 {
            for (id, port) in PortId::all(u8::MAX).zip(&self.ports).skip(1) {
                // If the driver can't tell now, the workers keep the last known state of the link.
                let Some(link) = port.known_link() else { continue };
                links.set(id.wan_port(), link.up.then(|| link.speed_mbps.unwrap_or(0)));
            }
        }
    }

    pub(super) fn sample(
        &self,
        workers: Vec<WorkerHealth>,
        stopping: bool,
        ways: Vec<Way>,
    ) -> Sample {
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
pub(super) fn tunnels_of(config: &Config, n: WorkerId) -> impl Iterator<Item = Part> {
    let is_there = config.tunnel.mode != TunnelMode::Off;
    let all = division(config).parts().filter(move |_| is_there);
    all.skip(n.0.into()).step_by(config.worker.count.into())
}
