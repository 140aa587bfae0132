//! Queue pairs of two hosts at several workers (decision 26).
//!
//! The worker that the addresses of two hosts fall to is the *home* of their queue
//! pairs: it sees every frame of theirs first, and finds out which two flows are a
//! queue pair, since a packet alone doesn't tell. Once it knows, a hash of the two
//! decides who their *owner* is. If that is another worker, the pair moves: what
//! was held goes on, the entries at home only say where the pair is, and frames of
//! it are handed over. At its owner such a pair is a *guest*.
//!
//! Workers tell each other of this with [`Notice`]s. A frame must not be seen
//! before a notice that was given before it, which is for whoever drives the
//! switches to see to: [`Switch::send_notices`] before the frames that the sink was
//! [handed over](common::frame::Sink::hand_over) in the same call.

mod guests;

use std::collections::VecDeque;

use common::control;
use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Roce;
use hashbrown::HashMap;

use crate::Recovery;
use crate::answers::CONFIRMED_FOR;
use crate::switch::{Io, Switch};
use crate::table::{Announced, Away, FlowKey, Hosts, Id, Pipeline, Seen};

/// Notices that may wait for the ring to another worker before pairs stay where
/// they are.
const WAITING: usize = 256;

/// Which of the workers of its box a switch is the part of, if these share the
/// queue pairs of two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crew {
    /// This worker, less than `workers`.
    pub worker: u16,
    /// How many there are, 64 at most.
    pub workers: u16,
}

impl Crew {
    /// Most workers of a box.
    pub const MAX: u16 = 64;

    /// Before the first epoch of this worker's flows. No two workers' epochs are
    /// the same, so what a peer says of a flow before a move is not taken for
    /// something about the flow after it.
    pub(crate) const fn epochs(self) -> u32 {
        self.worker as u32 * (u32::MAX / Self::MAX as u32 + 1)
    }
}

/// What one worker tells another of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Notice(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It is the receiver's from now on.
    Moved(Moved),
    /// It is no longer. The key is that of one of its flows.
    Recalled { key: FlowKey, turn: u32, held: Held },
    /// It goes back to its home; `refused`: it was never taken.
    Returned { key: FlowKey, turn: u32, refused: bool },
}

/// A queue pair that moves.
#[derive(Clone, Copy, Debug)]
struct Moved {
    keys: [FlowKey; 2],
    /// Tells the moves of one home apart.
    turn: u32,
    named: bool,
    announced: [Option<Announced>; 2],
    /// How long answers may come to what passed before.
    echo: Span,
}

/// What becomes of what is held of a pair that is recalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// It goes on, in order.
    GoesOn,
    /// It belongs to a life that is over.
    IsDropped,
}

/// A flow of a queue pair from another worker, or one that was refused there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    /// Of its entry: the index may be another flow's by now.
    generation: u32,
    peer: Id,
    home: u16,
    turn: u32,
    /// Before that, answers may be to what passed by another worker: READ responses
    /// of which this one knows nothing.
    join_at: Time,
}

impl Guest {
    const NONE: Self = Self { generation: 0, peer: 0, home: 0, turn: 0, join_at: Time::ZERO };
}

/// Which queue pairs are not where their addresses belong.
pub(crate) struct Moves {
    crew: Option<Crew>,
    turn: u32,
    /// Flows of other workers' hosts, by their entries.
    guests: HashMap<Id, Guest, foldhash::quality::FixedState>,
    /// Entries of flows that are elsewhere.
    away: u64,
    /// Notices that are on their way out, and to whom.
    outbox: VecDeque<(u16, Notice)>,
}

impl Moves {
    pub fn new(crew: Option<Crew>, seed: u64) -> Self {
        let crew = crew.filter(|crew| crew.workers > 1);
        let state = foldhash::quality::FixedState::with_seed(seed);
        Self {
            crew,
            turn: 0,
            guests: HashMap::with_hasher(state),
            away: 0,
            outbox: VecDeque::with_capacity(if crew.is_some() { WAITING } else { 0 }),
        }
    }

    /// Memory of a guest's flow besides its entry, in bytes at most: a place in a
    /// table that has just doubled (7/16 full, a byte of control each).
    pub const EACH: usize = ((size_of::<(Id, Guest)>() + 1) * 16).div_ceil(7);

    /// Whether queue pairs move at all.
    pub fn is_on(&self) -> bool {
        self.crew.is_some()
    }

    /// Whether any of this worker's is elsewhere.
    #[inline]
    pub fn any_away(&self) -> bool {
        self.away > 0
    }

    fn tell(&mut self, worker: u16, kind: Kind) {
        self.outbox.push_back((worker, Notice(kind)));
    }

    /// Entries of flows that are elsewhere, and of flows from elsewhere.
    pub fn counts(&self) -> (u64, u64) {
        (self.away, self.guests.len() as u64)
    }
}

impl<F: Frame> Switch<F> {
    /// Hands what is to be told to other workers to `send`, which says whether it
    /// could be sent; the rest is tried again the next time. To be called after
    /// each call of any other method, before frames that it handed over become
    /// visible.
    pub fn send_notices(&mut self, mut send: impl FnMut(u16, Notice) -> bool) {
        let outbox = &mut self.moves.outbox;
        if outbox.is_empty() {
            return;
        }
        // Those to one worker keep their order.
        let mut blocked = 0_u64;
        outbox.retain(|(worker, notice)| {
            let bit = 1_u64.checked_shl((*worker).into()).unwrap_or(0);
            let waits = blocked & bit != 0 || !send(*worker, *notice);
            blocked |= if waits { bit } else { 0 };
            waits
        });
    }

    /// What another worker, `from`, tells.
    pub fn on_notice<P, S>(
        &mut self,
        from: u16,
        notice: Notice,
        now: Time,
        pool: &mut P,
        sink: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        match notice.0 {
            Kind::Moved(moved) => self.welcome(from, &moved, &mut io),
            Kind::Recalled { key, turn, held } => self.see_off(from, &key, turn, held, &mut io),
            Kind::Returned { key, turn, refused } => {
                self.take_back(from, &key, turn, refused, now);
            }
        }
        self.settle(&mut io);
        self.released.flush();
    }

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
        let found = found.or_else(|| self.look_up(side, &Ok(*roce)));
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
    fn about(&self, side: Side, bytes: &[u8], roce: &Roce) -> Option<FlowKey> {
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

    /// Draws the conclusions of an event that has joined or parted flows.
    #[inline]
    pub(crate) fn settle<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        while let Some(id) = self.table.next_changed() {
            if !self.settle_guest(id, io) {
                self.settle_own(id, io);
            }
        }
    }

    /// A flow of one of this worker's own hosts was joined with another, or parted
    /// from it.
    fn settle_own<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
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

    /// Ends what a flow's pipeline does.
    fn let_go_of<P, S>(&mut self, id: Id, held: Held, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        match held {
            Held::GoesOn => {
                self.with_sentry(id, io, |flow, cx| flow.bypass(cx));
                self.with_depot(id, io, |flow, cx| flow.let_go(cx));
            }
            Held::IsDropped => {
                self.with_sentry(id, io, |flow, cx| flow.forget(cx));
                self.with_depot(id, io, |flow, cx| flow.forget(cx));
            }
        }
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
            self.table.note_change(one);
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
    fn take_back(&mut self, from: u16, key: &FlowKey, turn: u32, refused: bool, now: Time) {
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
            return self.guest(id).is_none_or(|guest| self.is_own(&guest));
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

    /// Before all flows are given up: those that are elsewhere, or from there.
    pub(crate) fn part<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if !self.moves.is_on() {
            return;
        }
        for id in 0..self.table.end() {
            self.recall(id, Held::GoesOn);
            if let Some(guest) = self.guest(id) {
                self.give_back(id, &guest, io);
            }
        }
    }
}
