//! A box that drains, or leaves the flows of some hosts, tells the Depots of its flows until they answer.
//!
//! A Depot that is not told holds early packets for a Sentry that is gone, until it notices by
//! itself.

use std::collections::VecDeque;

use common::control::{Epoch, Message, NodeId, SyncMessage};
use common::frame::Class;
use common::metrics::Counters;
use common::time::{Span, Time};
use common::wire::Headers;
use hashbrown::HashMap;

use crate::flow::key::FlowKey;
use crate::io::Io;
use crate::tx::peers::{Address, Peers};

/// How often each is told, the first time included.
const TRIES: u32 = 4;
/// Shortest time between two of them.
const INTERVAL_MIN: Span = Span::from_millis(1);
/// Repeats of one call: more would keep the ports waiting.
const REPEATS: usize = 64;

/// A SYNC(release) that was not answered yet.
pub(crate) struct Release {
    pub headers: Headers,
    pub node: Option<NodeId>,
    pub epoch: Epoch,
    pub sync: SyncMessage,
}

struct Told {
    release: Release,
    /// How often it was sent.
    tries: u32,
    /// Its place in the queue.
    turn: u64,
}

/// The unanswered SYNC(release).
pub(crate) struct Releases {
    releases: HashMap<FlowKey, Told, foldhash::quality::FixedState>,
    /// When each is sent again, in the order in which they were sent. Of some that were answered, too; the first was not.
    queue: VecDeque<(Time, FlowKey, u64)>,
    /// Entries of the queue so far.
    turns: u64,
    is_draining: bool,
    /// Round trip time that is assumed until it is measured.
    rtt_guess: Span,
}

impl Releases {
    pub fn new(rtt_guess: Span, hash_seed: u64) -> Self {
        let state = foldhash::quality::FixedState::with_seed(hash_seed);
        let releases = HashMap::with_hasher(state);
        Self { releases, queue: VecDeque::new(), turns: 0, is_draining: false, rtt_guess }
    }

    /// Assumes another round trip until it is measured.
    pub fn set_rtt_guess(&mut self, rtt_guess: Span) {
        self.rtt_guess = rtt_guess;
    }

    /// The box protects no flow from now on.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether the box drains.
    #[inline]
    pub const fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// When [`send_again`](Self::send_again) has to be called; [`Time::NEVER`] if no reply is
    /// awaited.
    #[inline]
    pub fn due(&self) -> Time {
        self.queue.front().map_or(Time::NEVER, |(due, ..)| *due)
    }

    /// A flow has just been released; its Depot is to answer. `rtt` is as measured, or zero.
    pub fn insert(&mut self, key: FlowKey, release: Release, rtt: Span, now: Time) {
        let turn = self.enqueue(key, rtt, now);
        self.releases.insert(key, Told { release, tries: 1, turn });
    }

    /// Its place in the queue.
    fn enqueue(&mut self, key: FlowKey, rtt: Span, now: Time) -> u64 {
        self.turns += 1;
        self.queue.push_back((now + self.interval(rtt), key, self.turns));
        self.turns
    }

    /// The Depot of a flow holds nothing any more.
    pub fn answered(&mut self, key: &FlowKey, epoch: Epoch) {
        if self.releases.get(key).is_some_and(|told| told.release.epoch == epoch) {
            self.releases.remove(key);
            self.trim();
        }
    }

    /// Removes answered ones from the front of the queue.
    fn trim(&mut self) {
        while let Some((_, key, turn)) = self.queue.front() {
            if self.releases.get(key).is_some_and(|told| told.turn == *turn) {
                break;
            }
            self.queue.pop_front();
        }
    }

    fn interval(&self, rtt: Span) -> Span {
        let rtt = if rtt > Span::ZERO { rtt } else { self.rtt_guess };
        rtt.scale(5, 4).max(INTERVAL_MIN)
    }

    /// Repeats some of those that are due, and forgets those that were repeated often enough.
    pub fn send_again<I: Io>(
        &mut self,
        peers: &mut Peers,
        counters: &mut Counters,
        io: &mut I,
        rtt: Span,
    ) {
        for _ in 0..REPEATS {
            let Some((due, key, _)) = self.queue.front().copied() else { return };
            if io.now() < due {
                return;
            }
            self.queue.pop_front();
            // It is not answered: those in front are not.
            if self.releases.get(&key).is_some_and(|told| told.tries >= TRIES) {
                self.releases.remove(&key);
            } else {
                let turn = self.enqueue(key, rtt, io.now());
                if let Some(told) = self.releases.get_mut(&key) {
                    (told.tries, told.turn) = (told.tries + 1, turn);
                    let Release { headers, node, epoch, sync } = &told.release;
                    let (node, dest_qpn, epoch) = (*node, key.dest_qpn, *epoch);
                    let to = Address { headers, qpn: dest_qpn, node, dest_qpn, epoch };
                    peers.send(counters, io, &to, &Message::Sync(*sync), Class::Data);
                }
            }
            self.trim();
        }
    }
}
