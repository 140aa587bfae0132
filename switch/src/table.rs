//! The flow table: one entry per direction and destination QP.

use common::frame::{Frame, Side};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Addr, Headers, Roce, Vlans};
use hashbrown::HashMap;
use slab::Slab;

use crate::pairing::{Arrived, Matching};

/// What tells flows apart (docs/protocol.md, "Words"), with the side they come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FlowKey {
    pub hosts: Hosts,
    pub dest_qpn: u32,
}

/// One direction between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hosts {
    /// The port that packets of this direction arrive on.
    pub side: Side,
    pub vlans: Vlans,
    pub src: Addr,
    pub dst: Addr,
}

impl Hosts {
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
pub(crate) type Id = usize;

/// Everything about one flow.
pub(crate) struct Entry<F: Frame> {
    pub key: FlowKey,
    /// The flow of the opposite direction of the same queue pair. Its
    /// destination QP is this flow's requester.
    pub peer: Option<Id>,
    /// The operator named its peer: it is not looked for, and stays over lives.
    pub named: bool,
    /// What connection management said of its present life.
    pub announced: Option<Announced>,
    /// What is known of the peer flow while it isn't sure.
    pub matching: Option<Matching>,
    /// The pipeline that its requests go through.
    pub pipeline: Pipeline<F>,
    /// When a timer of this entry is due; [`Time::NEVER`] if none is set.
    pub armed: Time,
    /// Its newest packet.
    pub seen: Time,
    /// Tells apart the entries that use one index after each other.
    pub generation: u32,
    /// The generation in which the flow's present life began.
    pub born: u32,
}

/// What the hosts agreed on before the first packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    /// The PSN of its first request.
    pub first_psn: Psn,
    /// Path MTU, bytes.
    pub pmtu: u16,
}

/// What happens to the requests of a flow.
pub(crate) enum Pipeline<F: Frame> {
    /// None were seen yet; so far this is only where ACKs go.
    None,
    /// They leave for the long-haul link.
    Sentry(Box<Stage<sentry::Flow<F>>>),
    /// They arrive from it.
    Depot(Box<Stage<depot::Flow<F>>>),
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
    index: HashMap<FlowKey, Id, foldhash::quality::FixedState>,
    entries: Slab<Entry<F>>,
    /// Flows with requests whose requester is unknown, by their hosts.
    unpaired: HashMap<Hosts, Vec<Id>, foldhash::quality::FixedState>,
    limit: usize,
    generation: u32,
}

impl<F: Frame> Table<F> {
    pub fn new(limit: usize, seed: u64) -> Self {
        let state = || foldhash::quality::FixedState::with_seed(seed);
        Self {
            index: HashMap::with_hasher(state()),
            entries: Slab::new(),
            unpaired: HashMap::with_hasher(state()),
            limit,
            generation: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many more entries may come.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// One past the largest index in use.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// The newest generation of entries and lives.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn find(&self, key: &FlowKey) -> Option<Id> {
        self.index.get(key).copied()
    }

    pub fn get(&self, id: Id) -> Option<&Entry<F>> {
        self.entries.get(id)
    }

    pub fn get_mut(&mut self, id: Id) -> Option<&mut Entry<F>> {
        self.entries.get_mut(id)
    }

    /// The entry of `key`, new if need be; with whether it is new. `None` if
    /// the table is full.
    pub fn entry(&mut self, key: FlowKey, now: Time) -> Option<(Id, bool)> {
        if let Some(id) = self.find(&key) {
            return Some((id, false));
        }
        if self.entries.len() >= self.limit {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let id = self.entries.insert(Entry {
            key,
            peer: None,
            named: false,
            announced: None,
            matching: None,
            pipeline: Pipeline::None,
            armed: Time::NEVER,
            seen: now,
            generation: self.generation,
            born: self.generation,
        });
        self.index.insert(key, id);
        Some((id, true))
    }

    /// Takes an entry out, and its peer's knowledge of it.
    pub fn remove(&mut self, id: Id) -> Option<Entry<F>> {
        self.unpair(id);
        let entry = self.entries.try_remove(id)?;
        self.index.remove(&entry.key);
        self.forget_unpaired(&entry.key.hosts, id);
        Some(entry)
    }

    /// The flow's requester is to be found.
    pub fn await_pairing(&mut self, id: Id) {
        if let Some(entry) = self.entries.get(id)
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
        for (one, other) in [(a, b), (b, a)] {
            if let Some(entry) = self.entries.get_mut(one) {
                entry.peer = Some(other);
                entry.matching = None;
                let hosts = entry.key.hosts;
                self.forget_unpaired(&hosts, one);
            }
        }
    }

    /// Nothing is known any more of which flows belong together with `id`.
    pub fn unpair(&mut self, id: Id) {
        let Some(peer) = self.entries.get_mut(id).and_then(|entry| entry.peer.take()) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.peer = None;
        }
        for one in [id, peer] {
            if self.entries.get(one).is_some_and(|e| !matches!(e.pipeline, Pipeline::None)) {
                self.await_pairing(one);
            }
        }
    }

    /// Another life of the flow's QP number begins: its requester may be
    /// another one, too, unless the operator vouches for it.
    pub fn begin_life(&mut self, id: Id) {
        if !self.entries.get(id).is_some_and(|entry| entry.named) {
            self.unpair(id);
        }
        self.generation = self.generation.wrapping_add(1);
        if let Some(entry) = self.entries.get_mut(id) {
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

    /// The requester's QPN of a flow, if it is known.
    pub fn requester(&self, id: Id) -> Option<u32> {
        let peer = self.entries.get(id)?.peer?;
        Some(self.entries.get(peer)?.key.dest_qpn)
    }
}
