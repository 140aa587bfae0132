//! A box that drains tells the Depots of its flows until they answer.
//!
//! A Depot that is not told holds early packets for a Sentry that is gone, until it notices by
//! itself.

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

/// A SYNC(release) that was not answered yet.
pub(crate) struct Release {
    pub headers: Headers,
    pub node: Option<NodeId>,
    pub epoch: Epoch,
    pub sync: SyncMessage,
}

/// The unanswered SYNC(release) of a box that drains; none before.
pub(crate) struct Releases {
    releases: HashMap<FlowKey, Release, foldhash::quality::FixedState>,
    is_draining: bool,
    tries: u32,
    /// When they are sent again.
    due: Time,
    /// Round trip time that is assumed until it is measured.
    rtt_guess: Span,
}

impl Releases {
    pub fn new(rtt_guess: Span, hash_seed: u64) -> Self {
        let state = foldhash::quality::FixedState::with_seed(hash_seed);
        let releases = HashMap::with_hasher(state);
        Self { releases, is_draining: false, tries: 0, due: Time::NEVER, rtt_guess }
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
    pub const fn due(&self) -> Time {
        self.due
    }

    /// A flow has just been released; its Depot is to answer. `rtt` is as measured, or zero.
    pub fn insert(&mut self, key: FlowKey, release: Release, rtt: Span, now: Time) {
        self.releases.insert(key, release);
        self.tries = 1;
        self.due = now + self.interval(rtt);
    }

    /// The Depot of a flow holds nothing any more.
    pub fn answered(&mut self, key: &FlowKey, epoch: Epoch) {
        if self.releases.get(key).is_some_and(|release| release.epoch == epoch) {
            self.releases.remove(key);
        }
        if self.releases.is_empty() {
            self.due = Time::NEVER;
        }
    }

    fn interval(&self, rtt: Span) -> Span {
        let rtt = if rtt > Span::ZERO { rtt } else { self.rtt_guess };
        rtt.scale(5, 4).max(INTERVAL_MIN)
    }

    /// Repeats those that are not answered.
    pub fn send_again<I: Io>(
        &mut self,
        peers: &mut Peers,
        counters: &mut Counters,
        io: &mut I,
        rtt: Span,
    ) {
        if io.now() < self.due {
            return;
        }
        if self.tries >= TRIES {
            self.releases.clear();
            self.due = Time::NEVER;
            return;
        }
        self.tries += 1;
        self.due = io.now() + self.interval(rtt);
        for (key, Release { headers, node, epoch, sync }) in &self.releases {
            let (node, dest_qpn, epoch) = (*node, key.dest_qpn, *epoch);
            let to = Address { headers, qpn: dest_qpn, node, dest_qpn, epoch };
            peers.send(counters, io, &to, &Message::Sync(*sync), Class::Data);
        }
    }
}
