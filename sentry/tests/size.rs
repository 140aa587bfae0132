//! What a flow takes while nothing is in flight: a box has tens of thousands.

use std::collections::VecDeque;

use common::heap::HeapFrame;
use common::window::Window;
use sentry::Flow;

/// In bytes. A number that grows is worth a thought: times 65,536 it is what
/// idle flows cost.
const FLOW: usize = 1112;

#[test]
fn an_idle_flow_is_small() {
    let flow = size_of::<Flow<HeapFrame>>();
    println!("an idle flow at the Sentry takes {flow} bytes");
    assert_eq!(flow, FLOW);
}

/// They are all that lies outside of it, and take nothing until something is
/// in flight. (`common` has the test that a window gives its memory back.)
#[test]
fn nothing_in_flight_takes_no_memory() {
    let window = Window::<u64>::new(common::psn::Seq::default());
    let (queue, list) = (VecDeque::<u64>::new(), Vec::<u64>::new());
    let header = size_of_val(&window);
    println!("an empty window takes {header} bytes and no heap");
    assert_eq!((header, queue.capacity(), list.capacity()), (40, 0, 0));
}
