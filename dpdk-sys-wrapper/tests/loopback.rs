//! Frames through a `net_ring` port, whose receive side gets the frames of its
//! transmit side, and the release of their mbufs.

mod support;

use arrayvec::ArrayVec;
use common::frame::{Frame, Pool, Shared};
use dpdk_sys_wrapper::{Mbuf, Mempool, PoolHandle, Port, PortConfig, RxQueue, SharedMbuf, TxQueue};
use support::{eal, frame, pool};

/// Mbufs that a `net_ring` made by EAL holds: a ring of 1024 slots.
const RING: usize = 1023;

fn main() {
    let eal = eal(96);
    let pool = pool(&eal, 8191, 2048);
    let config = PortConfig { mtu: 1500, ..PortConfig::new("net_ring0") };
    let (port, mut rx, mut tx) = Port::open(&eal, &config, &pool).expect("net_ring0");
    let (mut rx, mut tx) = (rx.remove(0), tx.remove(0));
    assert_eq!(port.name(), "net_ring0");
    assert_eq!(port.driver(), "net_ring");
    assert!(port.hands_pointers_on());
    assert_eq!(pool.in_use(), 0);

    bytes_come_out_as_they_went_in(&pool, &mut rx, &mut tx);
    a_short_burst_keeps_the_tail(&pool, &mut rx, &mut tx);
    a_share_survives_transmission(&pool, &mut rx, &mut tx);
    a_copy_without_mbufs_ends_the_burst(&pool, &mut rx, &mut tx);
    one_port_is_opened_once(&eal, &config, &pool);
    what_nobody_received_is_freed_with_the_port(&pool, port, rx, tx);
    the_port_can_be_opened_again(&eal, &config, &pool);
    println!("ok");
}

fn receive(rx: &mut RxQueue) -> Vec<Mbuf> {
    let mut all = Vec::new();
    loop {
        let mut burst = ArrayVec::<Mbuf, 32>::new();
        if rx.burst(&mut burst) == 0 {
            return all;
        }
        all.extend(burst);
    }
}

fn bytes_come_out_as_they_went_in(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let lengths = [14, 60, 64, 65, 1514, 2048];
    let mut packets: ArrayVec<_, 8> =
        lengths.iter().enumerate().map(|(i, &l)| frame(pool, l, i).share()).collect();
    assert_eq!(tx.burst(&mut packets), lengths.len());
    assert!(packets.is_empty());
    let got = receive(rx);
    assert_eq!(got.len(), lengths.len());
    for (i, (got, &len)) in got.iter().zip(&lengths).enumerate() {
        assert_eq!(got.bytes(), frame(pool, len, i).bytes(), "frame {i} of {len} bytes");
    }
    drop(got);
    assert_eq!(pool.in_use(), 0);
}

fn a_short_burst_keeps_the_tail(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let mut sent = 0;
    let mut packets = ArrayVec::<SharedMbuf, 32>::new();
    loop {
        while !packets.is_full() {
            packets.push(frame(pool, 64, sent + packets.len()).share());
        }
        let n = tx.burst(&mut packets);
        sent += n;
        assert_eq!(packets.len(), 32 - n);
        if n < 32 {
            break;
        }
    }
    assert_eq!(sent, RING, "the ring is full");
    assert_eq!(packets[0].bytes(), frame(pool, 64, sent).bytes(), "the tail moved to the front");
    assert_eq!(tx.burst(&mut packets), 0);
    assert_eq!(pool.in_use() as usize, sent + packets.len());
    let got = receive(rx);
    assert_eq!(got.len(), RING);
    for (i, got) in got.iter().enumerate() {
        assert_eq!(got.bytes(), frame(pool, 64, i).bytes(), "frame {i}");
    }
    drop(got);
    let tail = packets.len();
    assert_eq!(tx.burst(&mut packets), tail, "room again");
    assert_eq!(receive(rx).len(), tail);
    assert_eq!(pool.in_use(), 0);
}

fn a_share_survives_transmission(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let held = frame(pool, 100, 7).share();
    let twin = held.clone();
    assert_eq!(held.owners(), 2);
    assert_eq!(pool.in_use(), 1, "a share is no copy");
    let mut packets = ArrayVec::<_, 1>::from([twin]);
    assert_eq!(tx.burst(&mut packets), 1);
    assert_eq!(held.owners(), 1, "a copy was sent");
    let mut got = receive(rx);
    assert_eq!(got[0].bytes(), held.bytes());
    got[0].bytes_mut().fill(0xee);
    assert_eq!(held.bytes(), frame(pool, 100, 7).bytes(), "the receiver edited its own copy");
    drop(got);

    // The last owner's handle needs no copy: the mbuf itself is transmitted.
    let address = held.bytes().as_ptr();
    let mut packets = ArrayVec::<_, 1>::from([held]);
    assert_eq!(tx.burst(&mut packets), 1);
    let got = receive(rx);
    assert_eq!(got[0].bytes().as_ptr(), address);
    drop(got);
    assert_eq!(pool.in_use(), 0);
}

fn a_copy_without_mbufs_ends_the_burst(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let first = frame(pool, 64, 0);
    let held = frame(pool, 64, 1).share();
    let mut hoard = Vec::new();
    while let Some(frame) = pool.alloc() {
        hoard.push(frame);
    }
    assert_eq!(hoard.len() as u32, pool.size() - 2);
    assert_eq!(pool.available(), 0);
    assert!(PoolHandle::new(pool, 0).alloc(64).is_none());
    let mut packets = ArrayVec::<_, 2>::from([first.share(), held.clone()]);
    assert_eq!(tx.burst(&mut packets), 1);
    assert_eq!(packets.len(), 1, "the packet that needs a copy waits");
    drop(hoard.pop());
    assert_eq!(tx.burst(&mut packets), 1);
    drop((receive(rx), hoard, held));
    assert_eq!(pool.in_use(), 0);
}

fn one_port_is_opened_once(eal: &dpdk_sys_wrapper::Eal, config: &PortConfig, pool: &Mempool) {
    let error = Port::open(eal, config, pool).unwrap_err().to_string();
    assert_eq!(error, "port net_ring0: opening: it is open already");
}

fn what_nobody_received_is_freed_with_the_port(
    pool: &Mempool,
    port: Port,
    rx: RxQueue,
    mut tx: TxQueue,
) {
    let mut packets: ArrayVec<_, 8> = (0..8).map(|i| frame(pool, 64, i).share()).collect();
    assert_eq!(tx.burst(&mut packets), 8);
    drop((port, rx));
    assert_eq!(pool.in_use(), 8, "the port lives as long as its queues");
    drop(tx);
    assert_eq!(pool.in_use(), 0);
    assert_eq!(pool.claimed(), 0);
}

fn the_port_can_be_opened_again(eal: &dpdk_sys_wrapper::Eal, config: &PortConfig, pool: &Mempool) {
    let (port, mut rx, mut tx) = Port::open(eal, config, pool).expect("a second time");
    let mut packets = ArrayVec::<_, 1>::from([frame(pool, 64, 0).share()]);
    assert_eq!(tx[0].burst(&mut packets), 1);
    assert_eq!(receive(&mut rx[0]).len(), 1);
    drop((port, rx, tx));
    assert_eq!(pool.in_use(), 0);
}
