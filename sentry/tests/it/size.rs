//! The size of a flow with nothing in flight: a box has tens of thousands.

use common::heap::HeapFrame;
use common::window::FEW;
use sentry::Flow;
use sentry::Recovery::{Cached, Lr2};
use testkit::sentry::*;

/// In bytes. A number that grows is worth a thought: times 65,536 it is the cost of
/// idle flows.
const FLOW: usize = 1168;
/// The rest of its ring, for a few packets.
const FEW_BYTES: usize = FEW * Flow::<HeapFrame>::SLOT;

#[test]
fn an_idle_flow_is_small() {
    let flow = size_of::<Flow<HeapFrame>>();
    println!("an idle flow at the Sentry takes {flow} bytes");
    assert_eq!(flow, FLOW);
}

#[test]
fn a_flow_begins_with_no_memory_besides_itself() {
    assert_eq!(Bench::start(Cached).flow.heap_bytes(), 0);
}

/// Packets, READs, and ACKs that wait for missing responses.
#[test]
fn an_idle_flow_gives_back_what_a_burst_took() {
    const READS: i32 = 200;
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.data(1..1_000);
    bench.ack(999, 1);
    for n in 1_000..1_000 + READS {
        bench.frame(read(n, 256));
    }
    for n in 1_001..1_000 + READS {
        bench.respond(part(n..n + 1, n));
    }
    let busy = bench.flow.heap_bytes();
    bench.flow.shrink();
    assert!(bench.flow.heap_bytes() > READS as usize * 32, "all this is still in use");
    bench.respond(part(1_000..1_001, 1_000));
    assert!(bench.flow.heap_bytes() > busy / 4, "nothing is given back packet by packet");
    bench.flow.shrink();
    assert_eq!((bench.flow.heap_bytes(), bench.pool.frames()), (0, 0));
}

/// Repeats that are kept in a mode without a cache.
#[test]
fn an_idle_flow_gives_back_what_a_rewind_took() {
    let mut bench = Bench::protected(Lr2, 100, Some(0));
    bench.nak(0);
    bench.data(0..100);
    assert_eq!(bench.cache.frames(), 100);
    bench.ack(99, 100);
    bench.status(100, 100, &[]);
    assert!(bench.flow.heap_bytes() > 0);
    bench.flow.shrink();
    assert_eq!((bench.flow.heap_bytes(), bench.cache.frames()), (FEW_BYTES, 0));
}
