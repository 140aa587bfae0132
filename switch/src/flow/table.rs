//! The flow table: one entry per direction and destination QP.

use common::cpu::prefetch;
use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::time::{Span, Time};
use common::wire::Addr;

use crate::flow::entries::Entries;
use crate::flow::entry::{Entry, FlowState};
use crate::flow::index::Index;
use crate::flow::key::{FlowKey, Hosts, Ipv4Key, KeyHash};

/// Places that pairs of hosts are counted at.
const HOSTS: usize = 1 << 12;
/// Entries that are looked at for one to give up.
const LOOKED_AT: u32 = 16;
/// Time for the response to a flow's first packet.
const UNANSWERED: Span = Span::from_millis(100);

/// A flow without a packet for so long may have ended unseen, and its queue pair been
/// given to another connection.
const QUIET: Span = Span::from_millis(1_000);

/// All flows of a worker.
pub(crate) struct Table<F: Frame> {
    index: Index,
    hash: KeyHash,
    entries: Entries<F>,
    /// One past the largest index that was ever in use.
    end: u32,
    limit: usize,
    /// Most entries of two hosts.
    quota: u32,
    /// How many they have. Hosts that share a place share the quota.
    by_hosts: Box<[u32]>,
    /// Where an entry to give up was last looked for.
    hand: u32,
    generation: u32,
    removed: u64,
    /// Hosts whose flows are being forgotten: none begins.
    pub leaving: Option<Leaving>,
}

/// With more flows than this, one that sends a packet has left the processor's caches since the one before, as a rule.
const LARGE: usize = 1 << 10;

/// Flows that are being forgotten, some at a time.
pub(crate) struct Leaving {
    /// Whether it is those between two hosts.
    pub is_one: Box<dyn Fn(Addr, Addr) -> bool + Send>,
    /// Index of the next entry to look at.
    pub next: u32,
}

impl Leaving {
    /// Whether flows of these hosts are forgotten.
    pub fn has(&self, hosts: &Hosts) -> bool {
        (self.is_one)(hosts.src, hosts.dst)
    }
}

impl<F: Frame> Table<F> {
    /// With room for `limit` entries, of which `quota` may be of the same two hosts.
    pub fn new(limit: usize, quota: usize, seed: u64) -> Self {
        // An index of 32 bits, and one that stands for none.
        let limit = limit.min(u32::MAX as usize - 1);
        let hash = KeyHash::new(seed);
        Self {
            index: Index::new(limit),
            entries: Entries::with_capacity(limit),
            end: 0,
            hash,
            limit,
            quota: u32::try_from(quota).unwrap_or(u32::MAX),
            by_hosts: vec![0; HOSTS].into(),
            hand: 0,
            generation: 0,
            removed: 0,
            leaving: None,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many more entries may come.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// One past the largest index that was ever in use.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The newest generation of entries and incarnations.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How many entries were taken out so far: an index that was found may be
    /// another flow's when there are more.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    pub fn find(&self, key: &FlowKey) -> Option<FlowId> {
        self.index.find(self.hash.of(key), |id| self.get(id).is_some_and(|entry| entry.key == *key))
    }

    /// The hash of keys.
    pub fn hash(&self) -> &KeyHash {
        &self.hash
    }

    /// Prefetches the place that a key's hash leads to, and returns the hash.
    #[inline(always)]
    pub fn prefetch_bucket(&self, hash: u64) -> u64 {
        self.index.prefetch(hash);
        hash
    }

    /// Whether there are so many flows that those of a burst are best prefetched step by step.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.entries.len() > LARGE
    }

    /// The entry that a key with this hash is likely to have, without a look at it. It is prefetched.
    #[inline(always)]
    pub fn guess(&self, hash: u64) -> Option<FlowId> {
        let guess = self.index.find(hash, |_| true);
        if let Some(id) = guess
            && self.is_large()
        {
            self.entries.prefetch(id);
        }
        guess
    }

    /// The entry of a key with this hash, for which there is a guess. The state that a packet of it needs is prefetched.
    #[inline]
    pub fn find_key(&self, guess: FlowId, hash: u64, key: &FlowKey) -> Option<FlowId> {
        self.find_by(guess, hash, |other| other == key)
    }

    /// The same.
    #[inline(always)]
    pub fn find_ipv4(&self, guess: FlowId, hash: u64, key: &Ipv4Key) -> Option<FlowId> {
        self.find_by(guess, hash, |other| other.is(key))
    }

    #[inline(always)]
    fn find_by(
        &self,
        guess: FlowId,
        hash: u64,
        is_it: impl Fn(&FlowKey) -> bool,
    ) -> Option<FlowId> {
        match self.entries.at(guess).filter(|entry| is_it(&entry.key)) {
            Some(entry) => {
                self.prefetch(entry);
                Some(guess)
            }
            None => self.find_elsewhere(hash, is_it),
        }
    }

    /// Where the guess is wrong.
    #[cold]
    fn find_elsewhere(&self, hash: u64, is_it: impl Fn(&FlowKey) -> bool) -> Option<FlowId> {
        self.index.find(hash, |id| self.get(id).is_some_and(|entry| is_it(&entry.key)))
    }

    /// Whether a queue pair sends on flow `id`, or responses to its peer flow's requests travel
    /// on it: a packet came within [`QUIET`].
    pub fn is_live(&self, id: FlowId, now: Time) -> bool {
        let Some(entry) = self.get(id) else { return false };
        let peer = entry.peer().and_then(|peer| self.get(peer));
        let is_answered =
            entry.matching.is_some() || peer.is_some_and(|peer| peer.state.is_noted());
        (entry.state.is_noted() || is_answered) && entry.seen.since(now) < QUIET
    }

    /// Whether a flow has a pipeline, and the headers that its own frames are made from are old.
    pub fn is_stale(&self, id: FlowId, now: Time) -> bool {
        match self.get(id).map(|entry| &entry.state) {
            Some(FlowState::Sentry(stage)) => stage.track.is_stale(now),
            Some(FlowState::Depot(stage)) => stage.track.is_stale(now),
            _ => false,
        }
    }

    /// Prefetches the state that a packet of a flow needs, or a response to it.
    #[inline(always)]
    fn prefetch(&self, entry: &Entry<F>) {
        match &entry.state {
            FlowState::Sentry(stage) => stage.state.prefetch(),
            FlowState::Depot(stage) => stage.state.prefetch(),
            FlowState::Responses | FlowState::Resting(_) | FlowState::Left(_) => {
                self.prefetch_answered(entry);
            }
        }
    }

    /// Prefetches what a timer that fires needs of an entry.
    #[inline]
    pub fn prefetch_timer(&self, id: FlowId) {
        self.entries.prefetch_timer(id);
    }

    /// Prefetches the flow that responses in the stream of `entry` are for, or its entry.
    #[inline(never)]
    fn prefetch_answered(&self, entry: &Entry<F>) {
        match entry.peer() {
            Some(peer) if self.is_large() => self.entries.prefetch(peer),
            Some(peer) => self.get(peer).into_iter().for_each(|peer| peer.state.prefetch()),
            None => {}
        }
    }

    /// Prefetches the flow that a response in the stream `id` is for.
    #[inline(always)]
    pub fn prefetch_peer(&self, id: FlowId) {
        if let Some(peer) = self.peer_of(id) {
            peer.state.prefetch();
        }
    }

    /// Prefetches the headers of a flow's own frames, if they are so old that the next packet is compared with them.
    #[inline(always)]
    pub fn prefetch_old_headers(&self, id: FlowId, now: Time) {
        match self.get(id).map(|entry| &entry.state) {
            Some(FlowState::Sentry(stage)) if stage.track.is_stale(now) => prefetch(&stage.headers),
            Some(FlowState::Depot(stage)) if stage.track.is_stale(now) => prefetch(&stage.headers),
            _ => {}
        }
    }

    /// Prefetches what an ACK in the stream `id` takes.
    #[inline(always)]
    pub fn prefetch_oldest_of_peer(&self, id: FlowId) {
        match self.peer_of(id).map(|peer| &peer.state) {
            Some(FlowState::Sentry(stage)) => stage.state.prefetch_oldest(),
            Some(FlowState::Depot(stage)) => stage.state.prefetch_oldest(),
            _ => {}
        }
    }

    #[inline(always)]
    fn peer_of(&self, id: FlowId) -> Option<&Entry<F>> {
        self.get(self.get(id)?.peer()?)
    }

    /// Prefetches all of a flow that has something to do by itself.
    #[inline]
    pub fn prefetch_all(&self, id: FlowId) {
        match self.get(id).map(|entry| &entry.state) {
            Some(FlowState::Sentry(stage)) => stage.state.prefetch_all(),
            Some(FlowState::Depot(stage)) => stage.state.prefetch_all(),
            _ => {}
        }
    }

    #[inline]
    pub fn get(&self, id: FlowId) -> Option<&Entry<F>> {
        self.entries.get(id)
    }

    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Entry<F>> {
        self.entries.get_mut(id)
    }

    /// How many entries the hosts of both directions have.
    fn count_of(&mut self, hosts: &Hosts) -> &mut u32 {
        let lan = if hosts.side == Side::Lan { *hosts } else { hosts.reversed() };
        &mut self.by_hosts[self.hash.of_hosts(&lan) as usize % HOSTS]
    }

    /// Whether two hosts have as many entries as they may (R-PASS-3).
    pub fn is_used_up(&mut self, hosts: &Hosts) -> bool {
        let quota = self.quota;
        *self.count_of(hosts) >= quota
    }

    /// Whether the flows of two hosts are being forgotten. R-TUN-28
    pub fn is_leaving(&self, hosts: &Hosts) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.has(hosts))
    }

    /// An entry to give up for another, if one is found at once: of which one packet was
    /// seen, a while ago, and no response.
    pub fn least(&mut self, now: Time) -> Option<FlowId> {
        for _ in 0..LOOKED_AT.min(self.end) {
            self.hand = if self.hand + 1 < self.end { self.hand + 1 } else { 0 };
            let is_least = self.entries.get_mut(FlowId(self.hand)).is_some_and(|entry| {
                entry.is_of_one_packet() && entry.seen.since(now) >= UNANSWERED
            });
            if is_least {
                return Some(FlowId(self.hand));
            }
        }
        None
    }

    /// Whether there is room for another entry.
    pub fn has_room(&self) -> bool {
        self.entries.len() < self.limit
    }

    /// The entry of `key`, new if need be; with whether it is new. `None` if
    /// the table is full, or the quota of its hosts, or if these are being left.
    pub fn entry(&mut self, key: FlowKey, now: Time) -> Option<(FlowId, bool)> {
        let hash = self.hash.of(&key);
        if let Some(id) = self.find(&key) {
            return Some((id, false));
        }
        let id = self.entries.next_id();
        if self.entries.len() >= self.limit
            || self.is_used_up(&key.hosts)
            || self.is_leaving(&key.hosts)
            || !self.index.insert(hash, id)
        {
            return None;
        }
        *self.count_of(&key.hosts) += 1;
        self.end = self.end.max(id.0 + 1);
        self.generation = self.generation.wrapping_add(1);
        self.entries.insert(Entry::new(key, now, self.generation));
        Some((id, true))
    }

    /// Takes an entry out. Its pairing must have ended.
    pub fn remove(&mut self, id: FlowId) -> Option<Entry<F>> {
        let entry = self.entries.take(id)?;
        self.removed += 1;
        *self.count_of(&entry.key.hosts) -= 1;
        self.index.remove(self.hash.of(&entry.key), id);
        Some(entry)
    }

    /// Another incarnation of the flow's QP number begins.
    pub fn begin_incarnation(&mut self, id: FlowId) {
        self.generation = self.generation.wrapping_add(1);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.born = self.generation;
            if let FlowState::Resting(_) = entry.state {
                entry.state = FlowState::Responses;
            }
        }
    }
}
