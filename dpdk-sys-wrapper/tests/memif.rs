//! Two `net_memif` ports of one process, back to back, as between the demo's
//! programs, with frames up to jumbo size.

mod support;

use arrayvec::ArrayVec;
use common::frame::{Frame, Shared};
use dpdk_sys_wrapper::{Mbuf, Mempool, Port, PortConfig, RxQueue, RxRepairs, SharedMbuf, TxQueue};
use support::{eal, frame, pool, wait};

const MTU: u16 = 9000;

fn main() {
    let eal = eal(128);
    let pool = pool(&eal, 8191, MTU + 22);
    // An abstract socket leaves no file. Buffers of 2 KiB, the driver's
    // default, cut a jumbo frame into five.
    let open = |name: &str, role: &str, more: &str| {
        let socket = format!("lr2-memif-test-{}", std::process::id());
        let device = format!("{name},role={role},socket={socket}{more}");
        Port::open(&eal, &PortConfig { mtu: MTU, ..PortConfig::new(device) }, &pool)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let (a, mut a_rx, mut a_tx) = open("net_memif0", "server", "");
    let (b, mut b_rx, mut b_tx) = open("net_memif1", "client", "");
    assert!(!a.hands_pointers_on());
    wait("link", || (a.link().up && b.link().up).then_some(()));

    frames_cross_unchanged(&pool, &mut a_tx[0], &mut b_rx[0]);
    frames_cross_unchanged(&pool, &mut b_tx[0], &mut a_rx[0]);
    assert_eq!(a_rx[0].repairs(), RxRepairs::default(), "the driver joins what the ring cut");

    shares_are_copied_by_the_port(&pool, &mut a_tx[0], &mut b_rx[0]);

    let (sent, got) = (a.stats(), b.stats());
    assert_eq!(sent.tx_packets, got.rx_packets);
    assert_eq!(sent.tx_packets, LENGTHS.len() as u64 + 3);
    assert_eq!(sent.tx_bytes, got.rx_bytes);

    a_peer_that_leaves_takes_the_link_down(a, (b, b_rx, b_tx), &mut a_tx[0], &pool);
    drop((a_rx, a_tx));
    assert_eq!(pool.in_use(), 0);
    println!("ok");
}

const LENGTHS: [usize; 9] = [60, 64, 74, 1514, 2047, 2048, 2049, 4200, 9022];

/// Sends all of `packets` and receives as many. In the direction of the client
/// there is room only once the client has polled, which offers its buffers.
fn cross<const N: usize>(
    tx: &mut TxQueue,
    rx: &mut RxQueue,
    mut packets: ArrayVec<SharedMbuf, N>,
) -> Vec<Mbuf> {
    let n = packets.len();
    let mut all = Vec::new();
    wait("frame", || {
        tx.burst(&mut packets);
        let mut burst = ArrayVec::<Mbuf, 32>::new();
        rx.burst(&mut burst);
        all.extend(burst);
        (packets.is_empty() && all.len() >= n).then_some(())
    });
    assert_eq!(all.len(), n);
    all
}

fn frames_cross_unchanged(pool: &Mempool, tx: &mut TxQueue, rx: &mut RxQueue) {
    let packets: ArrayVec<_, 16> =
        LENGTHS.iter().map(|&len| frame(pool, len, len).share()).collect();
    let got = cross(tx, rx, packets);
    for (got, len) in got.iter().zip(LENGTHS) {
        assert_eq!(got.bytes(), frame(pool, len, len).bytes(), "frame of {len} bytes");
    }
}

fn shares_are_copied_by_the_port(pool: &Mempool, tx: &mut TxQueue, rx: &mut RxQueue) {
    let held = frame(pool, 4200, 1).share();
    let packets: ArrayVec<_, 3> = (0..3).map(|_| held.clone()).collect();
    for mut got in cross(tx, rx, packets) {
        assert_eq!(got.bytes(), held.bytes());
        got.bytes_mut().fill(0);
    }
    assert_eq!(held.bytes(), frame(pool, 4200, 1).bytes());
    assert_eq!(held.owners(), 1, "the port copied and let go");
}

fn a_peer_that_leaves_takes_the_link_down(
    a: Port,
    b: (Port, Vec<RxQueue>, Vec<TxQueue>),
    tx: &mut TxQueue,
    pool: &Mempool,
) {
    drop(b);
    wait("loss of link", || (!a.link().up).then_some(()));
    let mut packets = ArrayVec::<_, 1>::from([frame(pool, 64, 0).share()]);
    assert_eq!(tx.burst(&mut packets), 0, "nobody there to send to");
    assert_eq!(packets.len(), 1);
    // The driver reports the loss while its interrupt thread still frees the connection. To close
    // the port at that time crashed that thread once.
    std::thread::sleep(std::time::Duration::from_millis(200));
}
