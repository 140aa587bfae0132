//! The other end of a `net_memif` leaves again and again while frames cross, on a machine that is busy: DPDK's interrupt
//! thread then unmaps the rings, and no burst may be in them.

mod support;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{available_parallelism, scope, sleep};
use std::time::Duration;

use arrayvec::ArrayVec;
use common::frame::Frame;
use dpdk_sys_wrapper::{Mbuf, Port, PortConfig, RxQueue, SharedMbuf, TxQueue};
use support::{eal, frame, pool, wait};

const MTU: u16 = 4200;
/// Without the gate (src/gate.rs) a burst was in unmapped memory within the first second, in each of three runs.
const LEAVES: usize = 40;
const BURST: usize = 32;

fn main() {
    let eal = eal(128);
    let pool = pool(&eal, 16_383, MTU + 22);
    let socket = format!("lr2-memif-leaves-{}", std::process::id());
    let open = |n: u8, role: &str| {
        let device = format!("net_memif{n},role={role},socket={socket},bsize=9216");
        Port::open(&eal, &PortConfig { mtu: MTU, ..PortConfig::new(device) }, &pool)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let (server, mut rx, mut tx) = open(0, "server");
    let (done, got) = (AtomicBool::new(false), AtomicU64::new(0));
    scope(|threads| {
        // Otherwise bursts would hardly ever be interrupted in the middle.
        for _ in 0..2 * available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        threads.spawn(|| {
            let sent = frame(&pool, usize::from(MTU), 0).share();
            while !done.load(Ordering::Relaxed) {
                got.fetch_add(exchange(&sent, &mut rx[0], &mut tx[0]), Ordering::Relaxed);
            }
        });
        let sent = frame(&pool, usize::from(MTU), 1).share();
        for _ in 0..LEAVES {
            let (client, mut rx, mut tx) = open(1, "client");
            wait("link", || (server.link().up && client.link().up).then_some(()));
            let before = got.load(Ordering::Relaxed);
            wait("frames", || {
                exchange(&sent, &mut rx[0], &mut tx[0]);
                (got.load(Ordering::Relaxed) > before).then_some(())
            });
            drop((client, rx, tx));
            wait("loss of link", || (!server.link().up).then_some(()));
        }
        sleep(Duration::from_millis(20));
        done.store(true, Ordering::Relaxed);
    });
    drop((server, rx, tx));
    assert_eq!(pool.in_use(), 0);
    println!("ok");
}

/// Sends a burst of the frame and receives one; returns how many frames came.
fn exchange(sent: &SharedMbuf, rx: &mut RxQueue, tx: &mut TxQueue) -> u64 {
    let mut frames: ArrayVec<_, BURST> = (0..BURST).map(|_| sent.clone()).collect();
    tx.burst(&mut frames);
    let mut got = ArrayVec::<Mbuf, BURST>::new();
    rx.burst(&mut got) as u64
}
