//! The pairing of flows: the only writer of an entry's peer and `src_qpn`.

use common::frame::Frame;
use common::ids::FlowId;
use common::metrics::{Counters, Metric};
use common::time::{Span, Time};
use common::wire::cm::Message;
use hashbrown::HashMap;

use crate::config::{Config, Tuning};
use crate::flow::entry::{Entry, FlowState};
use crate::flow::key::{FlowKey, Hosts};
use crate::flow::matching::Matching;
use crate::flow::table::Table;
use crate::qp::cm::{Connections, Event};
use crate::qp::configured::Configured;

/// For how many round trips a pairing has to be confirmed, unless configured.
const CONFIRMED_FOR: u64 = 2;

/// Sources of pairings, and the flows that have none.
pub(crate) struct Pairing {
    connections: Connections,
    configured: Configured,
    /// Flows with requests whose `src_qpn` is unknown, by their hosts.
    unpaired: HashMap<Hosts, Unpaired, foldhash::quality::FixedState>,
    /// For how long a response may be to a packet that was not seen.
    pub(super) longest_trip: Span,
}

fn longest_trip(tuning: &Tuning) -> Span {
    tuning.longest_trip.unwrap_or(tuning.rtt_guess * CONFIRMED_FOR)
}

/// Flows between two hosts whose `src_qpn` is unknown; there is one at least.
struct Unpaired {
    flows: Vec<FlowId>,
    /// Since when there are any.
    since: Time,
}

impl Pairing {
    /// No flow is paired yet.
    pub fn new(config: &Config) -> Self {
        let hash = foldhash::quality::FixedState::with_seed(config.hash_seed);
        Self {
            connections: Connections::new(config.max_flows.div_ceil(2), config.hash_seed),
            configured: Configured::new(&config.queue_pairs, config.hash_seed),
            unpaired: HashMap::with_hasher(hash),
            longest_trip: longest_trip(&config.tuning),
        }
    }

    /// Works by other durations.
    pub fn set_longest_trip(&mut self, tuning: &Tuning) {
        self.longest_trip = longest_trip(tuning);
    }

    /// Takes in a message of connection management; see [`Connections::observe`].
    pub fn observe<F: Frame>(
        &mut self,
        table: &Table<F>,
        hosts: Hosts,
        message: &Message,
        now: Time,
    ) -> Option<Event> {
        let is_live = |key: &FlowKey| table.find(key).is_some_and(|id| table.is_live(id, now));
        self.connections.observe(hosts, message, now, is_live)
    }

    /// The entry of `key`, new if need be.
    pub fn entry<F: Frame>(
        &mut self,
        table: &mut Table<F>,
        counters: &mut Counters,
        key: FlowKey,
        now: Time,
    ) -> Option<FlowId> {
        let (id, is_new) = table.entry(key, now)?;
        if is_new {
            counters.inc(Metric::FlowCreated);
            self.pair_as_configured(table, counters, id, now);
        }
        Some(id)
    }

    /// Pairs a new flow that the operator configured. It is paired at once, and never
    /// otherwise (R-PAIR-1).
    fn pair_as_configured<F: Frame>(
        &mut self,
        table: &mut Table<F>,
        counters: &mut Counters,
        id: FlowId,
        now: Time,
    ) {
        let Some(key) = table.get(id).map(|entry| entry.key) else { return };
        let Some(src_qpn) = self.configured.src_qpn(&key) else { return };
        let back = FlowKey { hosts: key.hosts.reversed(), dest_qpn: src_qpn };
        let other = table.entry(back, now);
        if let Some((_, true)) = other {
            counters.inc(Metric::FlowCreated);
        }
        let other = other.map(|(other, _)| other);
        for id in [Some(id), other].into_iter().flatten() {
            if let Some(entry) = table.get_mut(id) {
                entry.named = true;
            }
        }
        if let Some(other) = other {
            self.pair(table, counters, id, other, now);
        }
    }

    /// Takes an entry out of the table, and ends its pairing.
    pub fn remove<F: Frame>(&mut self, table: &mut Table<F>, id: FlowId, now: Time) {
        self.unpair(table, id, now);
        if let Some(entry) = table.remove(id) {
            self.forget_unpaired(&entry.key.hosts, id);
        }
    }

    /// The flow's `src_qpn` is to be found.
    pub fn await_pairing<F: Frame>(&mut self, table: &Table<F>, id: FlowId, now: Time) {
        if let Some(entry) = table.get(id)
            && entry.peer().is_none()
        {
            let none = || Unpaired { flows: Vec::new(), since: now };
            let flows = &mut self.unpaired.entry(entry.key.hosts).or_insert_with(none).flows;
            if !flows.contains(&id) {
                flows.push(id);
            }
        }
    }

    /// Flows between `hosts` whose `src_qpn` is unknown.
    pub fn unpaired(&self, hosts: &Hosts) -> &[FlowId] {
        self.unpaired.get(hosts).map_or(&[], |unpaired| &unpaired.flows)
    }

    /// Whether a response between `hosts` may be to a packet that was sent before the first packet that was seen:
    /// such a packet was not seen, though later ones of its flow may be.
    pub(super) fn may_be_older(&self, hosts: &Hosts, now: Time) -> bool {
        let trip = self.spread(hosts.side);
        self.unpaired.get(hosts).is_some_and(|it| now < it.since + trip)
    }

    /// `a` and `b` are the two directions of one queue pair.
    pub fn pair<F: Frame>(
        &mut self,
        table: &mut Table<F>,
        counters: &mut Counters,
        a: FlowId,
        b: FlowId,
        now: Time,
    ) {
        self.unpair(table, a, now);
        self.unpair(table, b, now);
        for (one, other) in [(a, b), (b, a)] {
            let src_qpn = table.get(other).map(|entry| entry.key.dest_qpn);
            if let Some(entry) = table.get_mut(one) {
                entry.join(other, src_qpn);
                let hosts = entry.key.hosts;
                self.forget_unpaired(&hosts, one);
            }
        }
        counters.inc(Metric::FlowPaired);
    }

    /// Ends the pairing of flow `id`, if it has one.
    pub fn unpair<F: Frame>(&mut self, table: &mut Table<F>, id: FlowId, now: Time) {
        let Some(peer) = table.get(id).and_then(Entry::peer) else { return };
        for (one, other) in [(id, peer), (peer, id)] {
            let strays = table.get(other).map_or(Time::ZERO, Entry::strays_until);
            if let Some(entry) = table.get_mut(one) {
                entry.unpair();
                if now < strays {
                    entry.matching = Some(Box::new(Matching::later(strays)));
                }
            }
        }
        for one in [id, peer] {
            if table.get(one).is_some_and(|entry| entry.state.is_noted()) {
                self.await_pairing(table, one, now);
            }
        }
    }

    /// Another incarnation of the flow's QP number begins: its `src_qpn` may be another one,
    /// too, unless the operator configured it (R-PAIR-6).
    pub fn begin_incarnation<F: Frame>(&mut self, table: &mut Table<F>, id: FlowId, now: Time) {
        if let Some(FlowState::Sentry(stage)) = table.get_mut(id).map(|entry| &mut entry.state) {
            stage.state.end_fetches();
        }
        if !table.get(id).is_some_and(|entry| entry.named) {
            self.unpair(table, id, now);
        }
        table.begin_incarnation(id);
    }

    fn forget_unpaired(&mut self, hosts: &Hosts, id: FlowId) {
        if let Some(Unpaired { flows, .. }) = self.unpaired.get_mut(hosts) {
            flows.retain(|other| *other != id);
            if flows.is_empty() {
                self.unpaired.remove(hosts);
            }
        }
    }
}
