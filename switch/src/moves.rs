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
mod home;

use std::collections::VecDeque;

use common::frame::{Frame, Pool, Sink};
use common::time::{Span, Time};
use hashbrown::HashMap;

use crate::entry::{Announced, Id};
use crate::key::FlowKey;
use crate::switch::{Io, Switch};

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

impl Notice {
    /// Frames of the queue pair go another way before it is told.
    fn delay(&mut self) {
        if let Kind::Moved(moved) = &mut self.0 {
            moved.announced = [Some(Announced::under_way()); 2];
        }
    }
}

/// Workers that are still to be told something.
#[derive(Clone, Copy, Debug)]
pub struct Untold(u64);

impl Untold {
    /// Whether `worker` is one of them.
    #[inline]
    pub fn has(self, worker: u16) -> bool {
        self.0 >> worker & 1 != 0
    }

    fn add(&mut self, worker: u16) {
        self.0 |= 1 << worker;
    }
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

/// Where a flow is that isn't here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Away {
    pub worker: u16,
    /// With which move it went there.
    pub turn: u32,
}

/// Flows that were joined with others or parted from them, or that are to be looked
/// at for another reason. Nobody looks where pairs stay.
#[derive(Default)]
pub(crate) struct Changed(Option<Vec<Id>>);

impl Changed {
    /// From now on they are kept in mind.
    pub fn watch(&mut self) {
        self.0 = Some(Vec::with_capacity(16));
    }

    /// Something has happened to flow `id`.
    pub fn note(&mut self, id: Id) {
        if let Some(changed) = &mut self.0 {
            changed.push(id);
        }
    }

    /// Takes one of them; its entry may be gone.
    #[inline]
    pub fn next(&mut self) -> Option<Id> {
        self.0.as_mut()?.pop()
    }
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
    /// `flows` is how many entries the table may have.
    pub fn new(crew: Option<Crew>, flows: usize, seed: u64) -> Self {
        let crew = crew.filter(|crew| crew.workers > 1);
        let state = foldhash::quality::FixedState::with_seed(seed);
        // For each guest somebody has an entry that says where it is, so as a rule
        // half of all entries are guests'. There is room for as many from the start.
        let guests = if crew.is_some() { flows.div_ceil(2) } else { 0 };
        Self {
            crew,
            turn: 0,
            guests: HashMap::with_capacity_and_hasher(guests, state),
            away: 0,
            outbox: VecDeque::with_capacity(if crew.is_some() { WAITING } else { 0 }),
        }
    }

    /// Memory of a guest's flow besides its entry, in bytes at most: a place in a
    /// table of twice as many, of which an eighth stays free (a byte of control each).
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
    /// visible. What was handed over to a worker that is still to be told something
    /// must not: it goes on by way of the other port, as it is.
    pub fn send_notices(&mut self, mut send: impl FnMut(u16, Notice) -> bool) -> Untold {
        let outbox = &mut self.moves.outbox;
        let mut untold = Untold(0);
        if outbox.is_empty() {
            return untold;
        }
        // Those to one worker keep their order.
        outbox.retain_mut(|(worker, notice)| {
            let waits = untold.has(*worker) || !send(*worker, *notice);
            if waits {
                untold.add(*worker);
                notice.delay();
            }
            waits
        });
        untold
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

    /// Draws the conclusions of an event that has joined or parted flows.
    #[inline]
    pub(crate) fn settle<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        while let Some(id) = self.table.changed.next() {
            if !self.settle_guest(id, io) {
                self.settle_own(id, io);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_take_what_is_said() {
        for flows in [2_000, 4_096, 10_000] {
            let crew = Some(Crew { worker: 1, workers: 2 });
            let mut kept = None;
            let counted = allocation_counter::measure(|| {
                let mut moves = Moves::new(crew, flows, 1);
                for id in 0..flows as Id / 2 {
                    moves.guests.insert(id, Guest::NONE);
                }
                kept = Some(moves);
            });
            let outbox = (WAITING * size_of::<(u16, Notice)>()) as i64;
            let each = (counted.bytes_current - outbox) as usize / (flows / 2);
            assert!(each <= Moves::EACH && each > Moves::EACH / 3, "{each} bytes counted");
        }
    }

    #[test]
    fn workers_count_epochs_apart() {
        let bases: Vec<_> =
            (0..Crew::MAX).map(|worker| Crew { worker, workers: Crew::MAX }.epochs()).collect();
        assert!(bases.windows(2).all(|pair| pair[1] - pair[0] == 1 << 26));
        assert_eq!(bases[63] + ((1 << 26) - 1), u32::MAX);
    }
}
