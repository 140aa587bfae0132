//! Configuration of a NIC and its queue pairs.

use core::net::{IpAddr, Ipv4Addr};

use common::psn::Psn;
use common::time::Span;
use common::wire::{Qpn, Vlans};

use crate::dcqcn::Dcqcn;

/// Bytes that a frame takes on an Ethernet wire besides those in the buffer:
/// FCS 4, preamble and start delimiter 8, inter-frame gap 12.
pub const WIRE_OVERHEAD: u64 = 24;

/// Shortest Ethernet frame without its FCS; shorter ones are padded on the
/// wire.
pub const MIN_FRAME: u64 = 60;

/// A port.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IP address; every QP's peer must be of the same family.
    pub ip: IpAddr,
    /// Line rate in bit/s, [`WIRE_OVERHEAD`] included; `None`: unlimited.
    pub rate: Option<u64>,
    /// How far the port may catch up when it was polled late: sending time
    /// that went unused for longer than this is lost. Zero under a virtual
    /// clock, some tens of microseconds in a busy-polling process.
    pub pacing_slack: Span,
}

impl NicConfig {
    /// A port without rate limit.
    pub fn new(mac: [u8; 6], ip: IpAddr) -> Self {
        Self { mac, ip, rate: None, pacing_slack: Span::ZERO }
    }
}

/// How often a requester tries again before it gives the QP up.
///
/// Each obeyed NAK and each timeout takes one try; one more with none
/// left ends the QP. Progress gives all of them back: an ACK that acknowledges
/// something new, or a NAK that completes a message by its implicit
/// acknowledgement. A NAK that moves the requester only within a message is no
/// progress to a real RNIC; with [`SecondNak::Obey`] it is. An ignored NAK
/// takes no try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryLimit {
    /// This many times, 0 to 7, without progress in between.
    Count(u8),
    /// For ever.
    Infinite,
}

impl RetryLimit {
    /// The Linux rxe driver's reading of the 3-bit retry count of the
    /// connection: 7 is never counted down (`rxe_comp.c`).
    pub const fn as_rxe(count: u8) -> Self {
        if count >= 7 { Self::Infinite } else { Self::Count(count) }
    }
}

/// How a requester treats a NAK while an earlier one has been obeyed and no
/// positive ACK has arrived since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondNak {
    /// Takes its implicit acknowledgement, but does not go back: real RNICs.
    /// "Positive ACK" is progress as [`RetryLimit`] has it.
    IgnoreUntilAck,
    /// Goes back again: network simulators. With [`QpConfig::re_nak`] it wants
    /// [`RetryLimit::Infinite`], since stale NAKs take a try each.
    Obey,
}

/// When a responder answers packets that request an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckCoalescing {
    /// After this many such packets, at least 1 …
    pub packets: u32,
    /// … or this long after the first unanswered one, whichever comes first.
    /// Without meaning if `packets` is 1.
    pub delay: Span,
}

impl AckCoalescing {
    /// Every packet that asks is answered at once, as rxe does.
    pub const EACH: Self = Self { packets: 1, delay: Span::ZERO };
}

/// When a requester notices that a packet of a READ response is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImpliedNak {
    /// With the next response of any kind: hardware (mlx5 counts
    /// `implied_nak_seq_err`).
    AnyGap,
    /// With a response that belongs to a later request; packets of the same
    /// READ that are ahead are discarded, and if no other request follows it
    /// takes a timeout: rxe (`check_psn` of `rxe_comp.c`).
    LaterRequest,
}

/// How a responder answers a READ request that repeats the end of an earlier
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialRead {
    /// As the rest of the message: MIDDLE … LAST. rxe.
    Continued,
    /// As a message of its own: FIRST … LAST, or ONLY.
    Anew,
}

/// Buffers for SENDs; each SEND takes one, of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveQueue {
    /// Buffers at the beginning, and at most.
    pub depth: u32,
    /// Interval at which one buffer is posted again, greater than zero;
    /// `None`: only by [`Nic::post_receives`](crate::Nic::post_receives).
    pub refill: Option<Span>,
    /// Code of the delay in an RNR NAK: 0 to 31, see
    /// [`rnr_delay`].
    pub rnr_timer: u8,
}

/// A registered piece of memory that RDMA WRITEs may go to and READs come
/// from.
///
/// Atomics work on its first eight bytes, which neither READs nor WRITEs see;
/// they are zero when the QP is set up or reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Virtual address of its first byte.
    pub va: u64,
    /// Key that a request has to carry.
    pub rkey: u32,
    /// Its length in bytes.
    pub len: u64,
}

impl Region {
    /// A gigabyte at an address of no significance: both ends of a test that
    /// has nothing to say about addresses use it.
    pub const DEFAULT: Self = Self { va: 0x7f00_0000_0000, rkey: 0x1234_5678, len: 1 << 30 };

    /// Whether `len` bytes from `va` lie within.
    pub fn contains(&self, va: u64, len: u64) -> bool {
        va.checked_sub(self.va)
            .and_then(|at| at.checked_add(len))
            .is_some_and(|end| end <= self.len)
    }
}

/// A reliable-connection queue pair. [`QpConfig::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct QpConfig {
    /// Our QP number, unique within a NIC.
    pub local_qpn: Qpn,
    /// The peer's QP number.
    pub remote_qpn: Qpn,
    /// MAC address that frames are sent to.
    pub remote_mac: [u8; 6],
    /// IP address of the peer.
    pub remote_ip: IpAddr,
    /// Our own, if it isn't the NIC's: a NIC may have several.
    pub local_ip: Option<IpAddr>,
    /// VLAN tags of all frames.
    pub vlans: Vlans,
    /// UDP source port of all frames.
    pub udp_src_port: u16,
    /// DSCP and ECN bits of all frames.
    pub tos: u8,
    /// PSN of the first packet we send.
    pub send_psn: Psn,
    /// PSN of the first packet the peer sends.
    pub recv_psn: Psn,
    /// Path MTU in bytes of payload: 256, 512, 1024, 2048 or 4096.
    pub pmtu: u32,
    /// PSNs that may be unacknowledged, 1 to 2^22.
    pub window: u32,
    /// A packet requests an ACK if it is the last of its message, if
    /// `ack_req_every - 1` before it did not (at least 1), or if it fills the
    /// window and no other request is on its way. With less than two of these
    /// intervals in the window, long messages wait for ACKs.
    pub ack_req_every: u32,
    /// When this side's responder answers.
    pub ack_coalescing: AckCoalescing,
    /// Time without any response, even one that acknowledges nothing new, after which
    /// everything unacknowledged is sent again; greater than zero. See
    /// [`local_ack_timeout`].
    pub timeout: Span,
    /// How often it is tried again.
    pub retry: RetryLimit,
    /// Timeouts of 2, 4, 8, 16 ms … instead of `timeout`, doubled by each
    /// until something new is acknowledged: the "adaptive retransmission" of ConnectX
    /// NICs, which fires early on long paths for any configured
    /// timeout.
    pub adaptive_retransmission: bool,
    /// How often an RNR NAK is obeyed without progress in between.
    pub rnr_retry: RetryLimit,
    /// The effect of a second NAK.
    pub second_nak: SecondNak,
    /// The RNIC of LR2 as published, which no vendor makes: a NAK with the bit
    /// of [`has_switch_bit`](common::wire::has_switch_bit) is a switch's. It
    /// acknowledges nothing, takes no try and is always obeyed: everything from
    /// its PSN on is sent again with the same bit, by which a switch distinguishes
    /// those repeats from others. `false`: the bit is neither looked at nor set.
    pub knows_switch_nak: bool,
    /// READs and atomics that may be outstanding at a time, up to 128; more
    /// wait, with all work requests behind them. The responder keeps as many
    /// for duplicates: not less than the peer's number. 0: the QP does
    /// neither, and refuses them.
    pub max_rd_atomic: u32,
    /// When it is noticed that READ data is missing.
    pub implied_nak: ImpliedNak,
    /// A repeated ACK of an older PSN, between the packets of a READ
    /// response, ends the response, and with the next packet of it the QP: newer
    /// rxe (`check_psn`, `check_ack` and `COMPST_UPDATE_COMP` of `rxe_comp.c`).
    /// `false`: such an ACK has no effect.
    pub old_ack_ends_read: bool,
    /// An ACK with the PSN of an atomic, or of a READ with one response, completes it without its data, as rxe has it
    /// (`check_ack` of `rxe_comp.c` does not look at the request). `false`: it shows that the response was lost.
    pub ack_completes_fetch: bool,
    /// How this side's responder answers a part of a READ.
    pub partial_read: PartialRead,
    /// Congestion control: requests and READ data leave no faster than it
    /// allows and are sent as ECN-capable, ECT(0), and marks are answered with
    /// CNPs. It starts at the NIC's [rate](NicConfig::rate), which must be set.
    /// ACKs have the ECN bits of [`tos`](Self::tos) and do not wait. `None`:
    /// line rate, with or without CNPs.
    pub dcqcn: Option<Dcqcn>,
    /// Buffers for SENDs; `None`: always enough.
    pub receive_queue: Option<ReceiveQueue>,
    /// `None`: one NAK per gap, as real RNICs. `Some(interval)`: packets ahead
    /// of the gap bring forth another NAK once this long has passed, as in the
    /// network simulators.
    pub re_nak: Option<Span>,
    /// Whether each NAK counts as a CNP too, as in network simulators whose NACKs carry
    /// one; without `dcqcn` no difference.
    pub cnp_with_nak: bool,
    /// Where the peer may write and read.
    pub local_region: Region,
    /// Where our WRITEs go and our READs come from: each the beginning of this
    /// region.
    pub remote_region: Region,
    /// From which message content is made; the same at both ends.
    pub content_seed: u64,
    /// Whether messages have content, which is checked as it ought to be.
    /// `false`, at both ends: payload is as the pool's memory was, and not looked
    /// at. For simulations whose content is checked elsewhere.
    pub content: bool,
}

impl QpConfig {
    /// A QP as a Linux host sets it up: PSNs from 0, PMTU 1024, a window of
    /// 128, an ACK request every 66 packets, timeout exponent 14, retry count
    /// 7 (counted), RNR retry count 7 (without end), one NAK per gap, 16 READs
    /// and atomics, receive buffers without end. One thing is as on hardware:
    /// READ data that is missing is noticed at once.
    pub fn new(local_qpn: Qpn, remote_qpn: Qpn, remote_mac: [u8; 6], remote_ip: IpAddr) -> Self {
        Self {
            local_qpn,
            remote_qpn,
            remote_mac,
            remote_ip,
            local_ip: None,
            vlans: Vlans::default(),
            udp_src_port: symmetric_udp_port(local_qpn, remote_qpn),
            tos: 0,
            send_psn: Psn::new(0),
            recv_psn: Psn::new(0),
            pmtu: 1024,
            window: 128,
            ack_req_every: 66,
            ack_coalescing: AckCoalescing::EACH,
            timeout: local_ack_timeout(14),
            adaptive_retransmission: false,
            retry: RetryLimit::Count(7),
            rnr_retry: RetryLimit::as_rxe(7),
            max_rd_atomic: 16,
            implied_nak: ImpliedNak::AnyGap,
            old_ack_ends_read: false,
            ack_completes_fetch: false,
            partial_read: PartialRead::Continued,
            dcqcn: None,
            receive_queue: None,
            second_nak: SecondNak::IgnoreUntilAck,
            knows_switch_nak: false,
            re_nak: None,
            cnp_with_nak: false,
            local_region: Region::DEFAULT,
            remote_region: Region::DEFAULT,
            content_seed: 0,
            content: true,
        }
    }

    /// Whether a QP like this can be set up on `nic`.
    ///
    /// # Errors
    /// If a field is out of range; the first one that is.
    pub fn check(&self, nic: &NicConfig) -> Result<(), QpError> {
        let local = self.local_ip.unwrap_or(nic.ip);
        if local.is_ipv4() != self.remote_ip.is_ipv4() {
            return Err(QpError::Family { local, remote: self.remote_ip });
        }
        if !matches!(self.pmtu, 256 | 512 | 1000 | 1024 | 2048 | 4096) {
            return Err(QpError::Pmtu(self.pmtu));
        }
        // Both ends unwrap PSNs next to their own position: the window has to
        // stay well below half of the PSN space.
        if !(1..=1 << 22).contains(&self.window) {
            return Err(QpError::Window(self.window));
        }
        if self.ack_req_every == 0 || self.ack_coalescing.packets == 0 {
            return Err(QpError::AckInterval);
        }
        if self.timeout == Span::ZERO {
            return Err(QpError::Timeout);
        }
        for limit in [self.retry, self.rnr_retry] {
            if let RetryLimit::Count(n @ 8..) = limit {
                return Err(QpError::Retry(n));
            }
        }
        if self.max_rd_atomic > MAX_RD_ATOMIC {
            return Err(QpError::RdAtomic(self.max_rd_atomic));
        }
        if let Some(dcqcn) = &self.dcqcn {
            let rate = nic.rate.ok_or(QpError::DcqcnRate)?;
            if let Some(rule) = dcqcn.out_of_range(rate) {
                return Err(QpError::Dcqcn(rule));
            }
        }
        match self.receive_queue {
            Some(ReceiveQueue { rnr_timer: code @ 32.., .. }) => Err(QpError::RnrTimer(code)),
            Some(ReceiveQueue { refill: Some(Span::ZERO), .. }) => Err(QpError::Refill),
            _ => Ok(()),
        }
    }
}

/// Why a QP can't be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QpError {
    /// Another QP of the NIC has it.
    #[error("QP number {0:?} is already in use on this NIC; reset that QP to use it again")]
    Duplicate(Qpn),
    /// IPv4 on one side, IPv6 on the other.
    #[error("{local} and {remote} are not of the same address family")]
    Family {
        /// Our address.
        local: IpAddr,
        /// The peer's address.
        remote: IpAddr,
    },
    /// Not a PMTU.
    #[error("a path MTU of {0} does not exist; use 256, 512, 1024, 2048 or 4096")]
    Pmtu(u32),
    /// Out of range.
    #[error("a window of {0} PSNs is out of range; use 1 to 4194304")]
    Window(u32),
    /// Zero.
    #[error("ack_req_every and ack_coalescing.packets must be at least 1")]
    AckInterval,
    /// Zero.
    #[error("the retransmission timeout must be greater than zero")]
    Timeout,
    /// More than three bits.
    #[error("a retry count of {0} does not exist; use 0 to 7, or RetryLimit::Infinite")]
    Retry(u8),
    /// Out of range.
    #[error("max_rd_atomic of {0} is out of range; use 0 to 128")]
    RdAtomic(u32),
    /// More than five bits.
    #[error("an RNR timer code of {0} does not exist; use 0 to 31")]
    RnrTimer(u8),
    /// No line rate to start from.
    #[error("dcqcn starts at line rate: set the rate of the NIC too")]
    DcqcnRate,
    /// A field of [`Dcqcn`] is out of range.
    #[error("dcqcn: {0}")]
    Dcqcn(&'static str),
    /// Zero.
    #[error("the interval at which receive buffers come back must be greater than zero")]
    Refill,
}

/// READs and atomics outstanding at a time: rxe's limit.
const MAX_RD_ATOMIC: u32 = 128;

/// The delay that the timer code of an RNR NAK (its low five bits) asks the
/// requester for (InfiniBand Architecture 9.7.5.2.8).
pub const fn rnr_delay(code: u8) -> Span {
    /// In units of 10 µs.
    const TENS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Span::from_micros(10 * TENS[(code & 31) as usize])
}

/// The timeout that the 5-bit local ACK timeout of a QP stands for:
/// 4.096 µs × 2^exponent.
pub const fn local_ack_timeout(exponent: u8) -> Span {
    Span::from_nanos(4096 << (exponent & 31))
}

/// The UDP source port that Linux RNIC drivers choose if no flow label is
/// given (`rdma_get_udp_sport`): the same in both directions of a QP.
pub const fn symmetric_udp_port(local_qpn: Qpn, remote_qpn: Qpn) -> u16 {
    let v = local_qpn.get() as u64 * remote_qpn.get() as u64;
    let v = v ^ (v >> 20);
    let v = v ^ (v >> 40);
    let low = v & 0x3fff;
    let high = (v & 0xf_c000) >> 14;
    0xc000 | (low ^ high) as u16
}

/// An address for tests and examples: 10.9.0.`host`.
pub const fn lab_ip(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_udp_source_port_is_that_of_a_capture() {
        // Two rxe hosts, QPN 0x24 at both ends: port 50448.
        let port = |local, remote| symmetric_udp_port(Qpn::new(local), Qpn::new(remote));
        assert_eq!(port(0x24, 0x24), 50448);
        assert_eq!(port(0x12345, 0x77), port(0x77, 0x12345));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let nic = NicConfig::new([2; 6], lab_ip(1));
        let good = QpConfig::new(Qpn::new(1), Qpn::new(2), [3; 6], lab_ip(2));
        assert_eq!(good.check(&nic), Ok(()));
        let check = |change: fn(&mut QpConfig)| {
            let mut config = good.clone();
            change(&mut config);
            config.check(&nic)
        };
        assert_eq!(check(|c| c.pmtu = 1500), Err(QpError::Pmtu(1500)));
        assert_eq!(check(|c| c.window = 0), Err(QpError::Window(0)));
        assert_eq!(check(|c| c.window = (1 << 22) + 1), Err(QpError::Window((1 << 22) + 1)));
        assert_eq!(check(|c| c.ack_req_every = 0), Err(QpError::AckInterval));
        assert_eq!(check(|c| c.timeout = Span::ZERO), Err(QpError::Timeout));
        assert_eq!(check(|c| c.retry = RetryLimit::Count(8)), Err(QpError::Retry(8)));
        assert_eq!(check(|c| c.rnr_retry = RetryLimit::Count(9)), Err(QpError::Retry(9)));
        assert_eq!(check(|c| c.max_rd_atomic = 129), Err(QpError::RdAtomic(129)));
        let queue = ReceiveQueue { depth: 1, refill: None, rnr_timer: 32 };
        let with = |queue| QpConfig { receive_queue: Some(queue), ..good.clone() }.check(&nic);
        assert_eq!(with(queue), Err(QpError::RnrTimer(32)));
        let never = ReceiveQueue { refill: Some(Span::ZERO), rnr_timer: 0, ..queue };
        assert_eq!(with(never), Err(QpError::Refill));
        assert_eq!(check(|c| c.dcqcn = Some(Dcqcn::DEFAULT)), Err(QpError::DcqcnRate));
        let paced = NicConfig { rate: Some(1_000_000_000), ..nic.clone() };
        let with = |dcqcn| QpConfig { dcqcn: Some(dcqcn), ..good.clone() }.check(&paced);
        assert_eq!(with(Dcqcn::DEFAULT), Ok(()));
        let never = with(Dcqcn { byte_counter: 0, ..Dcqcn::DEFAULT });
        assert!(matches!(never, Err(QpError::Dcqcn(_))));
        let v6 = QpConfig::new(Qpn::new(1), Qpn::new(2), [3; 6], "fd00::1".parse().unwrap());
        assert!(matches!(v6.check(&nic), Err(QpError::Family { .. })));
    }

    #[test]
    fn rnr_delays_are_those_of_the_specification() {
        for (code, micros) in [(0, 655_360), (1, 10), (5, 60), (14, 1_280), (31, 491_520)] {
            assert_eq!(rnr_delay(code), Span::from_micros(micros));
        }
        for code in 1..31 {
            let (this, next) = (rnr_delay(code).as_micros(), rnr_delay(code + 1).as_micros());
            assert!(this * 4 <= next * 3 && next <= this * 2, "code {code}");
        }
    }

    #[test]
    fn a_region_ends_where_it_ends() {
        let region = Region { va: u64::MAX - 9, rkey: 1, len: 10 };
        assert!(region.contains(u64::MAX - 9, 10));
        assert!(!region.contains(u64::MAX - 9, 11));
        assert!(!region.contains(u64::MAX - 10, 1));
        assert!(!region.contains(u64::MAX, u64::MAX));
    }
}
