//! RoCEv2 on the wire: parsing and making frames.
//!
//! [`parse`] reads a frame once and returns the positions of its fields in a
//! small [`Roce`] that borrows nothing. A frame that it doesn't recognise as RoCEv2 is
//! [`NotRoce`] and passes the gateway unchanged. [`Headers`] remembers the
//! Ethernet to UDP headers of one direction of a flow, and
//! [`emit`](Headers::emit)s further packets with them. [`cm`] reads the messages of two
//! hosts when they connect.
//!
//! **Panics.** No function here panics because of a frame's content. A few
//! panic when they are given a frame that is shorter than the one that was
//! parsed, or a buffer of the wrong length; each documents it.
//!
//! Section numbers in comments (9.x, A14, A17) are those of the InfiniBand
//! Architecture Specification, volume 1; annex A17 is RoCEv2.

mod ack;
mod addr;
mod bth;
pub mod cm;
mod edit;
mod ether;
mod ext;
mod flow_hash;
mod headers;
mod icrc;
mod identity;
mod look;
mod meta;
mod opcode;
mod parse;
mod qpn;
mod response;
mod spread;

pub use ack::Ack;
pub use addr::Addr;
pub use bth::{Bth, DEFAULT_PKEY};
pub use edit::{has_switch_bit, mark_congestion, mark_congestion_at, request_ack};
pub use ether::{MacAddr, Vlans, is_mac_control, network};
pub use ext::{Aeth, AethKind, AtomicEth, Deth, Reth};
pub use flow_hash::flow_hash;
pub use headers::{DEFAULT_TTL, Headers};
pub use icrc::{icrc, icrc_ok};
pub use identity::Identity;
pub use look::{Ipv4Flow, Look, Looked, look};
pub use meta::{Exceptions, Meta, Sort, exceptions, host_pair, hosts_of, is_message, is_roce};
pub use opcode::{Opcode, PacketKind, Position, Transport};
pub use parse::{MAX_SPAN, Malformed, NotRoce, Roce, parse};
pub use qpn::Qpn;
pub use response::{Response, Verdict};
pub use spread::{BUCKETS, RSS_KEY, Spread, rss_bucket_of_udp};

/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Length of a BTH in bytes.
pub const BTH_LEN: usize = 12;

/// Length of the ICRC that closes every packet, in bytes.
pub const ICRC_LEN: usize = 4;

/// Bytes between BTH and ICRC of a congestion notification packet, all zero
/// (A17).
pub const CNP_LEN: usize = 16;

/// How many PSNs a RDMA READ request of `len` bytes takes: one for each packet
/// of its response, and one for an empty response (9.7). A `pmtu` of 0
/// counts as 1.
pub const fn read_responses(len: u32, pmtu: u32) -> u32 {
    let pmtu = if pmtu == 0 { 1 } else { pmtu };
    let packets = len.div_ceil(pmtu);
    if packets == 0 { 1 } else { packets }
}

/// The big-endian 16-bit number at `at`.
#[inline(always)]
const fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit number at `at`.
#[inline(always)]
const fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(word(bytes, at))
}

/// The little-endian 32-bit number at `at`.
#[inline(always)]
const fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(word(bytes, at))
}

/// The four bytes at `at`, read in one load. An array of bytes by index is read byte by byte where a mask leaves some of them
/// out.
///
/// # Panics
/// If they are not all there.
#[inline(always)]
const fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    match bytes.split_at(at).1.first_chunk() {
        Some(word) => *word,
        None => panic!("fewer than four bytes are left"),
    }
}

/// The big-endian 24-bit number at `at`.
#[inline(always)]
const fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}
