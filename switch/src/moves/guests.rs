//! Queue pairs of other workers' hosts, at their owner.

use arrayvec::ArrayVec;
use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Roce, parse};

use super::{Guest, Held, Kind, Moved};
use crate::Recovery;
use crate::entry::{Announced, By, Id};
use crate::key::FlowKey;
use crate::pairing::Heard;
use crate::switch::{Io, Switch, key};

impl<F: Frame> Switch<F> {
    /// A burst that arrived on `side`, which other workers have handed over. Takes
    /// every frame out of `frames`.
    pub fn take_over<P, S, const N: usize>(
        &mut self,
        side: Side,
        frames: &mut ArrayVec<F, N>,
        now: Time,
        pool: &mut P,
        sink: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.started.get_or_insert(now);
        let mut io = Io { pool, sink, now };
        let mut parsed = ArrayVec::<_, N>::new();
        frames.iter().for_each(|frame| parsed.push(parse(frame.bytes())));
        let key = |frame: &F, roce: &Roce| self.key_here(side, frame, roce);
        let found = self.look_up_all(frames, &parsed, key);
        let removed = self.table.removed();
        for ((frame, parsed), found) in frames.drain(..).zip(&parsed).zip(found) {
            let found = found.filter(|_| self.table.removed() == removed);
            let found = found.or_else(|| {
                let key = self.key_here(side, &frame, parsed.as_ref().ok()?)?;
                self.table.find(&key)
            });
            self.voice.counters.inc(Metric::TakenOver);
            match parsed {
                Ok(roce) if found.is_some() => self.handle(side, frame, roce, found, &mut io),
                Ok(roce) if roce.opcode == self.voice.opcode => {
                    self.voice.counters.inc(Metric::DropControlUnknownFlow);
                }
                // It has gone back meanwhile.
                _ => self.pass(side, frame, Metric::PassedUnknownPair, &mut io),
            }
            self.settle(&mut io);
        }
        self.released.flush();
    }

    /// What a frame is looked up by: the flow that it is about, if it is a control message.
    fn key_here(&self, side: Side, frame: &F, roce: &Roce) -> Option<FlowKey> {
        self.about(side, frame.bytes(), roce).or_else(|| key(side, roce))
    }

    /// What is known of flow `id` as another worker's.
    #[inline]
    pub(crate) fn guest(&self, id: Id) -> Option<Guest> {
        if self.moves.guests.is_empty() {
            return None;
        }
        let guest = self.moves.guests.get(&id).copied()?;
        let entry = self.table.get(id)?;
        (entry.generation == guest.generation).then_some(guest)
    }

    /// Whether the flow that came with flow `id` is still here: its index may be
    /// another flow's by now.
    fn is_peer_here(&self, id: Id, guest: &Guest) -> bool {
        self.guest(guest.peer).is_some_and(|peer| peer.peer == id)
    }

    /// Whether it is no guest at all, but was refused elsewhere.
    pub(super) fn is_own(&self, guest: &Guest) -> bool {
        self.moves.crew.is_some_and(|crew| crew.worker == guest.home)
    }

    /// These two flows are a queue pair, as `guest` has come here. They know each
    /// other's number, but not yet what they are answered.
    pub(super) fn lodge(&mut self, ids: [Id; 2], guest: Guest) {
        for (id, peer) in [(ids[0], ids[1]), (ids[1], ids[0])] {
            let requester = self.table.get(peer).map(|entry| entry.key.dest_qpn);
            let generation = self.table.get(id).map(|entry| entry.generation);
            if let (Some(generation), Some(requester)) = (generation, requester) {
                self.moves.guests.insert(id, Guest { generation, peer, ..guest });
                self.table.name_requester(id, requester);
            }
        }
    }

    /// An answer of stream `id` came. The flow that it is for, if that may learn
    /// from it: it is to something that passed here, and what passed elsewhere was
    /// answered long ago.
    pub(crate) fn join(&mut self, id: Id, guest: &Guest, answer: &Heard, now: Time) -> Option<Id> {
        if now < guest.join_at
            || !self.is_peer_here(id, guest)
            || !self.table.confirms(guest.peer, answer)
        {
            return None;
        }
        self.table.pair(id, guest.peer);
        Some(guest.peer)
    }

    /// The peer says who the requester of flow `id` is. If it is no other than
    /// before, the pair stays.
    pub(crate) fn adopt_guest(&mut self, id: Id, guest: &Guest, qpn: u32, now: Time) {
        if !self.is_peer_here(id, guest) {
            return;
        }
        if self.table.get(guest.peer).is_none_or(|peer| peer.key.dest_qpn != qpn) {
            return;
        }
        self.table.name_requester(id, qpn);
        if now >= guest.join_at {
            self.table.pair(id, guest.peer);
        }
    }

    /// Something has happened to entry `id`. Returns whether that is a flow of
    /// another worker's hosts.
    pub(super) fn settle_guest<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>) -> bool
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(guest) = self.guest(id) else {
            self.moves.guests.remove(&id);
            return false;
        };
        let requester = self.table.get(id).and_then(|entry| entry.requester());
        let peer = self.table.get(guest.peer).filter(|_| self.guest(guest.peer).is_some());
        let stays = requester.is_some() && peer.map(|peer| peer.key.dest_qpn) == requester;
        if !stays && self.is_own(&guest) {
            self.forget_refusal(id);
        } else if !stays {
            self.give_back(id, &guest, io);
        }
        true
    }

    /// If the queue pair of flow `id` was refused elsewhere, that is over.
    pub(super) fn forget_refusal(&mut self, id: Id) {
        let Some(guest) = self.guest(id).filter(|guest| self.is_own(guest)) else { return };
        let peer = self.is_peer_here(id, &guest).then_some(guest.peer);
        let is_named = self.table.get(id).is_some_and(|entry| entry.named);
        if !is_named {
            self.table.unpair(id);
        }
        for one in [Some(id), peer].into_iter().flatten() {
            self.moves.guests.remove(&one);
            if let Some(entry) = self.table.get_mut(one).filter(|_| !is_named) {
                entry.forget_requester();
            }
        }
        if let Some(peer) = peer.filter(|_| is_named) {
            // The operator vouches for it. Perhaps there is room for it by now.
            self.table.pair(id, peer);
        }
    }

    /// A queue pair of another worker's hosts begins another life, or is to end:
    /// its home knows what to do.
    pub(super) fn give_back<P, S>(&mut self, id: Id, guest: &Guest, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(key) = self.table.get(id).map(|entry| entry.key) else { return };
        if self.is_own(guest) {
            return self.forget_refusal(id);
        }
        self.dismiss(id, guest, Held::GoesOn, io);
        self.voice.counters.inc(Metric::PairReturned);
        let Guest { home, turn, .. } = *guest;
        self.moves.tell(home, Kind::Returned { key, turn, refused: false });
    }

    /// Forgets both flows of a guest.
    fn dismiss<P, S>(&mut self, id: Id, guest: &Guest, held: Held, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let peer = self.guest(guest.peer).map(|_| guest.peer);
        for one in [Some(id), peer].into_iter().flatten() {
            self.let_go_of(one, held, io);
            self.moves.guests.remove(&one);
            self.table.remove(one);
        }
    }

    /// A queue pair comes from worker `home`.
    pub(super) fn welcome<P, S>(&mut self, home: u16, moved: &Moved, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Moved { keys, turn, named, announced, echo } = *moved;
        for key in &keys {
            // Of an earlier move, of which its home knows no more.
            if let Some(id) = self.table.find(key)
                && let Some(guest) = self.guest(id)
            {
                self.dismiss(id, &guest, Held::GoesOn, io);
            }
        }
        let may_stay = !self.draining && self.config.recovery != Recovery::Off;
        let entries = if may_stay && self.table.room() >= keys.len() {
            keys.map(|key| self.table.entry(key, io.now).filter(|(_, is_new)| *is_new))
        } else {
            [None; 2]
        };
        let [Some((there, _)), Some((back, _))] = entries else {
            for (id, _) in entries.into_iter().flatten() {
                self.table.remove(id);
            }
            self.voice.counters.inc(Metric::PairRefused);
            return self.moves.tell(home, Kind::Returned { key: keys[0], turn, refused: true });
        };
        let is_under_way = |announced: &Option<Announced>| {
            announced.is_some_and(|announced| announced.by == By::Nobody)
        };
        let under_way = announced.iter().any(is_under_way);
        for (id, announced) in [there, back].into_iter().zip(announced) {
            if let Some(entry) = self.table.get_mut(id) {
                (entry.named, entry.announced) = (named, announced);
            }
        }
        let join_at = if under_way { io.now + echo } else { io.now };
        self.lodge([there, back], Guest { home, turn, join_at, ..Guest::NONE });
        if !under_way {
            self.table.pair(there, back);
        }
    }

    /// Worker `home` wants a queue pair of its own back.
    pub(super) fn see_off<P, S>(
        &mut self,
        home: u16,
        key: &FlowKey,
        turn: u32,
        held: Held,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(id) = self.table.find(key) else { return };
        if let Some(guest) = self.guest(id)
            && (guest.home, guest.turn) == (home, turn)
        {
            self.dismiss(id, &guest, held, io);
        }
    }
}
