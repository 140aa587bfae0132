//! A box that drains tells the Depots of its flows until they answer.
//!
//! A Depot that is not told holds what is early for a Sentry that is no more, until it
//! notices by itself.

use common::control::{self, Message, SyncMessage};
use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Headers;
use hashbrown::HashMap;

use crate::flow::entry::{Id, Pipeline};
use crate::flow::key::FlowKey;
use crate::switch::{Io, Switch};
use crate::tx::actions::transmit;

/// How often each is told, the first time included.
const TRIES: u32 = 4;
/// Shortest time between two of them.
const INTERVAL_MIN: Span = Span::from_millis(1);

/// A SYNC(release) that was not answered yet.
struct Release {
    headers: Headers,
    node: Option<u32>,
    epoch: u32,
    sync: SyncMessage,
}

/// Those of a box that drains; none before.
pub(crate) struct Farewell {
    releases: HashMap<FlowKey, Release, foldhash::quality::FixedState>,
    tries: u32,
    /// When they are sent again.
    pub due: Time,
}

impl Farewell {
    pub fn new(hash_seed: u64) -> Self {
        let state = foldhash::quality::FixedState::with_seed(hash_seed);
        Self { releases: HashMap::with_hasher(state), tries: 0, due: Time::NEVER }
    }

    /// The Depot of a flow holds nothing any more.
    pub fn answered(&mut self, key: &FlowKey, epoch: u32) {
        if self.releases.get(key).is_some_and(|release| release.epoch == epoch) {
            self.releases.remove(key);
        }
        if self.releases.is_empty() {
            self.due = Time::NEVER;
        }
    }
}

impl<F: Frame> Switch<F> {
    /// Whether a Depot is still to be told that this box drains.
    pub fn is_leaving(&self) -> bool {
        self.farewell.due != Time::NEVER
    }

    /// Flow `id` has just been released; its Depot is to answer.
    pub(crate) fn await_release(&mut self, id: Id, now: Time) {
        let Some(entry) = self.table.get(id) else { return };
        let Pipeline::Sentry(stage) = &entry.pipeline else { return };
        let Some(sync) = stage.state.release(entry.src_qpn(), now) else { return };
        let (headers, node, epoch) = (stage.headers.clone(), stage.node, stage.state.epoch());
        self.farewell.releases.insert(entry.key, Release { headers, node, epoch, sync });
        self.farewell.tries = 1;
        self.farewell.due = now + self.release_interval();
    }

    fn release_interval(&self) -> Span {
        let measured = Some(self.allowance.rtt()).filter(|rtt| *rtt > Span::ZERO);
        measured.unwrap_or(self.config.tuning.rtt_guess).scale(5, 4).max(INTERVAL_MIN)
    }

    /// Tells those again that have not answered.
    pub(crate) fn release_again<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if io.now < self.farewell.due {
            return;
        }
        if self.farewell.tries >= TRIES {
            self.farewell.releases.clear();
            self.farewell.due = Time::NEVER;
            return;
        }
        self.farewell.tries += 1;
        self.farewell.due = io.now + self.release_interval();
        let tx = &mut self.tx;
        for (key, Release { headers, node, epoch, sync }) in &self.farewell.releases {
            let message = Message::Sync(*sync);
            let Some(mut frame) = io.pool.alloc(headers.frame_len(control::body_len(&message)))
            else {
                tx.counters.inc(Metric::AllocSync);
                continue;
            };
            let header = tx.peers.header(*node, key.dest_qpn, *epoch);
            let bytes = frame.bytes_mut();
            control::encode(headers, tx.opcode, key.dest_qpn, &header, &message, &tx.keys, bytes);
            tx.counters.inc(Metric::CreatedSync);
            tx.counters.inc(Metric::SyncRelease);
            transmit(&mut tx.counters, io.sink, Side::Wan, Class::Data, Packet::Owned(frame));
        }
    }
}
