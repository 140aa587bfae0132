//! The flow table: one entry per direction and destination QP.

use core::hash::{BuildHasher, Hash, Hasher};
use core::num::NonZero;

use common::frame::{Frame, Side};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Addr, Headers, Roce, Vlans};
use hashbrown::HashMap;
use slab::Slab;

use crate::index::Index;
use crate::moves::{Away, Changed};
use crate::pairing::{Arrived, Matching};

/// What tells flows apart (docs/protocol.md, "Words"), with the side they come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowKey {
    pub hosts: Hosts,
    pub dest_qpn: u32,
}

impl FlowKey {
    /// Of the stream that a packet belongs to which arrived on `side`.
    #[inline]
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { hosts: Hosts::of(side, roce), dest_qpn: roce.dest_qpn }
    }
}

impl Hash for FlowKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_words(self.hosts.words(self.dest_qpn), state);
    }
}

impl PartialEq for FlowKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.hosts.words(self.dest_qpn), other.hosts.words(other.dest_qpn));
        // In one go: as a rule they are equal.
        (a.0 ^ b.0) | (a.1 ^ b.1) | u128::from(a.2 ^ b.2) == 0
    }
}

impl Eq for FlowKey {}

#[inline]
fn hash_words<H: Hasher>((src, dst, rest): (u128, u128, u64), state: &mut H) {
    state.write_u128(src);
    state.write_u128(dst);
    state.write_u64(rest);
}

/// One direction between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hosts {
    /// The port that packets of this direction arrive on.
    pub side: Side,
    pub vlans: Vlans,
    pub src: Addr,
    pub dst: Addr,
}

impl Hash for Hosts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_words(self.words(0), state);
    }
}

impl Hosts {
    /// All of it, with `qpn`, in as few numbers as it takes.
    #[inline]
    fn words(&self, qpn: u32) -> (u128, u128, u64) {
        let vlans = u64::from(self.vlans.packed());
        (
            u128::from_ne_bytes(*self.src.as_bytes()),
            u128::from_ne_bytes(*self.dst.as_bytes()),
            vlans << 32 | u64::from(qpn) << 1 | self.side.index() as u64,
        )
    }

    /// The direction of a packet that arrived on `side`.
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { side, vlans: roce.vlans, src: roce.src, dst: roce.dst }
    }

    /// The way back.
    pub fn reversed(self) -> Self {
        Self { side: self.side.other(), vlans: self.vlans, src: self.dst, dst: self.src }
    }
}

/// Index of an entry.
pub(crate) type Id = u32;

/// Everything about one flow.
pub(crate) struct Entry<F: Frame> {
    pub key: FlowKey,
    /// The flow of the opposite direction of the same queue pair ...
    peer: Option<NonZero<u32>>,
    /// ... and its destination QP, which is this flow's requester.
    requester: Option<NonZero<u32>>,
    /// The operator named its peer: it is not looked for, and stays over lives.
    pub named: bool,
    /// What is known of its next packet, if it has no pipeline.
    pub announced: Option<Announced>,
    /// What is known of the peer flow while it isn't sure.
    pub matching: Option<Box<Matching>>,
    /// The pipeline that its requests go through.
    pub pipeline: Pipeline<F>,
    /// When a timer of this entry is due; [`Time::NEVER`] if none is set.
    pub armed: Time,
    /// Its newest packet.
    pub seen: Seen,
    /// Tells apart the entries that use one index after each other.
    pub generation: u32,
    /// The generation in which the flow's present life began.
    pub born: u32,
}

impl<F: Frame> Entry<F> {
    /// The flow of the opposite direction of the same queue pair, if it is known.
    #[inline]
    pub fn peer(&self) -> Option<Id> {
        self.peer.map(|id| id.get() - 1)
    }

    /// The requester's QPN, if it is known.
    #[inline]
    pub fn requester(&self) -> Option<u32> {
        self.requester.map(|qpn| qpn.get() - 1)
    }
}

impl<F: Frame> Entry<F> {
    /// Its requester is unknown again.
    pub fn forget_requester(&mut self) {
        self.requester = None;
    }

    /// Gives up the pipeline if it has nothing to do. The next packet makes it
    /// another, of a new epoch, that knows all that is worth to be known.
    pub fn rest(&mut self, config: &sentry::Config, now: Time) {
        match &self.pipeline {
            Pipeline::Sentry(stage) => {
                let Some(rest) = stage.state.rest(config, now) else { return };
                let sentry::Rest { psn, msn, pmtu, rtt } = rest;
                self.announced = Some(Announced::new(By::Past, psn, msn, pmtu, rtt));
            }
            Pipeline::Depot(stage) if stage.state.is_at_rest() => {}
            _ => return,
        }
        self.pipeline = Pipeline::None;
    }
}

/// A moment, to a millisecond or so. Moments that lie 50 days apart look alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u32);

impl Seen {
    /// About a millisecond.
    const SHIFT: u32 = 20;

    #[inline]
    pub fn at(now: Time) -> Self {
        Self((now.as_nanos() >> Self::SHIFT) as u32)
    }

    /// How long ago it was.
    pub fn since(self, now: Time) -> Span {
        let ticks = Self::at(now).0.wrapping_sub(self.0);
        Span::from_nanos(u64::from(ticks) << Self::SHIFT)
    }
}

/// What is known of a flow before its first packet, or its next after a long rest:
/// all before it was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    /// Who says so.
    pub by: By,
    /// The PSN of its next request.
    pub first_psn: Psn,
    /// Messages that are complete before it, as the destination counts.
    pub msn: u32,
    /// Path MTU as a power of two; 0: unknown.
    pmtu: u8,
    /// The long-haul round trip in units of [`RTT_UNIT`]; 0: unknown.
    rtt: u16,
}

/// So that 16 bits hold a second.
const RTT_UNIT: Span = Span::from_micros(16);

impl Announced {
    /// `pmtu` is in bytes, or 0 if it is unknown.
    pub fn new(by: By, first_psn: Psn, msn: u32, pmtu: u16, rtt: Option<Span>) -> Self {
        let units = rtt.map_or(0, |rtt| (rtt.as_nanos() / RTT_UNIT.as_nanos()).max(1));
        Self {
            by,
            first_psn,
            msn,
            pmtu: pmtu.checked_ilog2().unwrap_or(0) as u8,
            rtt: u16::try_from(units).unwrap_or(u16::MAX),
        }
    }

    /// Nothing is known but that the flow has begun before.
    pub fn under_way() -> Self {
        Self::new(By::Nobody, Psn::default(), 0, 0, None)
    }

    /// Path MTU in bytes; 0: unknown.
    pub fn pmtu(&self) -> u16 {
        if self.pmtu == 0 { 0 } else { 1 << self.pmtu }
    }

    /// The long-haul round trip, if it was measured.
    pub fn rtt(&self) -> Option<Span> {
        (self.rtt != 0).then(|| RTT_UNIT * u64::from(self.rtt))
    }
}

/// Who knows how a flow begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// The hosts agreed on it.
    Hosts,
    /// It had a pipeline, which had nothing to do for long.
    Past,
    /// Nobody: packets of it went another way before.
    Nobody,
}

/// What happens to the requests of a flow.
pub(crate) enum Pipeline<F: Frame> {
    /// None were seen yet; so far this is only where ACKs go.
    None,
    /// They leave for the long-haul link.
    Sentry(Box<Stage<sentry::Flow<F>>>),
    /// They arrive from it.
    Depot(Box<Stage<depot::Flow<F>>>),
    /// Another worker's.
    Away(Away),
}

/// A pipeline's state with what its own frames are made from.
pub(crate) struct Stage<S> {
    pub state: S,
    pub headers: Headers,
    /// When `headers` was last taken from a packet.
    pub headers_at: Time,
    /// What has arrived of the requests.
    pub arrived: Arrived,
    /// UDP source port, as a hint for pairing.
    pub src_port: u16,
    /// The box that answers, or asks, for this flow.
    pub node: Option<u32>,
}

/// All flows of a worker.
pub(crate) struct Table<F: Frame> {
    index: Index,
    hash: foldhash::quality::FixedState,
    entries: Slab<Entry<F>>,
    /// One past the largest index that was ever in use.
    end: Id,
    /// Flows with requests whose requester is unknown, by their hosts.
    unpaired: HashMap<Hosts, Vec<Id>, foldhash::quality::FixedState>,
    limit: usize,
    generation: u32,
    removed: u64,
    /// Flows that were joined with others, or parted from them.
    pub changed: Changed,
}

impl<F: Frame> Table<F> {
    pub fn new(limit: usize, seed: u64) -> Self {
        // An index of 32 bits, and one that stands for none.
        let limit = limit.min(Id::MAX as usize - 1);
        let hash = foldhash::quality::FixedState::with_seed(seed);
        Self {
            index: Index::new(limit),
            // Never moved, and no memory until it is used.
            entries: Slab::with_capacity(limit),
            end: 0,
            unpaired: HashMap::with_hasher(hash.clone()),
            hash,
            limit,
            generation: 0,
            removed: 0,
            changed: Changed::default(),
        }
    }

    /// The hash of a key: the same in all tables with this one's seed.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        self.hash.hash_one(key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many more entries may come.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// One past the largest index that was ever in use.
    pub fn end(&self) -> Id {
        self.end
    }

    /// The newest generation of entries and lives.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How many entries were taken out so far: an index that was found may be
    /// another flow's when there are more.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    #[inline]
    pub fn find(&self, key: &FlowKey) -> Option<Id> {
        self.find_hashed(self.hash.hash_one(key), key)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, key: &FlowKey) -> Option<Id> {
        self.index.find(hash, |id| self.get(id).is_some_and(|entry| entry.key == *key))
    }

    /// Looks at what will be needed of a flow, or of the one that it answers, so
    /// that it is in the cache by then.
    #[inline]
    pub fn warm(&self, id: Id) {
        let Some(entry) = self.get(id) else { return };
        let flow = match entry.pipeline {
            Pipeline::None => entry.peer().and_then(|peer| self.get(peer)),
            _ => Some(entry),
        };
        match flow.map(|flow| &flow.pipeline) {
            Some(Pipeline::Sentry(stage)) => stage.state.warm(),
            Some(Pipeline::Depot(stage)) => stage.state.warm(),
            _ => {}
        }
    }

    #[inline]
    pub fn get(&self, id: Id) -> Option<&Entry<F>> {
        self.entries.get(id as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Entry<F>> {
        self.entries.get_mut(id as usize)
    }

    /// The entry of `key`, new if need be; with whether it is new. `None` if
    /// the table is full.
    pub fn entry(&mut self, key: FlowKey, now: Time) -> Option<(Id, bool)> {
        let hash = self.hash.hash_one(key);
        if let Some(id) = self.find_hashed(hash, &key) {
            return Some((id, false));
        }
        let id = self.entries.vacant_key() as Id;
        if self.entries.len() >= self.limit || !self.index.insert(hash, id) {
            return None;
        }
        self.end = self.end.max(id + 1);
        self.generation = self.generation.wrapping_add(1);
        self.entries.insert(Entry {
            key,
            peer: None,
            requester: None,
            named: false,
            announced: None,
            matching: None,
            pipeline: Pipeline::None,
            armed: Time::NEVER,
            seen: Seen::at(now),
            generation: self.generation,
            born: self.generation,
        });
        Some((id, true))
    }

    /// Takes an entry out, and its peer's knowledge of it.
    pub fn remove(&mut self, id: Id) -> Option<Entry<F>> {
        self.unpair(id);
        let entry = self.entries.try_remove(id as usize)?;
        self.removed += 1;
        self.index.remove(self.hash.hash_one(entry.key), id);
        self.forget_unpaired(&entry.key.hosts, id);
        Some(entry)
    }

    /// The flow's requester is to be found.
    pub fn await_pairing(&mut self, id: Id) {
        if let Some(entry) = self.get(id)
            && entry.peer.is_none()
        {
            let list = self.unpaired.entry(entry.key.hosts).or_default();
            if !list.contains(&id) {
                list.push(id);
            }
        }
    }

    /// Flows between `hosts` whose requester is unknown.
    pub fn unpaired(&self, hosts: &Hosts) -> &[Id] {
        self.unpaired.get(hosts).map_or(&[], Vec::as_slice)
    }

    /// `a` and `b` are the two directions of one queue pair.
    pub fn pair(&mut self, a: Id, b: Id) {
        self.unpair(a);
        self.unpair(b);
        self.changed.note(a);
        for (one, other) in [(a, b), (b, a)] {
            let requester = self.get(other).map(|entry| entry.key.dest_qpn);
            if let Some(entry) = self.get_mut(one) {
                entry.peer = NonZero::new(other + 1);
                entry.requester = requester.and_then(|qpn| NonZero::new(qpn + 1));
                entry.matching = None;
                let hosts = entry.key.hosts;
                self.forget_unpaired(&hosts, one);
            }
        }
    }

    /// The requester of flow `id` is known; what it is answered is not to be learned
    /// from yet.
    pub fn name_requester(&mut self, id: Id, qpn: u32) {
        if let Some(entry) = self.get_mut(id) {
            entry.requester = NonZero::new(qpn + 1);
        }
    }

    /// Nothing is known any more of which flows belong together with `id`.
    pub fn unpair(&mut self, id: Id) {
        let Some(peer) = self.get(id).and_then(Entry::peer) else { return };
        for one in [id, peer] {
            if let Some(entry) = self.get_mut(one) {
                (entry.peer, entry.requester) = (None, None);
            }
            self.changed.note(one);
        }
        for one in [id, peer] {
            let pipeline = self.get(one).map(|entry| &entry.pipeline);
            if matches!(pipeline, Some(Pipeline::Sentry(_) | Pipeline::Depot(_))) {
                self.await_pairing(one);
            }
        }
    }

    /// Another life of the flow's QP number begins: its requester may be
    /// another one, too, unless the operator vouches for it.
    pub fn begin_life(&mut self, id: Id) {
        if !self.get(id).is_some_and(|entry| entry.named) {
            self.unpair(id);
            self.get_mut(id).map(Entry::forget_requester);
            self.changed.note(id);
        }
        self.generation = self.generation.wrapping_add(1);
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.born = self.generation;
            entry.announced = None;
        }
    }

    fn forget_unpaired(&mut self, hosts: &Hosts, id: Id) {
        if let Some(list) = self.unpaired.get_mut(hosts) {
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.unpaired.remove(hosts);
            }
        }
    }
}
