//! Which queue pairs two hosts join, from the messages of connection management
//! that pass between them.
//!
//! A REQ names the active host's QP, the REP that answers it the passive host's;
//! together they make a [`Connection`]. It is believed as soon as the REP passes:
//! the active host may send data once it has the REP, the passive one once it
//! has the RTU or data, so no packet of the connection can be here before. The
//! RTU adds nothing, and may be lost for good (decision 14).
//!
//! Messages are lost, repeated and overtaken; names are used again. Half of an exchange
//! teaches nothing, and an exchange that contradicts itself is dropped from memory.

use std::collections::BTreeMap;

use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::Qpn;
use common::wire::cm::{CommId, Ids, Message, Rep, Req};
use hashbrown::HashMap;

use crate::flow::key::{FlowKey, Hosts};

/// How long a REQ waits for its REP since it, or an MRA, was last seen. Linux'
/// rdma_cm repeats after 4.3 s, and asks for 69 s with an MRA.
const PATIENCE: Span = Span::from_millis(120_000);

/// The agreement of two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Connection {
    /// From the host that asked to the one that accepted, and back.
    pub directions: [Direction; 2],
    /// Path MTU, bytes.
    pub pmtu: u16,
}

/// One direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Direction {
    /// The flow that its requests and responses belong to.
    pub key: FlowKey,
    /// The PSN of its first request.
    pub first_psn: Psn,
}

/// The effect of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Data may come from now on.
    Established(Connection),
    /// No more data is expected.
    Ended(Connection),
}

/// The key of a connection: the direction of the REQ and its sender's
/// name. All that may be repeated of a connection carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Name {
    hosts: Hosts,
    active: CommId,
}

/// The messages of a connection so far.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// The active host's QP, the first PSN towards it, and the path MTU.
    qpn: Qpn,
    psn: Psn,
    pmtu: u16,
    /// The passive host's REP; `None` until then.
    accepted: Option<Accepted>,
    /// Its place among those of the same kind, in the order of age.
    turn: u64,
    seen: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Accepted {
    passive: CommId,
    qpn: Qpn,
    psn: Psn,
}

impl Accepted {
    fn by(rep: &Rep) -> Self {
        Self { passive: rep.ids.local, qpn: rep.qpn, psn: rep.starting_psn }
    }
}

impl Exchange {
    fn is_asked_by(&self, req: &Req) -> bool {
        (self.qpn, self.psn, self.pmtu) == (req.qpn, req.starting_psn, req.pmtu)
    }

    /// A starting PSN is where the other host begins (12.6, table 106).
    fn connection(&self, hosts: Hosts, accepted: Accepted) -> Connection {
        let there = FlowKey { hosts, dest_qpn: accepted.qpn };
        let back = FlowKey { hosts: hosts.reversed(), dest_qpn: self.qpn };
        Connection {
            directions: [
                Direction { key: there, first_psn: accepted.psn },
                Direction { key: back, first_psn: self.psn },
            ],
            pmtu: self.pmtu,
        }
    }
}

/// The connections that are being made, and those that were.
///
/// Of both kinds at most `limit` are remembered; for one more the oldest is
/// dropped. That costs a pairing at most: a connection that is dropped before its REP is
/// not learned, and the end of a later one is not noticed.
pub(crate) struct Connections {
    exchanges: HashMap<Name, Exchange, foldhash::quality::FixedState>,
    /// Connections that were made, by their flows: a QP is in one at a time.
    flows: HashMap<FlowKey, Name, foldhash::quality::FixedState>,
    /// Those that wait for a REP, the oldest first.
    asked: BTreeMap<u64, Name>,
    /// Those that have it, the oldest first.
    made: BTreeMap<u64, Name>,
    turn: u64,
    limit: usize,
}

impl Connections {
    /// Memory of one that was made, in bytes at most: three places in tables
    /// that have just doubled (7/16 full, a byte of control each), and one in a
    /// tree whose nodes may be half empty.
    pub const EACH: usize = {
        let places = size_of::<(Name, Exchange)>() + 2 * size_of::<(FlowKey, Name)>() + 3;
        (places * 16).div_ceil(7) + 2 * size_of::<(u64, Name)>()
    };

    /// None are known yet.
    pub fn new(limit: usize, seed: u64) -> Self {
        let state = || foldhash::quality::FixedState::with_seed(seed);
        Self {
            exchanges: HashMap::with_hasher(state()),
            flows: HashMap::with_hasher(state()),
            asked: BTreeMap::new(),
            made: BTreeMap::new(),
            turn: 0,
            limit,
        }
    }

    /// Takes in a message that passes in the direction of `hosts`. Its ICRC
    /// must have been found right. `is_live` tells whether a flow has traffic.
    pub fn observe(
        &mut self,
        hosts: Hosts,
        message: &Message,
        now: Time,
        is_live: impl Fn(&FlowKey) -> bool,
    ) -> Option<Event> {
        self.expire(now);
        match message {
            Message::Req(req) => self.on_req(hosts, req, now),
            Message::Rep(rep) => self.on_rep(hosts, rep, now, is_live),
            Message::Mra(ids) => {
                // Of interest while a REP is waited for; the passive host's.
                let name = Name { hosts: hosts.reversed(), active: ids.remote };
                self.extend(name, now);
                None
            }
            Message::Rej(rej) => {
                let name = self.asked(hosts, rej.ids).or_else(|| self.made(hosts, rej.ids))?;
                self.end(name)
            }
            Message::Dreq(dreq) => {
                let name = self.made(hosts, dreq.ids)?;
                let connection = self.connection(name)?;
                // It names the receiver's QP, where the flow that it travels
                // beside leads.
                let key = FlowKey { hosts, dest_qpn: dreq.remote_qpn };
                let fits = connection.directions.iter().any(|direction| direction.key == key);
                if fits { self.end(name) } else { None }
            }
            // Where its DREQ was damaged on the way to here.
            Message::Drep(ids) => self.made(hosts, *ids).and_then(|name| self.end(name)),
            Message::Rtu(_) => None,
        }
    }

    fn on_req(&mut self, hosts: Hosts, req: &Req, now: Time) -> Option<Event> {
        // A host that asks for other addresses than its own is redirected, or
        // behind a translation: its data will have another key (R-CM-1).
        if !req.is_rc || req.local_gid != hosts.src || req.remote_gid != hosts.dst {
            return None;
        }
        let name = Name { hosts, active: req.local };
        if self.exchanges.get(&name).is_some_and(|known| known.is_asked_by(req)) {
            self.extend(name, now);
            return None;
        }
        // Another connection by the same name: the one before is over.
        let ended = self.end(name);
        if self.asked.len() >= self.limit
            && let Some((_, oldest)) = self.asked.pop_first()
        {
            self.exchanges.remove(&oldest);
        }
        let turn = self.next_turn();
        let (qpn, psn, pmtu) = (req.qpn, req.starting_psn, req.pmtu);
        self.exchanges.insert(name, Exchange { qpn, psn, pmtu, accepted: None, turn, seen: now });
        self.asked.insert(turn, name);
        ended
    }

    fn on_rep(
        &mut self,
        hosts: Hosts,
        rep: &Rep,
        now: Time,
        is_live: impl Fn(&FlowKey) -> bool,
    ) -> Option<Event> {
        let name = Name { hosts: hosts.reversed(), active: rep.ids.remote };
        let exchange = *self.exchanges.get(&name)?;
        let accepted = Accepted::by(rep);
        match exchange.accepted {
            // R-CM-4
            Some(known) if known == accepted => return None,
            // A passive host that has lost its memory accepts once more. Which
            // of the two the active one took can't be seen here.
            Some(_) => return self.end(name),
            None => {}
        }
        let connection = exchange.connection(name.hosts, accepted);
        if connection.directions.iter().any(|direction| is_live(&direction.key)) {
            // A REP may name any queue pair. That one with traffic has begun anew, its data has
            // to show (R-CM-2).
            return self.end(name);
        }
        // Former connections of these QPs are over.
        for direction in &connection.directions {
            if let Some(former) = self.flows.get(&direction.key).copied() {
                self.end(former);
            }
        }
        if self.made.len() >= self.limit
            && let Some(oldest) = self.made.first_entry().map(|entry| *entry.get())
        {
            self.end(oldest);
        }
        self.asked.remove(&exchange.turn);
        let turn = self.next_turn();
        let exchange = Exchange { accepted: Some(accepted), turn, seen: now, ..exchange };
        self.exchanges.insert(name, exchange);
        self.made.insert(turn, name);
        for direction in &connection.directions {
            self.flows.insert(direction.key, name);
        }
        Some(Event::Established(connection))
    }

    /// The exchange that a rejection is about while no REP was seen. The passive
    /// host need not have a name for it yet, nor the active one know it.
    fn asked(&self, hosts: Hosts, ids: Ids) -> Option<Name> {
        let by_active = Name { hosts, active: ids.local };
        let by_passive = Name { hosts: hosts.reversed(), active: ids.remote };
        [by_active, by_passive].into_iter().find(|name| {
            self.exchanges.get(name).is_some_and(|exchange| exchange.accepted.is_none())
        })
    }

    /// The connection with these names.
    fn made(&self, hosts: Hosts, ids: Ids) -> Option<Name> {
        let by_active = (Name { hosts, active: ids.local }, ids.remote);
        let by_passive = (Name { hosts: hosts.reversed(), active: ids.remote }, ids.local);
        [by_active, by_passive].into_iter().find_map(|(name, passive)| {
            let accepted = self.exchanges.get(&name)?.accepted?;
            (accepted.passive == passive).then_some(name)
        })
    }

    fn connection(&self, name: Name) -> Option<Connection> {
        let exchange = self.exchanges.get(&name)?;
        Some(exchange.connection(name.hosts, exchange.accepted?))
    }

    /// Forgets an exchange; an event if it was a connection.
    fn end(&mut self, name: Name) -> Option<Event> {
        let exchange = self.exchanges.remove(&name)?;
        let Some(accepted) = exchange.accepted else {
            self.asked.remove(&exchange.turn);
            return None;
        };
        self.made.remove(&exchange.turn);
        let connection = exchange.connection(name.hosts, accepted);
        for direction in &connection.directions {
            self.flows.remove(&direction.key);
        }
        Some(Event::Ended(connection))
    }

    /// Gives an exchange that waits for its REP more time.
    fn extend(&mut self, name: Name, now: Time) {
        let turn = self.next_turn();
        if let Some(exchange) = self.exchanges.get_mut(&name)
            && exchange.accepted.is_none()
        {
            self.asked.remove(&exchange.turn);
            self.asked.insert(turn, name);
            (exchange.turn, exchange.seen) = (turn, now);
        }
    }

    /// Forgets exchanges that have waited for too long.
    fn expire(&mut self, now: Time) {
        while let Some(oldest) = self.asked.first_entry() {
            let seen = self.exchanges.get(oldest.get()).map(|exchange| exchange.seen);
            if seen.is_some_and(|seen| now.since(seen) < PATIENCE) {
                break;
            }
            self.exchanges.remove(&oldest.remove());
        }
    }

    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }
}

#[cfg(test)]
mod tests;
