//! Mbufs and memory that a configuration takes, and the statement of both that `--check` prints.
//!
//! Each frame that a pool holds pins an mbuf. Rings, queues and caches need mbufs besides the
//! pools, so only the rest is divided among the pools: an empty mempool would stop
//! reception, and with it the ACKs that release held frames.

use std::fmt::{self, Write};

use common::fair_queue::FairQueue;
use common::recorder::Recorder;
pub use settings::sizing::{BACKLOG, HANDOFF};
use settings::sizing::{
    DPDK_OVERHEAD, FRAME_OVERHEAD, HUGE_PAGE, PAGE, mbuf_size, mbufs_at_work, pmtu, pool_memory,
    pools_fit,
};
use settings::units::show_size;
use switch::{Footprint, Pools};

use super::check::packet_ring;
use super::fit::{mib, show_pages};
use super::machine::Machine;
use super::{Config, HugePages, LanMode, Pairs, Pool, Recovery, TunnelMode};

/// Memory of an end of a tunnel, bytes: flow buckets and bitmaps; for each frame that is kept to be resent; for each frame that
/// waits for an earlier one; and, allocated at the start, for each frame that could wait if a reload gave the reordering
/// pool the memory of all pools.
const TUNNEL: u64 = 2 << 20;
const KEPT: u64 = 32;
const WAITING: u64 = 136;
const WAITING_ROOM: u64 = 8;

/// Egress queues of each port, at each worker: one for each class.
const CLASSES: u64 = 2;

impl Config {
    /// Bytes of the pools that the role and the mode use.
    fn pool_bytes(&self) -> Pools {
        match self.tunnel.mode {
            TunnelMode::Off => self.recovery.pools.used(self.role, self.recovery.mode),
            TunnelMode::Ethernet | TunnelMode::Udp if self.recovery.lan == LanMode::Off => {
                Pools { backup_pool: 0, ..self.recovery.pools }
            }
            TunnelMode::Ethernet | TunnelMode::Udp => self.recovery.pools,
        }
    }

    /// Frames that each pool may hold, over all workers.
    pub(crate) fn pool_frames(&self) -> Pools {
        self.pool_bytes().divide(self.pool.holdable())
    }

    /// The same of each [part](Config::parts).
    pub(crate) fn pool_frames_of_part(&self) -> Pools {
        let (all, parts) = (self.pool_frames(), u64::from(self.parts()));
        Pools {
            resend_cache: all.resend_cache / parts,
            reorder_pool: all.reorder_pool / parts,
            backup_pool: all.backup_pool / parts,
        }
    }

    /// Mbufs of rings, queues and caches, by use.
    fn mbufs_at_work(&self) -> [(u32, &'static str); 4] {
        let descriptors = self.ports().map(|(_, p)| u32::from(p.rx_desc) + u32::from(p.tx_desc));
        mbufs_at_work(self.worker.count.into(), self.ports().count() as u32, descriptors.sum())
    }

    /// Mbufs that the pools take at the largest path MTU, and the bytes of the pools.
    fn mbufs_to_hold(&self) -> (u64, u64) {
        let bytes = self.pool_bytes().sum();
        (bytes.div_ceil(self.pmtu()), bytes)
    }

    /// The largest path MTU of the ports, bytes.
    fn pmtu(&self) -> u64 {
        pmtu(self.longest_mtu())
    }

    /// The largest MTU of all ports, bytes.
    pub(super) fn longest_mtu(&self) -> u16 {
        self.ports().map(|(_, port)| port.mtu).max().unwrap_or_default()
    }

    /// Memory of DPDK in pages of `page` bytes, with the pools of the pairs before this one.
    pub(super) fn dpdk_memory(&self, page: u64) -> u64 {
        self.pools_memory(page).saturating_add(DPDK_OVERHEAD)
    }

    /// Memory of the flows, the slots and the egress queues of all workers, bytes at most, in
    /// ordinary pages.
    pub(super) fn own_process_memory(&self) -> u64 {
        let (workers, footprint) = (u64::from(self.worker.count), Footprint::of_handles());
        let (parts, frames) = (u64::from(self.parts()), self.pool_frames_of_part());
        let flows = u64::from(self.worker.max_flows).div_ceil(parts);
        let plane = match self.tunnel.mode {
            TunnelMode::Off => footprint.full(self.role, self.recovery.mode, flows, &frames),
            TunnelMode::Ethernet | TunnelMode::Udp => {
                let lan = match self.recovery.lan {
                    LanMode::Off => 0,
                    LanMode::On | LanMode::Auto => {
                        let frames = Pools { resend_cache: 0, ..frames };
                        footprint.full(self.role, Recovery::Lr2, flows, &frames)
                    }
                };
                let room = u64::from(self.pool.holdable()) / parts * WAITING_ROOM;
                let waiting = room + frames.reorder_pool * WAITING;
                TUNNEL + frames.resend_cache * KEPT + waiting + lan
            }
        };
        let queue = u64::from(self.pool.holdable()) / workers + u64::from(BACKLOG);
        let fair = FairQueue::<()>::OVERHEAD as u64;
        let handles = CLASSES * self.ports().count() as u64 * footprint.handle as u64;
        // With a tunnel and repair of the LANs there are two.
        let recorders = match self.recovery.lan {
            LanMode::On | LanMode::Auto if self.tunnel.mode != TunnelMode::Off => 2,
            LanMode::Off | LanMode::On | LanMode::Auto => 1,
        };
        let recorders = recorders * Recorder::memory(self.records as usize) as u64;
        parts * (plane + recorders) + workers * queue * (handles + fair)
    }

    /// The pages of DPDK's memory, bytes; hugepages under `"auto"`, since their number depends on
    /// the machine.
    pub(super) fn page(&self) -> u64 {
        if self.eal.huge_pages == HugePages::Never { PAGE } else { HUGE_PAGE }
    }

    /// If the mempool does not fit into `eal.memory` in pages of `page` bytes: found and allowed.
    pub(super) fn memory_shortage(&self, page: u64) -> Option<(String, String)> {
        let (pools, memory) = (self.pools(), self.eal.memory);
        let fits = |memory| pools_fit(&pools, page, memory);
        if fits(memory) {
            return None;
        }
        const MIB: u64 = 1 << 20;
        let from = self.dpdk_memory(page).div_ceil(MIB);
        // Twice as much is always enough.
        let least = (from..2 * from).find(|mib| fits(mib * MIB)).unwrap_or(2 * from);
        let pages = if page == PAGE { "ordinary pages" } else { "hugepages" };
        let each = pools
            .iter()
            .map(|(mbufs, room)| format!("{mbufs} mbufs of {} bytes", mbuf_size(*room)));
        let found = format!(
            "{} in {pages}, and DPDK itself, in eal.memory = {}",
            each.collect::<Vec<_>>().join(" and "),
            show_size(memory)
        );
        let allowed = format!(
            "eal.memory of at least {least}MiB, or fewer mbufs (smaller recovery.resend_cache, \
             recovery.reorder_pool, recovery.backup_pool or mtu)"
        );
        Some((found, allowed))
    }

    /// If `pool.mbufs` is too small for the pools: found and allowed.
    pub(super) fn mbuf_shortage(&self) -> Option<(String, String)> {
        let (Pool { mbufs, in_flight, .. }, (held, bytes)) = (self.pool, self.mbufs_to_hold());
        let least = u64::from(in_flight) + held;
        (u64::from(mbufs) < least).then(|| {
            let allowed = format!(
                "at least {least}: {in_flight} for rings, queues and caches, {held} to hold {} in \
                 frames of {} bytes (recovery.resend_cache, recovery.reorder_pool, \
                 recovery.backup_pool)",
                show_size(bytes),
                self.pmtu()
            );
            (mbufs.to_string(), allowed)
        })
    }

    /// Fills in the defaults of the mempool.
    pub(super) fn size_pool(&mut self) {
        let Pool { mbufs, data_room, .. } = self.pool;
        let in_flight = self.mbufs_at_work().iter().map(|(mbufs, _)| mbufs).sum();
        let held = u32::try_from(self.mbufs_to_hold().0).unwrap_or(u32::MAX);
        let ring = self.ports().filter_map(|(_, port)| packet_ring(port)).max().unwrap_or(0);
        let frame = u64::from(self.longest_mtu() + FRAME_OVERHEAD).max(ring);
        self.pool = Pool {
            mbufs: if mbufs == 0 { held.saturating_add(in_flight) } else { mbufs },
            data_room: if data_room == 0 {
                u16::try_from(frame).unwrap_or(u16::MAX)
            } else {
                data_room
            },
            in_flight,
        };
    }
}

/// Mbufs and memory of a configuration, as comments of TOML.
pub struct Statement<'a> {
    /// The configuration.
    pub pairs: &'a Pairs,
    /// The machine on which the gateway will run, if it is known.
    pub machine: Option<&'a Machine>,
}

impl fmt::Display for Statement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text().map_err(|_| fmt::Error)?;
        text.lines().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))
    }
}

/// The mbufs of a pair of ports, by use.
fn mbufs(config: &Config, out: &mut String) -> fmt::Result {
    let Config { pool, recovery, .. } = config;
    let (size, frame) = (mbuf_size(pool.data_room), pool.data_room);
    writeln!(out, "{} mbufs of {size} bytes, each for a frame of up to {frame}:", pool.mbufs)?;
    for (mbufs, usage) in config.mbufs_at_work() {
        writeln!(out, "{mbufs:>10}  {usage}")?;
    }
    let (frames, bytes) = (config.pool_frames(), recovery.pools);
    for (frames, name, bytes) in [
        (frames.resend_cache, "resend_cache", bytes.resend_cache),
        (frames.reorder_pool, "reorder_pool", bytes.reorder_pool),
        (frames.backup_pool, "backup_pool", bytes.backup_pool),
    ] {
        if frames > 0 {
            writeln!(out, "{frames:>10}  {name}, {}", show_size(bytes))?;
        }
    }
    Ok(())
}

impl Statement<'_> {
    fn text(&self) -> Result<String, fmt::Error> {
        let all = self.pairs.last();
        let eal = &all.eal;
        let mut out = String::from("Memory that it takes (docs/guide/size.md)\n\n");
        for config in self.pairs.iter() {
            if let Some(name) = config.pair.label() {
                let node = self.machine.and_then(|machine| config.numa_node(machine));
                let node = node.map_or(String::new(), |node| format!(", NUMA node {node}"));
                let cpus = match &*config.eal.cores {
                    [] => "any CPU".into(),
                    cores => format!("CPU {cores:?}"),
                };
                let workers = config.worker.count;
                writeln!(out, "pair {name}: {workers} worker(s) on {cpus}{node}")?;
            }
            mbufs(config, &mut out)?;
            if config.pair.label().is_some() {
                let pool =
                    mib(pool_memory(config.pool.mbufs.into(), config.pool.data_room, all.page()));
                let process = mib(config.own_process_memory());
                writeln!(out, "{pool} for its mbufs, {process} besides at most\n")?;
            }
        }
        let (dpdk, memory) = (mib(all.dpdk_memory(all.page())), eal.memory);
        let huge = if eal.huge_pages == HugePages::Never {
            "ordinary pages".into()
        } else {
            let [small, large] = [HUGE_PAGE, 1 << 30].map(|page| memory.div_ceil(page));
            format!("hugepages, {small} of 2MiB or {large} of 1GiB")
        };
        if all.pair.label().is_none() {
            out.push('\n');
        }
        writeln!(out, "{dpdk} for DPDK, of eal.memory = {} in {huge}", show_size(memory))?;
        let process = mib(all.process_memory());
        let flows: u64 = self.pairs.iter().map(|it| u64::from(it.worker.max_flows)).sum();
        writeln!(out, "{process} besides at most, for {flows} flows and packets in flight")?;
        if let Some(machine) = self.machine {
            let (memory, free) = (mib(machine.memory), show_pages(&machine.pages));
            writeln!(out, "this machine: {memory} of memory; free: {free}")?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::tests::{good, lab};
    use super::super::{Machine, Pages, Refusal, alone as parse, port_pairs};
    use super::*;

    const GIB: u64 = 1 << 30;

    fn repository(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
    }

    fn machine(hugepages: u64) -> Machine {
        let pages = vec![Pages { size: GIB, total: hugepages, free: hugepages }];
        let available = (62 - hugepages) * GIB;
        Machine { memory: 64 * GIB, available, pages, cpus: (0..8).collect(), ..Default::default() }
    }

    fn example(machine: &Machine) -> Result<Pairs, Refusal> {
        let text = std::fs::read_to_string(repository("configs/long-haul-100g.toml")).unwrap();
        let text = text.replace("key_file = \"/etc/lr2/key\"", "lab_unkeyed = true");
        port_pairs::read(Path::new("long-haul-100g.toml"), &text, None, Some(machine))
    }

    /// docs/guide/size.md shows the statement.
    #[test]
    fn the_manual_shows_the_example_as_it_is() {
        let pairs = example(&machine(2)).unwrap_or_else(|refusal| panic!("{}", refusal.report));
        assert_eq!(
            pairs.warnings().len(),
            1,
            "no more than the missing key: {:?}",
            pairs.warnings()
        );
        let statement = Statement { pairs: &pairs, machine: None }.to_string();
        let manual = std::fs::read_to_string(repository("docs/guide/size.md")).unwrap();
        assert!(statement.lines().all(|line| line.starts_with('#')), "{statement}");
        assert!(manual.contains(&statement), "docs/guide/size.md lacks\n{statement}");
        let here = Statement { pairs: &pairs, machine: Some(&machine(2)) }.to_string();
        assert!(here.contains("\n# this machine: 65536 MiB of memory; free: 2 pages of 1GiB\n"));
        let refusal = example(&machine(1)).expect_err("one page is not enough");
        assert!(refusal.unfit.is_some());
    }

    #[test]
    fn mbufs_add_up() {
        for more in ["", "role = \"sentry\"\n", "role = \"depot\"\n"] {
            let config = good(&format!("{more}{}", lab("[pool]\nmbufs = 50000\n")));
            let sum = u64::from(config.pool.in_flight) + config.pool_frames().sum();
            assert!((49_998..=50_000).contains(&sum), "{sum}: at most two remain by rounding");
            let mut statement = String::new();
            mbufs(&config, &mut statement).unwrap();
            let sizes =
                statement.lines().skip(1).map(|line| line.trim().split(' ').next().unwrap());
            assert_eq!(sizes.map(|size| size.parse::<u64>().unwrap()).sum::<u64>(), sum);
        }
    }

    #[test]
    fn the_least_memory_is_enough_and_a_mebibyte_less_is_not() {
        let config = |memory: &str| {
            let text = lab(&format!("[eal]\nmemory = \"{memory}\"\n"));
            parse(Path::new("gw.toml"), &text, None, None)
        };
        let line = config("64MiB").unwrap_err().report.to_string();
        let (_, least) = line.split_once("at least ").unwrap();
        let least: u64 = least.split_once("MiB").unwrap().0.parse().unwrap();
        assert!(config(&format!("{least}MiB")).is_ok());
        assert!(config(&format!("{}MiB", least - 1)).is_err());
    }
}
