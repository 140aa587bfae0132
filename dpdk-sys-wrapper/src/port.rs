//! Ports: a NIC, or a virtual device in its place.

use std::ffi::{CStr, c_int};
use std::mem;
use std::sync::{Arc, PoisonError};

use crate::device;
use crate::eal::{Eal, EalInner};
use crate::error::{Error, errno_text};
use crate::ffi;
use crate::mempool::Mempool;
use crate::queue::{RxQueue, TxQueue};
use crate::rss;

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

/// Counters of a port since it was opened. Bytes are without FCS on most
/// devices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames transmitted.
    pub tx_packets: u64,
    /// Bytes transmitted.
    pub tx_bytes: u64,
    /// Frames dropped by the device because nobody took them in time.
    pub rx_missed: u64,
    /// Damaged frames.
    pub rx_errors: u64,
    /// Receive attempts that failed because the pool was dry.
    pub rx_no_mbuf: u64,
    /// Frames that could not be transmitted.
    pub tx_errors: u64,
}

/// The state of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Whether frames can pass. On `net_memif`: whether the peer is connected.
    pub up: bool,
    /// In Mbit/s, if the device knows.
    pub speed_mbps: Option<u32>,
}

/// An open, started port. It stops and closes when the `Port` and all its
/// queues have been dropped.
#[derive(Debug)]
pub struct Port(Arc<PortInner>);

/// State that the port and its queues share.
#[derive(Debug)]
pub(crate) struct PortInner {
    pub(crate) id: u16,
    pub(crate) pool: Mempool,
    /// See [`Port::hands_pointers_on`].
    pub(crate) hands_pointers_on: bool,
    device: String,
    name: String,
    driver: String,
    rx_queues: u16,
    /// Mbufs booked in the pool.
    claimed: u32,
    started: bool,
    /// The device to remove after closing, if opening made it; else null.
    made: *mut ffi::rte_device,
    eal: Arc<EalInner>,
}

// SAFETY: the pointer is used in `drop` only; all else may be used from
// anywhere.
unsafe impl Send for PortInner {}
// SAFETY: methods that take `&self` call DPDK functions that only read the port.
unsafe impl Sync for PortInner {}

impl Port {
    /// Opens and starts a port; gives its queues, in order.
    ///
    /// No offload is turned on, in particular not `MBUF_FAST_FREE`, which
    /// would free frames that have other owners, nor scatter or LRO, which
    /// would make frames of several segments.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::TooFewMbufs`], [`Error::Setting`], or
    /// [`Error::Port`] with the step that the device refused.
    pub fn open(
        eal: &Eal,
        config: &PortConfig,
        pool: &Mempool,
    ) -> Result<(Self, Vec<RxQueue>, Vec<TxQueue>), Error> {
        check(config, pool)?;
        let eal = eal.inner();
        let mut open = eal.open_ports.lock().unwrap_or_else(PoisonError::into_inner);
        let found = device::find(eal, &config.device)?;
        if open.contains(&found.id) {
            return Err(refused(config, "opening", "it is open already"));
        }
        let info = info(config, found.id)?;
        // SAFETY: DPDK gives a string that lives as long as the driver.
        let driver = unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned();
        let mut port = PortInner {
            id: found.id,
            pool: pool.clone(),
            hands_pointers_on: driver == "net_ring",
            device: config.device.clone(),
            name: name(found.id),
            driver,
            rx_queues: config.rx_queues.min(info.max_rx_queues).max(1),
            claimed: 0,
            started: false,
            made: if found.made_here { info.device } else { std::ptr::null_mut() },
            eal: Arc::clone(eal),
        };
        open.insert(found.id);
        // From here on dropping `port` undoes it all, for which it takes the
        // lock.
        drop(open);
        port.set_up(config, &info)?;
        let port = Arc::new(port);
        let rx = (0..port.rx_queues).map(|q| RxQueue::new(&port, q)).collect();
        let tx = (0..config.tx_queues).map(|q| TxQueue::new(&port, q)).collect();
        Ok((Self(port), rx, tx))
    }

    /// The name DPDK gave the port.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The name of the driver, `net_memif` for instance.
    pub fn driver(&self) -> &str {
        &self.0.driver
    }

    /// DPDK's number of the port.
    pub fn id(&self) -> u16 {
        self.0.id
    }

    /// Whether the driver hands the mbuf itself to whoever receives it
    /// (`net_ring`) and not its bytes. The [`TxQueue`] then sends a copy of
    /// each frame that has other owners.
    pub fn hands_pointers_on(&self) -> bool {
        self.0.hands_pointers_on
    }

    /// The MAC address.
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: plain bytes, for which zero is a value.
        let mut mac: ffi::rte_ether_addr = unsafe { mem::zeroed() };
        // SAFETY: an open port and a place for the answer. On failure, which
        // an open port does not have, the address stays zero.
        unsafe { ffi::rte_eth_macaddr_get(self.0.id, &raw mut mac) };
        mac.addr_bytes
    }

    /// The link's state as the driver knows it, without waiting.
    pub fn link(&self) -> Link {
        // SAFETY: plain numbers, for which zero is a value.
        let mut link: ffi::rte_eth_link = unsafe { mem::zeroed() };
        // SAFETY: an open port and a place for the answer.
        let ret = unsafe { ffi::rte_eth_link_get_nowait(self.0.id, &raw mut link) };
        Link {
            up: ret == 0 && u32::from(link.link_status()) == ffi::RTE_ETH_LINK_UP,
            speed_mbps: (ret == 0 && !matches!(link.link_speed, 0 | u32::MAX))
                .then_some(link.link_speed),
        }
    }

    /// The device's counters. For the control thread; on real NICs it
    /// reads registers.
    pub fn stats(&self) -> PortStats {
        // SAFETY: plain numbers, for which zero is a value.
        let mut s: ffi::rte_eth_stats = unsafe { mem::zeroed() };
        // SAFETY: an open port and a place for the answer; zero on failure.
        unsafe { ffi::rte_eth_stats_get(self.0.id, &raw mut s) };
        PortStats {
            rx_packets: s.ipackets,
            rx_bytes: s.ibytes,
            tx_packets: s.opackets,
            tx_bytes: s.obytes,
            rx_missed: s.imissed,
            rx_errors: s.ierrors,
            rx_no_mbuf: s.rx_nombuf,
            tx_errors: s.oerrors,
        }
    }
}

impl PortInner {
    fn set_up(&mut self, config: &PortConfig, info: &ffi::rte_eth_dev_info) -> Result<(), Error> {
        let step = |ret: c_int, step: &str| {
            if ret < 0 { Err(refused(config, step, &errno_text(ret))) } else { Ok(()) }
        };
        let (asked, most) = (config.tx_queues, info.max_tx_queues);
        if asked > most {
            let reason = format!("{asked} asked for, the device has {most}");
            return Err(refused(config, "transmit queues", &reason));
        }
        let mut conf = rss::configuration(self.rx_queues, info);
        conf.rxmode.mtu = device_mtu(config, info, &self.driver)?;
        if self.driver == "net_memif" {
            // It claims to take 1518 bytes, and takes as many as its buffers
            // (`bsize`) hold.
            conf.rxmode.mtu = conf.rxmode.mtu.min(1500);
        }
        // Frames may have other owners, and must come in one segment.
        assert!(
            conf.txmode.offloads == 0 && conf.rxmode.offloads == 0,
            "no offload may be on: MBUF_FAST_FREE frees what others own, scatter splits frames"
        );
        // SAFETY: a known port that is not started, and a valid configuration
        // that DPDK copies, the key it points to included.
        let ret = unsafe {
            ffi::rte_eth_dev_configure(self.id, self.rx_queues, config.tx_queues, &raw const conf)
        };
        step(ret, "configuring")?;

        let (mut rx_desc, mut tx_desc) = (config.rx_desc, config.tx_desc);
        // SAFETY: a known port and two numbers to adjust.
        let ret = unsafe {
            ffi::rte_eth_dev_adjust_nb_rx_tx_desc(self.id, &raw mut rx_desc, &raw mut tx_desc)
        };
        step(ret, "ring sizes")?;
        let rings = u32::from(self.rx_queues) * u32::from(rx_desc)
            + u32::from(config.tx_queues) * u32::from(tx_desc);
        self.claim(rings)?;

        // SAFETY: a known port; -1 if it belongs to no node.
        let socket = unsafe { ffi::rte_eth_dev_socket_id(self.id) } as u32;
        let mut rx_conf = info.default_rxconf;
        rx_conf.offloads = 0;
        let mut tx_conf = info.default_txconf;
        tx_conf.offloads = 0;
        for q in 0..self.rx_queues {
            // SAFETY: a configured, stopped port and a valid pool, which this
            // struct keeps alive until the port is closed.
            let ret = unsafe {
                ffi::rte_eth_rx_queue_setup(
                    self.id,
                    q,
                    rx_desc,
                    socket,
                    &raw const rx_conf,
                    self.pool.raw(),
                )
            };
            step(ret, &format!("receive queue {q}"))?;
        }
        for q in 0..config.tx_queues {
            // SAFETY: a configured, stopped port.
            let ret = unsafe {
                ffi::rte_eth_tx_queue_setup(self.id, q, tx_desc, socket, &raw const tx_conf)
            };
            step(ret, &format!("transmit queue {q}"))?;
        }
        // SAFETY: a port whose queues are set up.
        step(unsafe { ffi::rte_eth_dev_start(self.id) }, "starting")?;
        self.started = true;
        rss::redirect(self.id, &self.device, self.rx_queues, info);
        if config.promiscuous {
            // SAFETY: a started port.
            let ret = unsafe { ffi::rte_eth_promiscuous_enable(self.id) };
            // Virtual devices without the switch receive everything anyway.
            if ret != -(nix::errno::Errno::ENOTSUP as c_int) {
                step(ret, "promiscuous mode")?;
            }
        }
        // SAFETY: a started port.
        unsafe { ffi::rte_eth_stats_reset(self.id) };
        Ok(())
    }

    fn claim(&mut self, needed: u32) -> Result<(), Error> {
        self.pool.claim(needed).map_err(|claimed| Error::TooFewMbufs {
            device: self.device.clone(),
            pool: self.pool.name().into(),
            size: self.pool.size(),
            claimed,
            needed,
            missing: claimed + needed - self.pool.size(),
        })?;
        self.claimed = needed;
        Ok(())
    }

    /// Frees frames that were sent to a port that hands pointers on and that
    /// nobody received: the driver would forget them.
    fn drain(&self) {
        for queue in 0..self.rx_queues {
            loop {
                let mut raw = [std::ptr::null_mut(); 32];
                // SAFETY: a started port, room for 32 pointers, a valid pool,
                // and no `RxQueue` is left that could poll at the same time.
                let n = unsafe {
                    let mut repairs: ffi::lr2_rx_repairs = mem::zeroed();
                    ffi::lr2_rx_burst(
                        self.id,
                        queue,
                        raw.as_mut_ptr(),
                        32,
                        self.pool.raw(),
                        &raw mut repairs,
                    )
                };
                if n == 0 {
                    break;
                }
                // SAFETY: `n` mbufs that belong to us since they were received.
                unsafe { ffi::rte_pktmbuf_free_bulk(raw.as_mut_ptr(), u32::from(n)) };
            }
        }
    }
}

impl Drop for PortInner {
    fn drop(&mut self) {
        let mut open = self.eal.open_ports.lock().unwrap_or_else(PoisonError::into_inner);
        if self.started && self.hands_pointers_on {
            self.drain();
        }
        // SAFETY: this is the last user of the port: no queue is left. Frames in
        // the rings go back to the pool, which still exists.
        unsafe {
            if self.started {
                ffi::rte_eth_dev_stop(self.id);
            }
            ffi::rte_eth_dev_close(self.id);
        }
        if !self.made.is_null() {
            // SAFETY: the device that opening made, with its only port closed.
            let ret = unsafe { ffi::rte_dev_remove(self.made) };
            if ret < 0 {
                tracing::warn!("{}: not removed: {}", self.device, errno_text(ret));
            }
        }
        self.pool.unclaim(self.claimed);
        open.remove(&self.id);
    }
}

fn refused(config: &PortConfig, step: &str, reason: &str) -> Error {
    Error::Port { device: config.device.clone(), step: step.into(), reason: reason.into() }
}

fn check(config: &PortConfig, pool: &Mempool) -> Result<(), Error> {
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

fn info(config: &PortConfig, id: u16) -> Result<ffi::rte_eth_dev_info, Error> {
    // SAFETY: plain data, for which zero is a value.
    let mut info: ffi::rte_eth_dev_info = unsafe { mem::zeroed() };
    // SAFETY: a known port and a place for the answer.
    let ret = unsafe { ffi::rte_eth_dev_info_get(id, &raw mut info) };
    if ret < 0 {
        return Err(refused(config, "asking for its abilities", &errno_text(ret)));
    }
    Ok(info)
}

fn name(id: u16) -> String {
    let mut text = [0; ffi::RTE_ETH_NAME_MAX_LEN as usize];
    // SAFETY: a known port and the room that DPDK asks for; it ends the string
    // with a zero, and there is one already if it fails.
    unsafe {
        ffi::rte_eth_dev_get_name_by_port(id, text.as_mut_ptr());
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    }
}

/// Drivers that report the length of a standard frame as their limit, and pass
/// any frame that fits in their buffers.
const LENGTH_NOT_LIMITED: [&str; 3] = ["net_memif", "net_af_packet", "net_tap"];

/// The MTU to give to the driver; 0: the driver's default.
fn device_mtu(
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
        return Ok(0);
    }
    if mtu > most || config.mtu < info.min_mtu {
        let reason = format!("{mtu} asked for, the device can do {} to {most}", info.min_mtu);
        return Err(refused(config, "MTU", &reason));
    }
    Ok(mtu)
}
