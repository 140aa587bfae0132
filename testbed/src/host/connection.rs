//! Queue pairs that two hosts agree on without a handshake.

use std::net::IpAddr;

use common::psn::Psn;
use common::wire::{MacAddr, Qpn};
use rnic::{AckCoalescing, Dcqcn, QpConfig, local_ack_timeout};

use super::options::ConnectionOptions;

/// QP numbers below are special (0 and 1 are for management) or look it.
const FIRST_QPN: Qpn = Qpn::new(0x100);

/// The MAC address of a host unless told otherwise: locally administered, made
/// of the last bytes of the IP address.
pub(super) fn default_mac(ip: IpAddr) -> MacAddr {
    let end = |octets: &[u8]| octets.iter().rev().take(4).rev().copied().collect::<Vec<u8>>();
    let tail = match ip {
        IpAddr::V4(v4) => end(&v4.octets()),
        IpAddr::V6(v6) => end(&v6.octets()),
    };
    [0x02, 0, tail[0], tail[1], tail[2], tail[3]]
}

/// The QP numbers of the host with this address, and its first PSNs.
struct Numbers {
    host: u64,
    first_qpn: Qpn,
}

impl Numbers {
    fn of(seed: u64, ip: IpAddr, qps: u32) -> Self {
        let address = match ip {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let host = mix(mix(seed ^ address as u64) ^ (address >> 64) as u64);
        let room = u64::from(Qpn::COUNT - FIRST_QPN.get() - qps);
        Self { host, first_qpn: FIRST_QPN.offset((host % room) as u32) }
    }

    fn qpn(&self, index: u32) -> Qpn {
        self.first_qpn.offset(index)
    }

    /// PSN of the first packet that QP `index` sends.
    fn psn(&self, index: u32) -> Psn {
        Psn::new(mix(self.host ^ u64::from(index + 1)) as u32)
    }
}

/// The QPs of the host with these options; those of its peer are the same with
/// the addresses swapped.
pub(super) fn queue_pairs(options: &ConnectionOptions, window: u32) -> Vec<QpConfig> {
    let ours = Numbers::of(options.seed, options.ip, options.qps);
    let theirs = Numbers::of(options.seed, options.peer_ip, options.qps);
    let peer_mac = options.peer_mac.unwrap_or_else(|| default_mac(options.peer_ip));
    let qp = |index| QpConfig {
        send_psn: ours.psn(index),
        recv_psn: theirs.psn(index),
        pmtu: options.pmtu,
        window,
        ack_req_every: options.ack_every,
        ack_coalescing: AckCoalescing { packets: options.ack_coalesce, delay: options.ack_delay },
        timeout: local_ack_timeout(options.timeout),
        retry: options.retry,
        content_seed: options.seed,
        dcqcn: options.dcqcn.then_some(Dcqcn::DEFAULT),
        ..QpConfig::new(ours.qpn(index), theirs.qpn(index), peer_mac, options.peer_ip)
    };
    (0..options.qps).map(qp).collect()
}

/// A bijection of 64 bits that looks random (the finaliser of SplitMix64,
/// Steele et al. 2014).
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::prelude::*;

    use super::super::options::Options;
    use super::*;

    fn options(ip: &str, peer: &str, seed: u64, qps: u32) -> ConnectionOptions {
        let (seed, qps) = (seed.to_string(), qps.to_string());
        Options::try_parse_from([
            "lr2-host",
            "--device",
            "net_null0",
            "--role",
            "both",
            "--ip",
            ip,
            "--peer-ip",
            peer,
            "--seed",
            &seed,
            "--qps",
            &qps,
        ])
        .expect("valid")
        .connection
    }

    proptest! {
        #[test]
        fn two_hosts_agree(seed: u64, qps in 1u32..50, v6: bool) {
            let (a, b) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
            let a_qps = queue_pairs(&options(a, b, seed, qps), 64);
            let b_qps = queue_pairs(&options(b, a, seed, qps), 64);
            prop_assert_eq!(a_qps.len(), qps as usize);
            for (a, b) in a_qps.iter().zip(&b_qps) {
                prop_assert_eq!((a.local_qpn, a.remote_qpn), (b.remote_qpn, b.local_qpn));
                prop_assert_eq!((a.send_psn, a.recv_psn), (b.recv_psn, b.send_psn));
                prop_assert_eq!(a.udp_src_port, b.udp_src_port);
                prop_assert!(a.local_qpn >= FIRST_QPN);
            }
            prop_assert!(a_qps.windows(2).all(|w| w[0].local_qpn != w[1].local_qpn));
        }
    }

    #[test]
    fn another_seed_makes_other_connections() {
        let one = queue_pairs(&options("10.0.0.1", "10.0.0.2", 1, 2), 64);
        let two = queue_pairs(&options("10.0.0.1", "10.0.0.2", 2, 2), 64);
        assert_ne!(one[0].local_qpn, two[0].local_qpn);
        assert_ne!(one[0].send_psn, two[0].send_psn);
        assert_ne!(one[0].send_psn, one[1].send_psn);
    }

    #[test]
    fn congestion_control_is_asked_for() {
        let mut options = options("10.0.0.1", "10.0.0.2", 1, 2);
        assert!(queue_pairs(&options, 64).iter().all(|qp| qp.dcqcn.is_none()));
        options.dcqcn = true;
        assert!(queue_pairs(&options, 64).iter().all(|qp| qp.dcqcn == Some(Dcqcn::DEFAULT)));
    }

    #[test]
    fn mac_addresses_follow_from_ip_addresses() {
        let mac = |ip: &str| default_mac(ip.parse().expect("an address"));
        assert_eq!(mac("10.0.3.1"), [2, 0, 10, 0, 3, 1]);
        assert_eq!(mac("fd00::1:2"), [2, 0, 0, 1, 0, 2]);
    }
}
