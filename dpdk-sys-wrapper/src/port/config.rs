//! How a port is opened, and whether its pool and device can do that.

use crate::error::Error;
use crate::ffi;
use crate::mempool::Mempool;

/// How to open a port.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// A virtual device with its arguments (`net_memif0,role=server`), which
    /// is made if need be, or a PCI address that the EAL was allowed to take.
    pub device: String,
    /// Largest payload of an Ethernet frame, in bytes. The backends of
    /// virtual devices have limits of their own: `bsize` × ring of `net_memif`,
    /// `framesz` of `net_af_packet`, the MTU of the kernel's interface.
    pub mtu: u16,
    /// Receive queues, at least 1; fewer if the device has fewer. With more
    /// than one, the NIC spreads frames over them as
    /// [`Spread::Rss`](common::wire::Spread::Rss) does, if it can.
    pub rx_queues: u16,
    /// Spread UDP datagrams by their ports as well, as [`rss_bucket_of_udp`](common::wire::rss_bucket_of_udp) does.
    pub hash_ports: bool,
    /// Transmit queues, at least 1.
    pub tx_queues: u16,
    /// Descriptors per receive queue; rounded to a number that the device supports.
    pub rx_desc: u16,
    /// Descriptors per transmit queue; rounded to a number that the device supports.
    pub tx_desc: u16,
    /// Receive frames for other MAC addresses too, as a bump in the wire must.
    pub promiscuous: bool,
}

impl PortConfig {
    /// A promiscuous port with one queue of 1024 descriptors each way and an
    /// MTU of 4500 (a RoCE payload of 4096 and its headers).
    pub fn new(device: impl Into<String>) -> Self {
        Self {
            device: device.into(),
            mtu: 4500,
            rx_queues: 1,
            hash_ports: false,
            tx_queues: 1,
            rx_desc: 1024,
            tx_desc: 1024,
            promiscuous: true,
        }
    }
}

/// Ethernet header and two VLAN tags, in bytes: the overhead of a frame over the MTU.
/// The FCS is the device's own business.
const FRAME_OVERHEAD: u32 = 14 + 2 * 4;

pub(super) fn refused(config: &PortConfig, step: &str, reason: &str) -> Error {
    Error::Port { device: config.device.clone(), step: step.into(), reason: reason.into() }
}

pub(super) fn check(config: &PortConfig, pool: &Mempool) -> Result<(), Error> {
    for (setting, value) in [
        ("rx_queues", config.rx_queues),
        ("tx_queues", config.tx_queues),
        ("rx_desc", config.rx_desc),
        ("tx_desc", config.tx_desc),
    ] {
        if value == 0 {
            let rule = format!("port {} needs at least 1", config.device);
            return Err(Error::Setting { setting, value: "0".into(), rule });
        }
    }
    let frame = u32::from(config.mtu) + FRAME_OVERHEAD;
    if frame > u32::from(pool.data_room()) {
        let reason = format!(
            "{} means frames of up to {frame} bytes, and the mbufs of pool \"{}\" hold {}",
            config.mtu,
            pool.name(),
            pool.data_room()
        );
        return Err(refused(config, "MTU", &reason));
    }
    Ok(())
}

/// Drivers that report the length of a standard frame as their limit, and pass
/// any frame that fits in their buffers.
const LENGTH_NOT_LIMITED: [&str; 3] = ["net_memif", "net_af_packet", "net_tap"];

/// The MTU to give to the driver.
pub(super) fn device_mtu(
    config: &PortConfig,
    info: &ffi::rte_eth_dev_info,
    driver: &str,
) -> Result<u32, Error> {
    // As in ethdev: a driver tells its overhead over the MTU by giving both.
    let overhead = match info.max_mtu {
        u16::MAX => 18,
        mtu => info.max_rx_pktlen.saturating_sub(u32::from(mtu)),
    };
    let most = u32::from(info.max_mtu).min(info.max_rx_pktlen.saturating_sub(overhead));
    let mtu = u32::from(config.mtu);
    if mtu > most && LENGTH_NOT_LIMITED.contains(&driver) {
        // Ethdev's own default is 1500, which is more than net_af_packet says that it can do.
        return Ok(most.min(1500));
    }
    if mtu > most || config.mtu < info.min_mtu {
        let reason = format!("{mtu} asked for, the device can do {} to {most}", info.min_mtu);
        return Err(refused(config, "MTU", &reason));
    }
    Ok(mtu)
}
