//! Every frame is accounted for, at the end of every run.

use crate::node::Node;
use crate::topology::Network;

/// Checks that each frame that came to a node, by the books of the cables, left it
/// again, is held there, or was dropped and counted.
///
/// # Panics
/// If a frame is unaccounted for: a defect.
pub(super) fn check(network: &Network) {
    let mut arrived = vec![0; network.nodes.len()];
    for cable in &network.cables {
        arrived[cable.to.node] += cable.frames().1;
    }
    for ((node, cables), arrived) in network.nodes.iter().zip(&network.leaving).zip(arrived) {
        let left = cables.iter().map(|cable| network.cables[*cable].frames().0).sum();
        match node {
            Node::Host(host) => assert_eq!(host.frames(), (arrived, left), "a host's books"),
            Node::Switch(switch) => {
                assert_eq!(arrived, left + switch.drops + switch.held(), "a switch's books");
            }
            Node::Gateway(gateway) => gateway.check(arrived, left),
        }
    }
}
