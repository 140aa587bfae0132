//! An open port, which its queues keep open.

use std::ffi::c_int;
use std::mem;
use std::sync::Arc;

use super::config::{PortConfig, device_mtu, refused};
use crate::eal::EalInner;
use crate::error::{Error, errno_text};
use crate::mempool::Mempool;
use crate::{ffi, rss};

/// State that the port and its queues share.
#[derive(Debug)]
pub(crate) struct PortInner {
    pub(crate) id: u16,
    pub(crate) pool: Mempool,
    /// See [`Port::hands_pointers_on`].
    pub(crate) hands_pointers_on: bool,
    pub(super) device: String,
    pub(super) name: String,
    pub(super) driver: String,
    /// The interface of the kernel that is the port, with `net_af_packet`.
    pub(super) interface: Option<String>,
    /// Frames of this length or longer may have been truncated on arrival.
    pub(crate) cut_from: Option<usize>,
    /// The kernel's number of an interface behind the port; 0 if there is none.
    pub(super) index: u32,
    pub(super) rx_queues: u16,
    /// Mbufs booked in the pool.
    pub(super) claimed: u32,
    pub(super) started: bool,
    /// The device to remove after closing, if opening made it; else null.
    pub(super) made: *mut ffi::rte_device,
    pub(super) eal: Arc<EalInner>,
}

// SAFETY: the pointer is used in `drop` only; all else may be used from
// anywhere.
unsafe impl Send for PortInner {}
// SAFETY: methods that take `&self` call DPDK functions that only read the port.
unsafe impl Sync for PortInner {}

impl PortInner {
    pub(super) fn set_up(
        &mut self,
        config: &PortConfig,
        info: &ffi::rte_eth_dev_info,
    ) -> Result<(), Error> {
        let step = |ret: c_int, step: &str| {
            if ret < 0 { Err(refused(config, step, &errno_text(ret))) } else { Ok(()) }
        };
        let (asked, most) = (config.tx_queues, info.max_tx_queues);
        if asked > most {
            let reason = format!("{asked} asked for, the device has {most}");
            return Err(refused(config, "transmit queues", &reason));
        }
        let mut conf = rss::configuration(self.rx_queues, config.hash_ports, info);
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

    /// Frees the frames that wait in the rings of a port that hands pointers on: the driver would
    /// leak them.
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
        let mut open = self.eal.open_ports.lock();
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
