//! Ports: a NIC, or a virtual device in its place.

mod config;
pub(crate) mod inner;
mod kernel;

use std::ffi::CStr;
use std::mem;
use std::sync::Arc;

pub use self::config::PortConfig;
use self::config::{check, refused};
use self::inner::PortInner;
pub use self::kernel::raise as raise_interface;
use crate::device;
use crate::eal::Eal;
use crate::error::{Error, errno_text};
use crate::ffi;
use crate::log;
use crate::mempool::Mempool;
use crate::queue::{RxQueue, TxQueue};

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
    /// Frames that the device dropped because its receive queue was full.
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
        let mut open = eal.open_ports.lock();
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
            interface: kernel::of(&driver, &config.device),
            cut_from: kernel::cut_from(&driver, &config.device),
            index: info.if_index,
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

    /// Whether the driver passes the mbuf itself to the receiver (`net_ring`), not a copy of its
    /// bytes. The [`TxQueue`] then sends a copy of
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

    /// The link's state as the driver knows it, without waiting; down if the driver doesn't say.
    pub fn link(&self) -> Link {
        self.known_link().unwrap_or(Link { up: false, speed_mbps: None })
    }

    /// The link's state as the driver knows it, without waiting; `None` if the driver doesn't say.
    pub fn known_link(&self) -> Option<Link> {
        if let Some(up) = self.0.interface.as_deref().and_then(kernel::is_up) {
            return Some(Link { up, speed_mbps: None });
        }
        // SAFETY: plain numbers, for which zero is a value.
        let mut link: ffi::rte_eth_link = unsafe { mem::zeroed() };
        // SAFETY: an open port and a place for the answer.
        let ret = unsafe { ffi::rte_eth_link_get_nowait(self.0.id, &raw mut link) };
        let speed = link.link_speed;
        (ret == 0).then(|| Link {
            up: u32::from(link.link_status()) == ffi::RTE_ETH_LINK_UP,
            speed_mbps: (!matches!(speed, 0 | u32::MAX)).then_some(speed),
        })
    }

    /// Sets the link up or down: the other end of the cable sees it. Behind a `net_af_packet` that is the kernel's
    /// interface.
    ///
    /// # Errors
    /// [`Error::Port`] if the driver can't, or the kernel refuses.
    pub fn set_link(&self, up: bool) -> Result<(), Error> {
        let port = &*self.0;
        let errno = match &port.interface {
            Some(name) => kernel::set(name, up).err().map(|errno| errno.desc().to_owned()),
            None => {
                // SAFETY: an open, started port.
                let ret = unsafe {
                    if up {
                        ffi::rte_eth_dev_set_link_up(port.id)
                    } else {
                        ffi::rte_eth_dev_set_link_down(port.id)
                    }
                };
                (ret < 0).then(|| errno_text(ret))
            }
        };
        errno.map_or(Ok(()), |reason| {
            let step = if up { "setting its link up" } else { "setting its link down" };
            Err(Error::Port { device: port.device.clone(), step: step.into(), reason })
        })
    }

    /// The name of the kernel's interface behind the port; `None` if the kernel has no part in the port. The interface stays as
    /// [`set_link`](Self::set_link) left it when the process ends, unless it is a tap, which goes with the process.
    pub fn interface(&self) -> Option<String> {
        self.0.interface.clone().or_else(|| kernel::name(self.0.index))
    }

    /// Stops the port and starts it again, with its settings: a `net_memif` client then looks for its server anew. The
    /// port has one RX and one TX queue. The caller lends both, so that no other code uses them meanwhile. After an error the port is
    /// stopped: its queues must not be used before another call has succeeded.
    ///
    /// Not at once after a peer has gone: the driver's interrupt thread frees the connection for some milliseconds.
    ///
    /// # Errors
    /// [`Error::Port`] if the driver does not start it, without a server for instance; [`Error::Setting`] if these
    /// are not all queues of the port.
    pub fn restart(&self, rx: &mut RxQueue, tx: &mut TxQueue) -> Result<(), Error> {
        let port = &self.0;
        // Held by this handle and by each queue.
        let is_all = Arc::strong_count(port) == 3;
        if !(is_all && rx.is_of(port) && tx.is_of(port)) {
            return Err(Error::Setting {
                setting: "queues",
                value: format!("those lent for a restart of {}", port.device),
                rule: "must be all queues of the port".into(),
            });
        }
        let (ret, said) = log::collect(|| {
            // SAFETY: the port is open. This function borrows its queues mutably, so no other code uses them.
            // Stopping a stopped port does nothing.
            unsafe {
                ffi::rte_eth_dev_stop(port.id);
                ffi::rte_eth_dev_start(port.id)
            }
        });
        if ret == 0 {
            return Ok(());
        }
        let reason = if said.is_empty() { errno_text(ret) } else { said };
        Err(Error::Port { device: port.device.clone(), step: "starting again".into(), reason })
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
