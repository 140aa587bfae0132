//! Opens the pool and the ports of a pair, and tries again those that could not be opened.

use dpdk_sys_wrapper::{Eal, Error, Mempool, PoolConfig, Port, RxQueue, TxQueue};

use super::pair::{Pair, Queues};
use super::ports::{deal, open_port};
use crate::config::{Config, Machine};
use crate::port::PortId;

/// mbufs that each worker keeps for itself.
const MEMPOOL_CACHE: u32 = 256;

/// Why a pair can't be opened.
#[derive(Debug)]
pub(super) struct Fault {
    /// In one line: every port that can't be opened.
    pub text: String,
    /// Another try can't succeed in this process.
    pub is_final: bool,
}

/// A port and its queues.
type Opened = (Port, Vec<RxQueue>, Vec<TxQueue>);

/// A port that is to be opened.
#[derive(Default)]
struct Attempt {
    opened: Option<Opened>,
    has_failed: bool,
    /// It is open, with its link down.
    is_down: bool,
}

/// The resources of a pair that is not complete yet.
#[derive(Default)]
pub(super) struct Opening {
    /// By [`PortId::index`]. They are closed before the pool.
    attempts: Vec<Attempt>,
    pool: Option<Mempool>,
}

impl Opening {
    /// Makes the pool and opens the ports that are not open yet. The pool is at the NUMA node of the ports, if that is known and
    /// has enough hugepages.
    ///
    /// If one port can't be opened, the others are closed: a neighbour that sees a link up sends frames, which would be lost.
    /// DPDK can't open a PCI port a second time, so a PCI port stays open with its link down.
    pub(super) fn attempt(
        &mut self,
        eal: &Eal,
        config: &Config,
        machine: &Machine,
    ) -> Result<(Pair, Vec<Queues>), Fault> {
        let pool = match self.pool.take() {
            Some(pool) => pool,
            None => pool(eal, config, machine)
                .map_err(|error| Fault { text: format!("{error:#}"), is_final: false })?,
        };
        self.pool = Some(pool.clone());
        let ports: Vec<_> = PortId::all(u8::MAX).zip(config.ports()).collect();
        self.attempts.resize_with(ports.len(), Attempt::default);
        // Those that have failed come first. As long as they fail, the others are left alone.
        for has_failed in [true, false] {
            let mut faults = Vec::new();
            let mut is_final = false;
            for ((id, (section, port)), attempt) in ports.iter().zip(&mut self.attempts) {
                if attempt.opened.is_some() || attempt.has_failed != has_failed {
                    continue;
                }
                match open_port(eal, (*id, section), port, config, &pool) {
                    Ok(opened) => attempt.opened = Some(opened),
                    Err(fault) => {
                        let is_absent =
                            matches!(fault.downcast_ref(), Some(Error::NoDevice { .. }));
                        is_final |= port.is_pci() && !is_absent;
                        faults.push((*id, format!("{fault:#}")));
                    }
                }
            }
            if !faults.is_empty() {
                for ((id, (_, port)), attempt) in ports.iter().zip(&mut self.attempts) {
                    attempt.has_failed = faults.iter().any(|(failed, _)| failed == id);
                    attempt.close(port.is_pci());
                }
                let lines: Vec<_> = faults.into_iter().map(|(_, fault)| fault).collect();
                return Err(Fault { text: lines.join("; "), is_final });
            }
        }
        let mut queues: Vec<_> = (0..config.worker.count).map(|_| Queues::default()).collect();
        let mut opened = Vec::new();
        for ((id, _), attempt) in ports.iter().zip(self.attempts.drain(..)) {
            let Some((port, rx, tx)) = attempt.opened else { continue };
            if attempt.is_down {
                // The driver could take it down, and so can release it.
                let _ = port.set_link(true);
            }
            deal(&mut queues, *id, rx, tx);
            opened.push(port);
        }
        Ok((Pair { ports: opened, pool }, queues))
    }
}

impl Drop for Opening {
    /// Sets the links up again that [`Attempt::close`] took down: the kernel or another program may use the ports next.
    fn drop(&mut self) {
        for attempt in self.attempts.iter().filter(|attempt| attempt.is_down) {
            if let Some((port, ..)) = &attempt.opened {
                let _ = port.set_link(true);
            }
        }
    }
}

impl Attempt {
    /// Closes the port, or takes its link down.
    fn close(&mut self, is_pci: bool) {
        match &self.opened {
            // Not all drivers can: then it stays up.
            Some((port, ..)) if is_pci => self.is_down |= port.set_link(false).is_ok(),
            _ => self.opened = None,
        }
    }
}

/// The mempool of a pair.
fn pool(eal: &Eal, config: &Config, machine: &Machine) -> anyhow::Result<Mempool> {
    let made = make_pool(eal, config, machine)?;
    tracing::info!(
        "{} mbufs of {} bytes, of which recovery may hold {}; {} hugepages",
        config.pool.mbufs,
        config.pool.data_room,
        config.pool.holdable(),
        if eal.uses_hugepages() { "with" } else { "without" }
    );
    Ok(made)
}

fn make_pool(eal: &Eal, config: &Config, machine: &Machine) -> anyhow::Result<Mempool> {
    let name = match config.pair.n {
        0 => "frames".to_owned(),
        n => format!("frames{n}"),
    };
    let pool = PoolConfig {
        name,
        mbufs: config.pool.mbufs,
        cache: MEMPOOL_CACHE,
        data_room: config.pool.data_room,
        numa_node: config.numa_node(machine),
    };
    match (Mempool::new(eal, &pool), pool.numa_node) {
        (Ok(made), Some(node)) => {
            // Ordinary pages are wherever the kernel puts them.
            if eal.uses_hugepages() {
                tracing::info!("the mbufs are at NUMA node {node}, as the ports are");
            }
            Ok(made)
        }
        (Err(error), Some(node)) => {
            // The node's hugepages may be too few; those of another one are slower, and better than none.
            let made = Mempool::new(eal, &PoolConfig { numa_node: None, ..pool })?;
            tracing::warn!(
                "the mbufs are not at NUMA node {node}, where the ports are, which costs speed: {error}; \
                 /sys/devices/system/node/node{node}/hugepages is for hugepages of the node"
            );
            Ok(made)
        }
        (made, None) => Ok(made?),
    }
}
