//! Queue pairs of other workers' hosts, at their owner.

use arrayvec::ArrayVec;
use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::{NotRoce, Roce, parse};

use super::{Guest, Held, Kind, Moved};
use crate::Recovery;
use crate::switch::{Io, Switch};
use crate::table::{Announced, FlowKey, Id};

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
        // As in `burst`: what one waits for in memory, the others wait for as well.
        let parsed: ArrayVec<_, N> = frames.iter().map(|frame| parse(frame.bytes())).collect();
        let found: ArrayVec<_, N> = (frames.iter().zip(&parsed))
            .map(|(frame, parsed)| self.look_up_guest(side, frame, parsed))
            .collect();
        found.iter().flatten().for_each(|id| self.table.warm(*id));
        let removed = self.table.removed();
        for ((frame, parsed), found) in frames.drain(..).zip(&parsed).zip(found) {
            let found = found.filter(|_| self.table.removed() == removed);
            let found = found.or_else(|| self.look_up_guest(side, &frame, parsed));
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

    /// The entry of the flow that a frame belongs to or, if it is a control message,
    /// is about.
    fn look_up_guest(&self, side: Side, frame: &F, parsed: &Result<Roce, NotRoce>) -> Option<Id> {
        let roce = parsed.as_ref().ok()?;
        match self.about(side, frame.bytes(), roce) {
            Some(key) => self.table.find(&key),
            None => self.look_up(side, parsed),
        }
    }

    /// What is known of flow `id` as another worker's.
    pub(super) fn guest(&self, id: Id) -> Option<Guest> {
        let guest = self.moves.guests.get(&id).copied()?;
        let entry = self.table.get(id)?;
        (entry.generation == guest.generation).then_some(guest)
    }

    /// Whether flow `id` may be joined with the flow of `other`: with that of
    /// another worker's hosts only as it came.
    pub(crate) fn may_join(&self, id: Id, other: &FlowKey) -> bool {
        let peer = self.guest(id).map(|guest| self.table.get(guest.peer).map(|entry| entry.key));
        peer.is_none_or(|peer| peer == Some(*other))
    }

    /// Something has happened to entry `id`. Returns whether that is a flow of
    /// another worker's hosts.
    pub(super) fn settle_guest<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>) -> bool
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if self.moves.guests.is_empty() {
            return false;
        }
        let Some(guest) = self.guest(id) else {
            self.moves.guests.remove(&id);
            return false;
        };
        if self.table.get(id).and_then(|entry| entry.peer()) != Some(guest.peer) {
            self.give_back(id, guest, io);
        }
        true
    }

    /// A queue pair of another worker's hosts begins another life, or is to end:
    /// its home knows what to do.
    pub(super) fn give_back<P, S>(&mut self, id: Id, guest: Guest, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(key) = self.table.get(id).map(|entry| entry.key) else { return };
        self.dismiss(id, guest, Held::GoesOn, io);
        self.voice.counters.inc(Metric::PairReturned);
        let Guest { home, turn, .. } = guest;
        self.moves.tell(home, Kind::Returned { key, turn, refused: false });
    }

    /// Forgets both flows of a guest.
    fn dismiss<P, S>(&mut self, id: Id, guest: Guest, held: Held, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let peer = self.guest(guest.peer).filter(|peer| peer.peer == id);
        for one in [Some(id), peer.map(|_| guest.peer)].into_iter().flatten() {
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
        let Moved { keys, turn, named, announced } = *moved;
        for key in &keys {
            // Of an earlier move, of which its home knows no more.
            if let Some(id) = self.table.find(key)
                && let Some(guest) = self.guest(id)
            {
                self.dismiss(id, guest, Held::GoesOn, io);
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
        for ((id, peer), announced) in [(there, back), (back, there)].into_iter().zip(announced) {
            if let Some(entry) = self.table.get_mut(id) {
                entry.named = named;
                entry.announced = announced.or(Some(Announced::under_way()));
                let generation = entry.generation;
                self.moves.guests.insert(id, Guest { generation, peer, home, turn });
            }
        }
        self.table.pair(there, back);
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
            self.dismiss(id, guest, held, io);
        }
    }
}
