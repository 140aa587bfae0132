//! How a NIC spreads received frames over its queues.

use std::mem;

use common::wire::{BUCKETS, RSS_KEY};

use crate::error::errno_text;
use crate::ffi;

/// See [`RSS_KEY`]; as long as any NIC's.
static SYMMETRIC_KEY: [u8; 64] = {
    let word = RSS_KEY.to_be_bytes();
    let mut key = [0; 64];
    let mut i = 0;
    while i < key.len() {
        key[i] = word[i % word.len()];
        i += 1;
    }
    key
};

/// A port's configuration: no offload, and the spread of
/// [`Spread::Rss`](common::wire::Spread::Rss) if there is more than one queue, with `hash_ports` by the ports of UDP as well.
pub(crate) fn configuration(
    rx_queues: u16,
    hash_ports: bool,
    info: &ffi::rte_eth_dev_info,
) -> ffi::rte_eth_conf {
    // SAFETY: plain data, for which zero is a value: no offload, no RSS.
    let mut conf: ffi::rte_eth_conf = unsafe { mem::zeroed() };
    let wanted = ffi::LR2_RSS_IP | if hash_ports { ffi::LR2_RSS_UDP } else { 0 };
    let hash = info.flow_type_rss_offloads & wanted;
    if rx_queues > 1 && hash != 0 {
        conf.rxmode.mq_mode = ffi::rte_eth_rx_mq_mode_RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = hash;
        let len = usize::from(info.hash_key_size);
        if (1..=SYMMETRIC_KEY.len()).contains(&len) {
            // The driver only reads the key, although its type is mutable.
            conf.rx_adv_conf.rss_conf.rss_key = SYMMETRIC_KEY.as_ptr().cast_mut();
            conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
        }
    }
    conf
}

/// Tells a started NIC which bucket goes to which queue. One that can't be told
/// spreads frames as it likes.
pub(crate) fn redirect(port: u16, device: &str, rx_queues: u16, info: &ffi::rte_eth_dev_info) {
    if rx_queues < 2 || info.reta_size == 0 {
        return;
    }
    // SAFETY: a started port with that many queues, and the size of table that
    // its driver states.
    let ret = unsafe { ffi::lr2_redirect(port, info.reta_size, BUCKETS as u16, rx_queues) };
    if ret < 0 {
        let reason = errno_text(ret);
        tracing::info!("{device}: redirection table left as it is: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-TUN-43: UDP datagrams are spread by their ports where that is asked for, and the NIC can.
    #[test]
    fn ports_count_if_they_are_to() {
        // SAFETY: plain data, for which zero is a value.
        let mut info: ffi::rte_eth_dev_info = unsafe { mem::zeroed() };
        let hash = |queues, ports, info: &ffi::rte_eth_dev_info| {
            let conf = configuration(queues, ports, info);
            let rss = conf.rx_adv_conf.rss_conf;
            (rss.rss_hf, rss.rss_key_len, rss.rss_key.is_null())
        };
        info.flow_type_rss_offloads = ffi::LR2_RSS_IP | ffi::LR2_RSS_UDP;
        info.hash_key_size = 40;
        assert_eq!(hash(1, true, &info), (0, 0, true));
        assert_eq!(hash(2, false, &info), (ffi::LR2_RSS_IP, 40, false));
        assert_eq!(hash(2, true, &info), (ffi::LR2_RSS_IP | ffi::LR2_RSS_UDP, 40, false));
        info.flow_type_rss_offloads = ffi::LR2_RSS_IP;
        assert_eq!(hash(2, true, &info), (ffi::LR2_RSS_IP, 40, false));
    }
}
