//! The boxes at the other ends, as far as their control messages tell.

use common::control::{Header, Replay, Stale};
use hashbrown::HashMap;

/// Most boxes that are remembered. A message of a further one is dropped; all
/// of them hold the key, so this is a limit on mistakes.
const MAX: usize = 1024;

/// Which messages were seen of whom.
pub(crate) struct Peers {
    node: u32,
    boot: u64,
    sent: u64,
    boxes: HashMap<u32, Replay, foldhash::quality::FixedState>,
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
        Self { node, boot, sent: 0, boxes: HashMap::with_hasher(state) }
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
