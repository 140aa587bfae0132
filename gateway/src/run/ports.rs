//! Opening DPDK and its ports as the configuration says.

use anyhow::Context;
use dpdk_sys_wrapper::{Eal, EalConfig, Huge, Mempool, Port, PortConfig, RxQueue, TxQueue};

use super::pair::Queues;
use crate::config::{self, Config, HugePages, Pairs, TunnelMode};
use crate::port::PortId;

/// How DPDK is started.
pub(super) fn eal_config(pairs: &Pairs) -> EalConfig {
    let config = pairs.first();
    let pci = |port: &config::Port| port.is_pci().then(|| port.device.clone());
    EalConfig {
        program: "lr2-gateway".into(),
        // The configuration is read without DPDK as well.
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
        pci_allow: pairs.iter().flat_map(Config::ports).filter_map(|(_, port)| pci(port)).collect(),
        vdevs: Vec::new(),
        extra: config.eal.extra.clone(),
    }
}

/// Gives each worker its queues of a port.
pub(super) fn deal(workers: &mut [Queues], id: PortId, mut rx: Vec<RxQueue>, tx: Vec<TxQueue>) {
    // The only queues of several ports go to several workers.
    let only = if rx.len() == 1 { rx.pop() } else { None };
    let first = id.index() % workers.len().max(1);
    let mut rx = rx.into_iter();
    for (queues, tx) in workers.iter_mut().zip(tx) {
        queues.rx.push(rx.next());
        queues.tx.push(tx);
    }
    if let Some(queue) = workers.get_mut(first).and_then(|queues| queues.rx.last_mut()) {
        *queue = queue.take().or(only);
    }
}

/// Opens a port.
pub(super) fn open_port(
    eal: &Eal,
    (id, section): (PortId, &str),
    port: &config::Port,
    config: &Config,
    pool: &Mempool,
) -> anyhow::Result<(Port, Vec<RxQueue>, Vec<TxQueue>)> {
    let name = id.name();
    let (workers, is_wan) = (config.worker.count, id != PortId::LAN);
    let key = config.pair.prefix() + section;
    // Behind the EtherType of a tunnel, a NIC sees nothing to spread frames by, and frames that cross as they came must
    // not overtake those. A virtual device has as many queues as its other end. R-TUN-44
    let is_one = is_wan && config.tunnel.mode == TunnelMode::Ethernet && port.is_pci();
    let config = PortConfig {
        device: port.device.clone(),
        mtu: port.mtu,
        rx_queues: if is_one { 1 } else { workers },
        hash_ports: is_wan && config.tunnel.mode == TunnelMode::Udp,
        tx_queues: workers,
        rx_desc: port.rx_desc,
        tx_desc: port.tx_desc,
        promiscuous: port.promiscuous,
    };
    let (opened, rx, tx) =
        Port::open(eal, &config, pool).with_context(|| format!("{key}.device"))?;
    let mac = opened.mac().map(|b| format!("{b:02x}")).join(":");
    tracing::info!(
        "port {name}: {} ({}), MAC {mac}, MTU {}",
        opened.name(),
        opened.driver(),
        port.mtu
    );
    if rx.len() < usize::from(workers) {
        tracing::info!(
            "port {name}: {} receive queue(s) for {workers} workers, which hand frames off",
            rx.len()
        );
    }
    Ok((opened, rx, tx))
}
