//! The use of DPDK by both programs: start it, size the memory, open a port.

use std::ops::RangeInclusive;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use dpdk_sys_wrapper::{
    Eal, EalConfig, Huge, Mempool, PoolConfig, Port, PortConfig, RxQueue, TxQueue, allowed_cpus,
    cpu_ranges,
};

use settings::device::is_virtual;
use settings::sizing::{DPDK_OVERHEAD, HUGE_PAGE, PAGE, pool_fits, pool_memory};
use settings::units;

/// Frames per burst.
pub const BURST: usize = 32;
/// Descriptors of a ring: at 1 Gbit/s and 4 KiB that is 34 ms, for which a
/// program may lose its CPU without losing frames.
pub const RING: u16 = 1024;
/// mbufs that a loop may have in its hands or its cache, rings aside.
pub const SLACK: u64 = 1024;

/// MTUs of a port, as of a gateway's.
const MTUS: RangeInclusive<i64> = 576..=9600;
/// The least memory that DPDK gets along with.
const MEMORY_MIN: u64 = 16 << 20;

/// Bytes of a frame beyond the MTU: Ethernet header and two VLAN tags.
const L2_HEADERS: u16 = 14 + 2 * 4;
/// Options for DPDK.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "DPDK")]
pub struct DpdkOptions {
    /// Name that keeps this program apart from other DPDK programs [default: program and process id]
    #[arg(long, value_name = "NAME", value_parser = prefix)]
    pub file_prefix: Option<String>,
    /// Memory for frames and rings [default: computed from their number]
    #[arg(long, value_name = "SIZE", value_parser = enough_memory)]
    pub memory: Option<u64>,
    /// Whether to use hugepages
    #[arg(long, value_enum, default_value_t = HugePages::Auto)]
    pub huge: HugePages,
    /// CPUs to run on [default: any]
    #[arg(long, value_name = "CPU", value_delimiter = ',', value_parser = cpu)]
    pub cores: Vec<u32>,
    /// Largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 9000, value_parser = clap::value_parser!(u16).range(MTUS))]
    pub mtu: u16,
}

/// Whether hugepages are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum HugePages {
    /// If enough of them are free.
    Auto,
    /// Not at all.
    Never,
    /// Or not start.
    Require,
}

fn enough_memory(text: &str) -> Result<u64, String> {
    let bytes = units::size_or_bytes(text)?;
    if bytes < MEMORY_MIN {
        return Err(format!("DPDK needs {} at least", units::show_size(MEMORY_MIN)));
    }
    Ok(bytes)
}

/// A CPU that this process may use.
fn cpu(text: &str) -> Result<u32, String> {
    let allowed = allowed_cpus();
    let cpu = text.parse().ok().filter(|cpu| allowed.contains(cpu));
    cpu.ok_or_else(|| format!("this process may run on the CPUs {}", cpu_ranges(&allowed)))
}

/// It is the name of a folder.
fn prefix(text: &str) -> Result<String, &'static str> {
    let is_strange = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    if text.is_empty() || text.contains(is_strange) || text.starts_with('.') {
        return Err("expected letters, digits, '-', '_' and '.', which is not the first");
    }
    Ok(text.to_owned())
}

impl DpdkOptions {
    /// Starts DPDK with memory for `mbufs` frames.
    ///
    /// # Errors
    /// The missing resource and the remedy.
    pub fn start(&self, program: &str, devices: &[&str], mbufs: u64) -> Result<Eal> {
        let need = memory(mbufs, self.data_room());
        let prefix = || format!("{program}-{}", std::process::id());
        Ok(Eal::init(&EalConfig {
            program: program.into(),
            huge: match self.huge {
                HugePages::Auto => Huge::Auto,
                HugePages::Never => Huge::Never,
                HugePages::Require => Huge::Require,
            },
            memory_mib: u32::try_from(self.memory.unwrap_or(need).div_ceil(1 << 20))?,
            file_prefix: self.file_prefix.clone().unwrap_or_else(prefix),
            cores: self.cores.clone(),
            pci_allow: devices.iter().filter(|d| !is_virtual(d)).map(|d| (*d).into()).collect(),
            vdevs: Vec::new(),
            extra: Vec::new(),
        })?)
    }

    /// A pool of `mbufs` frames.
    ///
    /// # Errors
    /// If the memory does not suffice.
    pub fn pool(&self, eal: &Eal, name: &str, mbufs: u64) -> Result<Mempool> {
        let config = PoolConfig {
            name: name.into(),
            mbufs: u32::try_from(mbufs)?,
            cache: 256,
            data_room: self.data_room(),
            numa_node: None,
        };
        Mempool::new(eal, &config)
            .map_err(|e| anyhow!("{e} (--memory; or a smaller --mtu, rate, delay or queue)"))
    }

    /// Bytes of frame that an mbuf holds.
    fn data_room(&self) -> u16 {
        self.mtu.saturating_add(L2_HEADERS)
    }

    /// Opens a port with one queue each way.
    ///
    /// # Errors
    /// The fault of the device.
    pub fn open(
        &self,
        eal: &Eal,
        device: &str,
        pool: &Mempool,
    ) -> Result<(Port, RxQueue, TxQueue)> {
        let config = PortConfig {
            device: device.into(),
            mtu: self.mtu,
            rx_queues: 1,
            hash_ports: false,
            tx_queues: 1,
            rx_desc: RING,
            tx_desc: RING,
            promiscuous: true,
        };
        let (port, mut rx, mut tx) = Port::open(eal, &config, pool)?;
        match (rx.pop(), tx.pop()) {
            (Some(rx), Some(tx)) => Ok((port, rx, tx)),
            _ => bail!("{device}: the port has no queue"),
        }
    }
}

/// Bytes with which DPDK can make a pool of `mbufs`, in pages of any size, and has enough for itself.
fn memory(mbufs: u64, data_room: u16) -> u64 {
    let least = pool_memory(mbufs, data_room, PAGE).saturating_add(2 * DPDK_OVERHEAD);
    let fits = |memory: &u64| {
        [PAGE, HUGE_PAGE].iter().all(|&page| pool_fits(mbufs, data_room, page, *memory))
    };
    // It is enough almost always. Each step is an eighth more, so that few are tried.
    let steps =
        std::iter::successors(Some(least), |memory| Some(memory.saturating_add(memory / 8)));
    steps.take(8).find(fits).unwrap_or(2 * least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_enough_for_the_pool() {
        // In ordinary pages an mbuf for an MTU of 1500 takes a whole page.
        for (mbufs, mtu) in [(5_000, 1500), (5_000, 9000), (200_000, 1500), (3_000_000, 4200)] {
            let memory = memory(mbufs, mtu + L2_HEADERS);
            for page in [PAGE, HUGE_PAGE] {
                assert!(pool_fits(mbufs, mtu + L2_HEADERS, page, memory), "{mbufs} {mtu} {page}");
            }
        }
        assert!(memory(5_000, 1522) >= 5_000 * PAGE);
    }
}
