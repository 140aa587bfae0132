//! Packets of the hosts of a queue pair: RDMA WRITEs of some packets, the last of
//! which asks for an ACK.

use std::net::IpAddr;

use common::psn::Psn;
use common::wire::{Aeth, Bth, Headers, Opcode, Qpn, Reth, Vlans, parse};
use switch::{End, QueuePair};

use crate::frame::Recycled;

/// Path MTU, and payload of each packet, in bytes. Only ICRCs depend on it, and the share
/// of the caches that preparing packets evicts: it is small.
pub const PMTU: usize = 256;
/// Packets of a message, which is acknowledged as a whole, where there are few
/// flows.
pub const MESSAGE: u32 = 16;
/// Queue pairs between the same two hosts.
pub const QPS_PER_HOSTS: u32 = 64;

/// A queue pair whose requester is on the LAN side of a Sentry.
#[derive(Clone)]
pub struct Qp {
    forward: Headers,
    reverse: Headers,
    message: u32,
    /// QP at the destination.
    pub dest: Qpn,
    /// QP at the source.
    pub source: Qpn,
}

impl Qp {
    /// Number `n` of many, below 2^20. Messages are of `message` packets.
    pub fn new(n: u32, message: u32) -> Self {
        let hosts = (n / QPS_PER_HOSTS).to_be_bytes();
        let ip = |site| IpAddr::from([10, site | hosts[1], hosts[2], hosts[3]]);
        let port = 49_152 + (n % 16_384) as u16;
        let forward = Headers::new([2; 6], [6; 6], Vlans::NONE, ip(64), ip(128), port, 0, 64);
        let reverse = forward.reversed();
        let (dest, source) = (Qpn::new(0x20_0000 + n), Qpn::new(0x40_0000 + n));
        Self { forward, reverse, message, dest, source }
    }

    /// The operator's entry for this queue pair.
    pub fn named(&self) -> QueuePair {
        let source = End { addr: self.forward.src(), qpn: self.source };
        let destination = End { addr: self.forward.dst(), qpn: self.dest };
        QueuePair { vlans: Vlans::NONE, ends: [source, destination] }
    }

    /// The flow's packet number `psn`.
    pub fn data(&self, psn: u32) -> Recycled {
        let asks = self.asks(psn);
        let opcode = match (psn % self.message, asks) {
            (0, true) => Opcode::WRITE_ONLY,
            (0, false) => Opcode::WRITE_FIRST,
            (_, false) => Opcode::WRITE_MIDDLE,
            (_, true) => Opcode::WRITE_LAST,
        };
        let reth = Reth { va: 0, rkey: 7, len: self.message * PMTU as u32 };
        let reth = if opcode.has_reth() { &reth.to_bytes()[..] } else { &[] };
        let bth = Bth { ack_req: asks, ..Bth::new(opcode, self.dest, Psn::new(psn)) };
        emit(&self.forward, &bth, reth.len() + PMTU, |body| {
            body[..reth.len()].copy_from_slice(reth);
            body[reth.len()..].fill(psn as u8);
        })
    }

    /// Whether packet number `psn` ends its message.
    pub fn asks(&self, psn: u32) -> bool {
        psn % self.message == self.message - 1
    }

    /// The destination's ACK of everything up to and including `psn`.
    pub fn ack(&self, psn: u32) -> Recycled {
        self.respond(psn, Aeth::ACK_UNLIMITED, (psn + 1) / self.message)
    }

    /// The destination's NAK: it wants `psn` next.
    pub fn nak(&self, psn: u32) -> Recycled {
        self.respond(psn, Aeth::NAK_PSN_SEQUENCE, psn / self.message)
    }

    /// A NAK between the same hosts, for a queue pair that sends nothing.
    pub fn nak_of_another(&self) -> Recycled {
        Self { source: Qpn::new(0x7f_ffff), ..self.clone() }.nak(0)
    }

    fn respond(&self, psn: u32, syndrome: u8, msn: u32) -> Recycled {
        let bth = Bth::new(Opcode::ACK, self.source, Psn::new(psn));
        emit(&self.reverse, &bth, Aeth::LEN, |body| {
            body.copy_from_slice(&Aeth { syndrome, msn }.to_bytes());
        })
    }

    /// Headers of the source's packets.
    pub fn forward(&self) -> &Headers {
        &self.forward
    }
}

fn emit(headers: &Headers, bth: &Bth, body: usize, write: impl FnOnce(&mut [u8])) -> Recycled {
    let mut bytes = [0; 400];
    let bytes = &mut bytes[..headers.frame_len(body)];
    headers.emit(bth, bytes, write);
    debug_assert!(parse(bytes).is_ok());
    Recycled::copy(bytes)
}
