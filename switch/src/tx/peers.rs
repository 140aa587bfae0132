//! The boxes at the other ends, as far as their control messages tell.

use core::hash::BuildHasher;

use common::control::{Header, Replay, Stale};
use common::wire::Addr;
use hashbrown::HashMap;

/// Most boxes that are remembered. A message of a further one is dropped; all
/// of them hold the key, so this is a limit on mistakes.
const MAX: usize = 1024;
/// Destinations of which it is remembered which box answers for them, at most.
const ROUTES: usize = 1024;

/// Which messages were seen of whom.
pub(crate) struct Peers {
    node: u32,
    boot: u64,
    sent: u64,
    boxes: HashMap<u32, Replay, foldhash::quality::FixedState>,
    /// Which box answered last for a flow to a destination. Two destinations may have the
    /// same place: then the newer one is remembered.
    routes: Box<[Option<(Addr, u32)>]>,
}

/// Why an authentic message isn't accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Our own message came back, or there are too many boxes.
    Stranger,
    /// Seen before, or too old to tell.
    Replayed,
}

impl Peers {
    pub fn new(node: u32, boot: u64, hash_seed: u64) -> Self {
        let state = foldhash::quality::FixedState::with_seed(hash_seed);
        let routes = vec![None; ROUTES].into_boxed_slice();
        Self { node, boot, sent: 0, boxes: HashMap::with_hasher(state), routes }
    }

    fn route(&mut self, to: &Addr) -> &mut Option<(Addr, u32)> {
        let hash = self.boxes.hasher().hash_one(to);
        &mut self.routes[hash as usize % ROUTES]
    }

    /// `node` answered for a flow to `to`, and was heard.
    pub fn learn_route(&mut self, to: Addr, node: u32) {
        *self.route(&to) = Some((to, node));
    }

    /// Nothing is heard for flows to `to` any more.
    pub fn forget_route(&mut self, to: &Addr) {
        self.route(to).take_if(|(known, _)| known == to);
    }

    /// The box that answers for flows to `to`, as far as is known (R-PEER-11).
    pub fn towards(&mut self, to: &Addr) -> Option<u32> {
        self.route(to).filter(|(known, _)| known == to).map(|(_, node)| node)
    }

    /// When this box started.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Accepts each message of each peer once.
    pub fn accept(&mut self, header: &Header) -> Result<(), Refused> {
        let known = self.boxes.contains_key(&header.node);
        if header.node == self.node || (!known && self.boxes.len() >= MAX) {
            return Err(Refused::Stranger);
        }
        let replay = self.boxes.entry(header.node).or_default();
        match replay.accept(header.boot, header.seq) {
            Ok(_) => Ok(()),
            Err(Stale::OldBoot | Stale::Replayed | Stale::TooOld) => Err(Refused::Replayed),
        }
    }

    /// The header of the next message about a flow, to `peer` if it is known.
    pub fn header(&mut self, peer: Option<u32>, dest_qpn: u32, epoch: u32) -> Header {
        self.sent += 1;
        let newest = peer.and_then(|node| self.boxes.get(&node)).map(Replay::newest);
        let (seen_boot, seen_seq) = newest.unwrap_or_default();
        Header {
            node: self.node,
            boot: self.boot,
            seq: self.sent,
            seen_boot,
            seen_seq,
            dest_qpn,
            epoch,
        }
    }
}
