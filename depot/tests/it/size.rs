//! The size of a flow with nothing in flight: a box has tens of thousands.

use common::heap::HeapFrame;
use common::window::FEW;
use depot::Flow;
use testkit::depot::*;

/// In bytes. A number that grows is worth a thought: times 65,536 it is the cost of
/// idle flows.
const FLOW: usize = 488;
/// The rest of its rings, for a few packets.
const FEW_BYTES: usize = FEW * (Flow::<HeapFrame>::SLOT + Flow::<HeapFrame>::BACKUP_SLOT + 16);

#[test]
fn an_idle_flow_is_small() {
    let flow = size_of::<Flow<HeapFrame>>();
    println!("an idle flow at the Depot takes {flow} bytes");
    assert_eq!(flow, FLOW);
}

#[test]
fn a_flow_begins_with_no_memory_besides_itself() {
    assert_eq!(Bench::default().flow.heap_bytes(), 0);
}

/// Gaps, packets that wait, packets that are kept, and READ responses.
#[test]
fn an_idle_flow_gives_back_what_a_burst_took() {
    let mut bench = Bench::paired();
    bench.data((1..400).filter(|n| n % 2 == 0));
    (1..400).filter(|n| n % 2 == 1).for_each(|n| bench.frame(asking(n)));
    for n in 400..600 {
        bench.frame(read(n, 1));
        let _ = bench.respond(response(n));
    }
    bench.flow.shrink();
    let kept = bench.flow.heap_bytes();
    assert!(kept > 200 * 8, "responses are still kept");
    // Long enough for them to count as arrived, too short for a reset.
    bench.run_timers(bench.now + RTT * 6);
    assert!(bench.flow.is_synced());
    assert_eq!(bench.flow.heap_bytes(), kept, "nothing is given back packet by packet");
    bench.flow.shrink();
    let held = [&bench.pool, &bench.backup, &bench.cache].map(|pool| pool.frames());
    assert_eq!(held, [0; 3]);
    assert!(bench.flow.heap_bytes() <= FEW_BYTES, "{}", bench.flow.heap_bytes());
}
