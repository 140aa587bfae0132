//! Tests of the queues in front of the ports.

use common::heap::HeapFrame;

use super::*;
use crate::worker::capture;
use crate::worker::fake::FakeTx;

/// A frame of one flow; its last byte is its number.
fn packet(n: u8) -> Packet<HeapFrame> {
    let mut frame = vec![0; 100];
    frame[99] = n;
    Packet::Owned(frame.into())
}

fn egress(limit: usize) -> (Egress<FakeTx>, FakeTx) {
    let lan = FakeTx::default();
    (Egress::new(lan.clone(), vec![FakeTx::default()], limit, capture::pair().0), lan)
}

fn lan(egress: &Egress<FakeTx>, what: PortIo) -> u64 {
    let mut io = IoCounters::default();
    egress.report(&mut io);
    io.port(PortId::LAN, what)
}

fn numbers(tx: &FakeTx) -> Vec<u8> {
    tx.taken().iter().map(|f| f[f.len() - 1]).collect()
}

#[test]
fn the_high_class_goes_first_and_each_class_keeps_its_order() {
    let (mut egress, tx) = egress(10);
    for (n, class) in [(1, Class::Data), (2, Class::High), (3, Class::Data), (4, Class::High)] {
        egress.transmit(Side::Lan, class, packet(n));
    }
    assert_eq!(egress.flush(Time::ZERO), 4);
    assert_eq!(numbers(&tx), [2, 4, 1, 3]);
    assert_eq!(lan(&egress, PortIo::TxBytes), 400);
}

#[test]
fn what_a_port_does_not_take_stays_in_order_until_it_does() {
    let (mut egress, tx) = egress(1000);
    tx.accept(70);
    for n in 0..200 {
        egress.transmit(Side::Lan, Class::Data, packet(n));
    }
    egress.flush(Time::ZERO);
    assert_eq!(numbers(&tx), (0..70).collect::<Vec<_>>());
    assert_eq!(lan(&egress, PortIo::Queued), 130);
    assert_eq!(lan(&egress, PortIo::TxBytes), 7000);
    egress.transmit(Side::Lan, Class::Data, packet(200));
    tx.accept(1000);
    egress.flush(Time::ZERO);
    assert_eq!(numbers(&tx), (0..=200).collect::<Vec<_>>());
    assert_eq!(lan(&egress, PortIo::Queued), 0);
    assert_eq!(lan(&egress, PortIo::TxFrames), 201);
    assert_eq!(lan(&egress, PortIo::DropFull), 0);
}

/// A frame of a flow, by the last byte of its destination address, and its number.
fn of_flow(flow: u8, n: u8) -> Packet<HeapFrame> {
    let mut frame = vec![n; 1000];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, flow]);
    frame[34..38].fill(0);
    Packet::Owned(frame.into())
}

/// The position at which `tx` gets a frame of one flow behind 200 frames of another one.
fn position(egress: &mut Egress<FakeTx>, tx: &FakeTx, side: Side) -> Option<usize> {
    tx.accept(0);
    egress.transmit(side, Class::Data, of_flow(1, 0));
    egress.flush(Time::ZERO);
    for n in 0..200 {
        egress.transmit(side, Class::Data, of_flow(1, n));
    }
    egress.transmit(side, Class::Data, of_flow(2, 255));
    tx.accept(1000);
    egress.flush(Time::ZERO);
    let taken = numbers(tx);
    assert!(taken.iter().filter(|n| **n != 255).skip(1).copied().eq(0..200));
    taken.iter().position(|n| *n == 255)
}

#[test]
fn flows_take_turns_on_the_lan_and_keep_their_order_on_the_wan() {
    let (lan, wan) = (FakeTx::default(), FakeTx::default());
    let mut egress = Egress::new(lan.clone(), vec![wan.clone()], 1000, capture::pair().0);
    assert_eq!(position(&mut egress, &wan, Side::Wan), Some(201));
    // Behind those that the head holds already, and a turn.
    assert_eq!(position(&mut egress, &lan, Side::Lan), Some(BURST + 4));
}

#[test]
fn a_full_queue_drops_the_newest_and_counts() {
    let (mut egress, tx) = egress(10);
    tx.accept(0);
    for n in 0..100 {
        egress.transmit(Side::Lan, Class::Data, packet(n));
    }
    assert_eq!(lan(&egress, PortIo::Queued), 74, "a burst and the limit");
    assert_eq!(lan(&egress, PortIo::DropFull), 26);
    tx.accept(1000);
    egress.flush(Time::ZERO);
    assert_eq!(numbers(&tx), (0..74).collect::<Vec<_>>());
}

#[test]
fn a_port_that_takes_nothing_for_long_loses_what_waits() {
    let (mut egress, tx) = egress(10);
    tx.accept(0);
    egress.transmit(Side::Lan, Class::High, packet(1));
    egress.transmit(Side::Lan, Class::Data, packet(2));
    egress.flush(Time::ZERO);
    egress.flush(Time::ZERO + STALL / 2);
    assert_eq!(lan(&egress, PortIo::DropStalled), 0);
    // Progress starts the time anew.
    tx.accept(1);
    egress.flush(Time::ZERO + STALL);
    assert_eq!(numbers(&tx), [1]);
    egress.flush(Time::ZERO + STALL + STALL / 2);
    egress.flush(Time::ZERO + STALL * 2);
    assert_eq!(lan(&egress, PortIo::DropStalled), 0);
    egress.flush(Time::ZERO + STALL * 3);
    assert_eq!(lan(&egress, PortIo::DropStalled), 1);
    assert_eq!(egress.queued(), 0);
}

#[test]
fn scarce_mbufs_shorten_the_queue() {
    let (mut egress, tx) = egress(10_000);
    tx.accept(0);
    egress.set_low(true);
    for _ in 0..3000 {
        egress.transmit(Side::Lan, Class::Data, packet(0));
    }
    assert_eq!(egress.queued(), BURST + LOW_LIMIT);
    egress.discard();
    assert_eq!(lan(&egress, PortIo::DropEnd) as usize, BURST + LOW_LIMIT);
    assert_eq!(lan(&egress, PortIo::Queued), 0);
}

#[test]
fn frames_are_sent_at_once_where_none_waits_and_keep_their_order_where_some_do() {
    let (lan, tx) = (FakeTx::default(), FakeTx::default());
    let mut egress = Egress::new(lan, vec![tx.clone()], 1000, capture::pair().0);
    let port = PortId::wan(tunnel::Port::default());
    let burst = |from: u8| -> ArrayVec<_, 4> {
        (from..from + 4).map(|n| HeapFrame::from(vec![n; 100]).share()).collect()
    };
    egress.transmit_all(port, &mut burst(0));
    assert_eq!(numbers(&tx), [0, 1, 2, 3]);
    tx.accept(1);
    egress.transmit_all(port, &mut burst(4));
    egress.transmit_all(port, &mut burst(8));
    assert_eq!(numbers(&tx), [0, 1, 2, 3, 4], "no use to try again in this round");
    tx.accept(1000);
    egress.flush(Time::ZERO);
    assert_eq!(numbers(&tx), (0..12).collect::<Vec<_>>());
    egress.transmit_at(port, Class::Data, packet(12));
    egress.transmit_all(port, &mut burst(13));
    egress.flush(Time::ZERO);
    assert_eq!(numbers(&tx), (0..17).collect::<Vec<_>>());
    let mut io = IoCounters::default();
    egress.report(&mut io);
    assert_eq!((io.port(port, PortIo::TxFrames), io.port(port, PortIo::TxBytes)), (17, 1700));
}
