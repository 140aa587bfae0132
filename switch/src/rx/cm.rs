//! What the switch does with messages of connection management: it learns from
//! them, and passes them on as they are.

use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::wire::{Roce, cm, icrc_ok};

use crate::flow::coarse_time::CoarseTime;
use crate::flow::entry::{Announced, By, Entry, Id, Pipeline};
use crate::flow::key::{FlowKey, Hosts};
use crate::qp::cm::{Connection, Event};
use crate::switch::{Io, Switch};

impl<F: Frame> Switch<F> {
    /// Reads connection management from a packet that isn't RC, and returns the class that
    /// the packet is forwarded in. Packets held of flows that it ends are delivered first.
    pub(crate) fn observe<P, S>(
        &mut self,
        side: Side,
        bytes: &[u8],
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if self.draining || !cm::is_candidate(roce) {
            return Metric::PassedTransport;
        }
        let Some(message) = cm::read(bytes, roce) else { return Metric::PassedTransport };
        if !icrc_ok(bytes, roce) {
            return Metric::PassedBadIcrc;
        }
        let (table, now) = (&self.table, io.now);
        let is_live = |key: &FlowKey| table.find(key).is_some_and(|id| table.is_live(id, now));
        match self.connections.observe(Hosts::of(side, roce), &message, now, is_live) {
            Some(Event::Established(connection)) => self.establish(&connection, io),
            Some(Event::Ended(connection)) => self.end(&connection, io),
            None => {}
        }
        Metric::PassedTransport
    }

    /// Two QPs are joined. Whatever their numbers stood for before is over, and
    /// what is held of it is never delivered to the new connection (R-INC-12).
    fn establish<P, S>(&mut self, connection: &Connection, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.tx.counters.inc(Metric::FlowConnected);
        let keys = connection.directions.map(|direction| direction.key);
        let known = keys.map(|key| self.table.find(&key));
        for id in known.into_iter().flatten() {
            self.renew(id, io);
        }
        if known.iter().filter(|id| id.is_none()).count() > self.table.room() {
            return;
        }
        let [Some(there), Some(back)] = keys.map(|key| self.entry(key, io.now)) else { return };
        if self.table.get(there).is_some_and(|entry| entry.peer() != Some(back)) {
            // What the hosts say is newer than what the operator wrote.
            for id in [there, back] {
                self.table.unpair(id);
                if let Some(entry) = self.table.get_mut(id) {
                    entry.named = false;
                }
            }
            self.table.pair(there, back);
            self.tx.counters.inc(Metric::FlowPaired);
        }
        for (id, direction) in [there, back].into_iter().zip(&connection.directions) {
            if let Some(entry) = self.table.get_mut(id) {
                entry.seen = CoarseTime::at(io.now);
                let Connection { pmtu, .. } = *connection;
                let first_psn = direction.first_psn;
                entry.announced = Some(Announced::new(By::Hosts, first_psn, 0, pmtu, None));
            }
        }
    }

    /// A connection is over. Its flows begin anew with their next packets,
    /// should there be any.
    fn end<P, S>(&mut self, connection: &Connection, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.tx.counters.inc(Metric::FlowDisconnected);
        let [there, back] = connection.directions.map(|d| self.table.find(&d.key));
        // A number may be in use by a connection that was not seen being made.
        let is_in_use = |id: Id, other| match self.table.get(id).map(Entry::peer) {
            Some(None) => self.table.is_live(id, io.now),
            Some(peer) => peer != other,
            None => true,
        };
        let ends = [(there, back), (back, there)]
            .map(|(id, other)| id.filter(|id| !is_in_use(*id, other)));
        for id in ends.into_iter().flatten() {
            self.with_depot(id, io, |flow, cx| flow.let_go(cx));
            self.renew(id, io);
        }
    }

    /// Begins another incarnation of a flow: its next packet will be its first. What
    /// is still held is dropped.
    fn renew<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.with_sentry(id, io, |flow, cx| flow.forget(cx));
        self.with_depot(id, io, |flow, cx| flow.forget(cx));
        if let Some(entry) = self.table.get_mut(id) {
            entry.pipeline = Pipeline::None;
        }
        self.table.begin_incarnation(id);
    }
}
