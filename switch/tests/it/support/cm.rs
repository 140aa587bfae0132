//! Messages of connection management, as hosts send them.

use std::net::IpAddr;

use common::wire::{Addr, Headers, Vlans};
use testkit::packets::{datagram, mad};

/// A REQ, or a host's part of it.
#[derive(Clone, Copy)]
pub struct End {
    /// Its id for the connection.
    pub comm: u32,
    pub qpn: u32,
    /// Where the other one is to begin.
    pub psn: u32,
}

pub const fn end(comm: u32, qpn: u32, psn: u32) -> End {
    End { comm, qpn, psn }
}

fn message(headers: &Headers, attribute: u8, fields: &[(usize, &[u8])]) -> Vec<u8> {
    datagram(headers, &mad(attribute, fields))
}

/// The high 24 bits of a word.
fn three(value: u32) -> [u8; 4] {
    (value << 8).to_be_bytes()
}

pub fn req(headers: &Headers, from: End) -> Vec<u8> {
    req_between(headers, from, headers.src(), headers.dst())
}

/// A REQ for these two addresses, with a path MTU of 1024.
pub fn req_between(headers: &Headers, from: End, local: Addr, remote: Addr) -> Vec<u8> {
    let fields: [(usize, &[u8]); 6] = [
        (0, &from.comm.to_be_bytes()),
        (32, &three(from.qpn)),
        (44, &three(from.psn)),
        (50, &[0x30]),
        (56, local.as_bytes()),
        (72, remote.as_bytes()),
    ];
    message(headers, 0x10, &fields)
}

pub fn rep(headers: &Headers, from: End, to: End) -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] = [
        (0, &from.comm.to_be_bytes()),
        (4, &to.comm.to_be_bytes()),
        (12, &three(from.qpn)),
        (20, &three(from.psn)),
    ];
    message(headers, 0x13, &fields)
}

pub fn rtu(headers: &Headers, from: End, to: End) -> Vec<u8> {
    message(headers, 0x14, &[(0, &from.comm.to_be_bytes()), (4, &to.comm.to_be_bytes())])
}

pub fn dreq(headers: &Headers, from: End, to: End) -> Vec<u8> {
    let fields: [(usize, &[u8]); 3] =
        [(0, &from.comm.to_be_bytes()), (4, &to.comm.to_be_bytes()), (8, &three(to.qpn))];
    message(headers, 0x15, &fields)
}

/// Headers between two addresses of one family.
pub fn between(src: &str, dst: &str) -> Headers {
    let [src, dst] = [src, dst].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    Headers::new([1; 6], [2; 6], Vlans::NONE, src, dst, 50_000, 0, 64)
}
