//! Queue pairs of a worker's own hosts: where they are, and their way there and
//! back.

use common::control;
use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Roce;

use super::{Away, Crew, Guest, Held, Kind, Moved, WAITING};
use crate::Recovery;
use crate::answers::CONFIRMED_FOR;
use crate::entry::{Announced, Id, Pipeline, Seen};
use crate::key::{FlowKey, Hosts};
use crate::switch::{Io, Switch};

impl<F: Frame> Switch<F> {
    /// Where the flow of an entry is, if it isn't here; its frame is about to go
    /// there.
    #[inline]
    pub(crate) fn whereabouts(&mut self, id: Id, now: Time) -> Option<u16> {
        let entry = self.table.get_mut(id)?;
        let Pipeline::Away(away) = entry.pipeline else { return None };
        entry.seen = Seen::at(now);
        Some(away.worker)
    }

    /// A RoCEv2 packet that came from a port: to whoever has its flow.
    pub(crate) fn handle_here_or_there<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        found: Option<Id>,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        // Since the burst was looked up, its flow may have come into being.
        let found = found.or_else(|| self.look_up(side, roce));
        let worker = match found {
            Some(id) => self.whereabouts(id, io.now),
            None => self.worker_of_message(side, frame.bytes(), roce, io.now),
        };
        match worker {
            Some(worker) => self.hand_over(worker, side, frame, io),
            None => {
                self.handle(side, frame, roce, found, io);
                self.settle(io);
            }
        }
    }

    /// The flow that a control message claims to be about; `None` if it isn't one.
    pub(super) fn about(&self, side: Side, bytes: &[u8], roce: &Roce) -> Option<FlowKey> {
        if side == Side::Lan || roce.opcode != self.voice.opcode {
            return None;
        }
        let (dest_qpn, goes_back) = control::about(bytes, roce, self.voice.opcode)?;
        let hosts = Hosts::of(side, roce);
        Some(FlowKey { hosts: if goes_back { hosts.reversed() } else { hosts }, dest_qpn })
    }

    /// Where the flow of a control message is, if it is one, and that isn't here.
    pub(crate) fn worker_of_message(
        &mut self,
        side: Side,
        bytes: &[u8],
        roce: &Roce,
        now: Time,
    ) -> Option<u16> {
        let key = self.moves.any_away().then(|| self.about(side, bytes, roce))??;
        let id = self.table.find(&key)?;
        self.whereabouts(id, now)
    }

    /// The entry of a packet's flow is new. If that was enough to send it elsewhere
    /// before the packet: where to.
    pub(crate) fn moves_at_once<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>) -> Option<u16>
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.settle(io);
        self.whereabouts(id, io.now)
    }

    /// A frame of a queue pair that is elsewhere.
    pub(crate) fn hand_over<P, S>(
        &mut self,
        worker: u16,
        side: Side,
        frame: F,
        io: &mut Io<'_, P, S>,
    ) where
        S: Sink<Frame = F>,
    {
        self.voice.counters.inc(Metric::HandedOver);
        io.sink.hand_over(worker, side, frame);
    }

    /// A flow of one of this worker's own hosts was joined with another, or parted
    /// from it.
    pub(super) fn settle_own<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if !self.is_away_with_peer(id) {
            self.recall(id, Held::GoesOn);
        }
        let Some(peer) = self.table.get(id).and_then(|entry| entry.peer()) else { return };
        if !self.is_away_with_peer(peer) {
            self.recall(peer, Held::GoesOn);
            self.move_pair([id, peer], io);
        }
    }

    /// Whether flow `id` and its peer have gone away together.
    fn is_away_with_peer(&self, id: Id) -> bool {
        let away = |id: Id| match self.table.get(id)?.pipeline {
            Pipeline::Away(away) => Some(away),
            _ => None,
        };
        let peer = self.table.get(id).and_then(|entry| entry.peer());
        away(id).is_some_and(|here| peer.and_then(away) == Some(here))
    }

    /// Who is to have the queue pair of these two flows, whichever comes first.
    fn owner(&self, crew: Crew, keys: &[FlowKey; 2]) -> u16 {
        let [there, back] = keys.map(|key| self.table.hash(&key));
        // The index of the owner's table goes by the bits of each; the sum has to
        // be stirred, or it would be as even as they are.
        let sum = there.wrapping_add(back).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((sum >> 32) * u64::from(crew.workers)) >> 32) as u16
    }

    /// A queue pair of this worker's own hosts goes to its owner, if that is
    /// another worker.
    fn move_pair<P, S>(&mut self, ids: [Id; 2], io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(crew) = self.moves.crew else { return };
        let [Some(a), Some(b)] = ids.map(|id| self.table.get(id)) else { return };
        let (keys, named) = ([a.key, b.key], a.named);
        let worker = self.owner(crew, &keys);
        if worker == crew.worker || self.draining || self.config.recovery == Recovery::Off {
            return;
        }
        if self.moves.outbox.len() >= WAITING {
            return self.voice.counters.inc(Metric::PairKept);
        }
        self.moves.turn = self.moves.turn.wrapping_add(1);
        let away = Away { worker, turn: self.moves.turn };
        let announced = ids.map(|id| {
            self.let_go_of(id, Held::GoesOn, io);
            let entry = self.table.get_mut(id)?;
            match core::mem::replace(&mut entry.pipeline, Pipeline::Away(away)) {
                Pipeline::None => entry.announced.take(),
                _ => Some(Announced::under_way()),
            }
        });
        let echo = self.echo();
        self.moves.away += 2;
        self.voice.counters.inc(Metric::PairMoved);
        self.moves
            .tell(worker, Kind::Moved(Moved { keys, turn: away.turn, named, announced, echo }));
    }

    /// For how long answers may come to what has just passed.
    fn echo(&self) -> Span {
        let measured = Span::from_nanos(self.voice.counters.get(Metric::PathRtt));
        self.config.tuning.rtt_guess.max(measured) * CONFIRMED_FOR
    }

    /// If flow `id` is elsewhere, it and the one that went with it are this
    /// worker's own business again, and begin anew.
    pub(crate) fn recall(&mut self, id: Id, held: Held) {
        self.forget_refusal(id);
        let Some(entry) = self.table.get(id) else { return };
        let Pipeline::Away(away) = entry.pipeline else { return };
        let (key, peer) = (entry.key, entry.peer());
        for one in [Some(id), peer].into_iter().flatten() {
            self.is_back(one, away);
            // Should they still belong together, they go once more.
            self.table.changed.note(one);
        }
        self.voice.counters.inc(Metric::PairRecalled);
        self.moves.tell(away.worker, Kind::Recalled { key, turn: away.turn, held });
    }

    /// Flow `id` is where it was before it went `away`, if it did so then.
    fn is_back(&mut self, id: Id, away: Away) -> bool {
        let Some(entry) = self.table.get_mut(id) else { return false };
        if !matches!(entry.pipeline, Pipeline::Away(known) if known == away) {
            return false;
        }
        entry.pipeline = Pipeline::None;
        // What comes next is not its first packet.
        entry.announced = Some(Announced::under_way());
        self.moves.away -= 1;
        true
    }

    /// A queue pair that went to worker `from` is not there any more.
    pub(super) fn take_back(
        &mut self,
        from: u16,
        key: &FlowKey,
        turn: u32,
        refused: bool,
        now: Time,
    ) {
        let Some(id) = self.table.find(key) else { return };
        let away = Away { worker: from, turn };
        let peer = self.table.get(id).and_then(|entry| entry.peer());
        if !self.is_back(id, away) {
            // It has been recalled since.
            return;
        }
        if let Some(peer) = peer {
            self.is_back(peer, away);
        }
        self.table.unpair(id);
        let named = self.table.get(id).is_some_and(|entry| entry.named);
        // It stays here, if it is certain that it is still the same pair. Else who
        // belongs to whom is to be found out anew.
        if let Some((peer, crew)) = peer.zip(self.moves.crew)
            && (refused || named)
        {
            let join_at = now + self.echo();
            self.lodge([id, peer], Guest { home: crew.worker, turn, join_at, ..Guest::NONE });
        }
    }

    /// Whether flow `id`, which is idle, is to be forgotten like any other. One that
    /// is elsewhere is forgotten together with its peer, and recalled; how long a
    /// guest is silent its home knows.
    pub(crate) fn ages_here(&mut self, id: Id, now: Time) -> bool {
        let Some(entry) = self.table.get(id) else { return false };
        if !matches!(entry.pipeline, Pipeline::Away(_)) {
            let may_age = self.guest(id).is_none_or(|guest| self.is_own(&guest));
            if may_age {
                // Its peer has nobody to wait for any more.
                self.forget_refusal(id);
            }
            return may_age;
        }
        let Some(peer) = entry.peer() else { return false };
        let idle = self.table.get(peer).map(|peer| peer.seen.since(now));
        if idle.is_none_or(|idle| idle >= self.config.flow_idle) {
            self.recall(id, Held::GoesOn);
            for id in [id, peer] {
                self.table.remove(id);
                self.voice.counters.inc(Metric::FlowAged);
            }
        }
        false
    }
}
