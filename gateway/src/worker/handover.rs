//! Between workers: frames that came to a queue of another worker than the
//! one that they belong to.
//!
//! Flows are owned by one worker, and [`Spread`] says by which. A NIC that
//! spreads by the same rule gives each worker its own frames; whatever arrives
//! elsewhere goes over a ring, one for each pair of workers and side, so that
//! the frames of a flow keep their order.
//!
//! Where queue pairs [move](switch::Notice) there are rings of the same kind for
//! their frames, which nobody sorts any more, and one for what the workers'
//! switches tell each other. A frame is never taken before a notice that was given
//! before it: [`Handover::waiting`] first, then every [`Handover::notice`], then no
//! more frames than were waiting.

use arrayvec::ArrayVec;
use common::frame::{Frame, Side};
use common::wire::Spread;
use rtrb::{Consumer, Producer, RingBuffer};
use switch::Notice;

use crate::config::HANDOVER;

/// Notices that may be on their way from one worker to another. What doesn't fit
/// waits at the switch.
const NOTICES: usize = 256;

/// What became of frames of other workers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sorted {
    /// On their way.
    pub handed_over: u64,
    /// Dropped: the other worker is too slow, or has ended.
    pub dropped: u64,
}

/// One worker's ends of the rings.
pub struct Handover<F> {
    spread: Spread,
    /// To each worker; `None` is the worker itself.
    to: Vec<Option<Outward<F>>>,
    /// From all others.
    from: Vec<Inward<F>>,
}

/// The way to a worker.
struct Outward<F> {
    /// What its hosts sent or are sent, by side.
    frames: [Producer<F>; 2],
    moved: Option<ToOwner<F>>,
}

/// The way to it for queue pairs that moved.
struct ToOwner<F> {
    frames: [Producer<F>; 2],
    notices: Producer<Notice>,
}

/// The way from a worker.
struct Inward<F> {
    worker: u16,
    frames: [Consumer<F>; 2],
    moved: Option<FromHome<F>>,
}

struct FromHome<F> {
    frames: [Consumer<F>; 2],
    notices: Consumer<Notice>,
}

/// A ring for each side.
fn rings<F>() -> ([Producer<F>; 2], [Consumer<F>; 2]) {
    let room = usize::from(HANDOVER);
    let ((lan_in, lan_out), (wan_in, wan_out)) = (RingBuffer::new(room), RingBuffer::new(room));
    ([lan_in, wan_in], [lan_out, wan_out])
}

/// Joins `workers` workers, at least one; with ways for queue pairs that move, if
/// any do.
pub fn mesh<F>(workers: u16, spread: Spread, moves: bool) -> Vec<Handover<F>> {
    let new = |_| Handover { spread, to: Vec::new(), from: Vec::new() };
    let mut all: Vec<Handover<F>> = (0..workers).map(new).collect();
    for from in 0..workers {
        for to in 0..workers {
            if from == to {
                all[usize::from(from)].to.push(None);
                continue;
            }
            let (to_home, from_home) = if moves {
                let ((give, take), (tell, hear)) = (rings(), RingBuffer::new(NOTICES));
                let to_owner = ToOwner { frames: give, notices: tell };
                (Some(to_owner), Some(FromHome { frames: take, notices: hear }))
            } else {
                (None, None)
            };
            let (give, take) = rings();
            all[usize::from(from)].to.push(Some(Outward { frames: give, moved: to_home }));
            let way = Inward { worker: from, frames: take, moved: from_home };
            all[usize::from(to)].from.push(way);
        }
    }
    all
}

/// Puts a frame into a ring, or drops it. Returns whether it is on its way.
fn give<F>(ring: &mut Producer<F>, frame: F) -> bool {
    !ring.is_abandoned() && ring.push(frame).is_ok()
}

/// Appends what is in a ring, `limit` frames at most and as much as fits.
fn take<F, const N: usize>(
    ring: &mut Consumer<F>,
    limit: usize,
    frames: &mut ArrayVec<F, N>,
) -> usize {
    let room = frames.remaining_capacity().min(limit);
    let before = frames.len();
    frames.extend(std::iter::from_fn(|| ring.pop().ok()).take(room));
    frames.len() - before
}

impl<F: Frame> Handover<F> {
    /// Leaves in `frames` those of this worker and sends the others on their way.
    #[inline]
    pub fn sort<const N: usize>(&mut self, side: Side, frames: &mut ArrayVec<F, N>) -> Sorted {
        let mut sorted = Sorted::default();
        if self.from.is_empty() {
            return sorted;
        }
        let mut mine = ArrayVec::new();
        for frame in frames.drain(..) {
            let owner = self.spread.bucket(frame.bytes()) % self.to.len();
            match &mut self.to[owner] {
                None => mine.push(frame),
                Some(to) => match give(&mut to.frames[side.index()], frame) {
                    true => sorted.handed_over += 1,
                    false => sorted.dropped += 1,
                },
            }
        }
        *frames = mine;
        sorted
    }

    /// How many others there are.
    pub fn others(&self) -> usize {
        self.from.len()
    }

    /// Appends what another one, less than [`others`](Self::others), has handed
    /// over, as much as fits, and returns how many frames that are.
    pub fn take<const N: usize>(
        &mut self,
        other: usize,
        side: Side,
        frames: &mut ArrayVec<F, N>,
    ) -> usize {
        take(&mut self.from[other].frames[side.index()], usize::MAX, frames)
    }

    /// Sends a frame of a queue pair that moved to `worker`, where it arrived on
    /// `side`. Returns whether it is on its way, and not dropped.
    #[inline]
    pub fn give_moved(&mut self, worker: u16, side: Side, frame: F) -> bool {
        let to = self.to.get_mut(usize::from(worker)).and_then(Option::as_mut);
        let way = to.and_then(|to| to.moved.as_mut());
        way.is_some_and(|way| give(&mut way.frames[side.index()], frame))
    }

    /// Tells `worker` something; false if that has to be tried again.
    pub fn tell(&mut self, worker: u16, notice: Notice) -> bool {
        let to = self.to.get_mut(usize::from(worker)).and_then(Option::as_mut);
        // Who has ended needs to be told nothing.
        to.and_then(|to| to.moved.as_mut())
            .is_none_or(|way| way.notices.is_abandoned() || way.notices.push(notice).is_ok())
    }

    /// How many frames of queue pairs that moved here another one, less than
    /// [`others`](Self::others), has given, by [`Side::index`].
    #[inline]
    pub fn waiting(&self, other: usize) -> [usize; 2] {
        let way = self.from[other].moved.as_ref();
        way.map_or([0; 2], |way| way.frames.each_ref().map(Consumer::slots))
    }

    /// What another one tells next, and which it is.
    #[inline]
    pub fn notice(&mut self, other: usize) -> Option<(u16, Notice)> {
        let from = &mut self.from[other];
        let notice = from.moved.as_mut()?.notices.pop().ok()?;
        Some((from.worker, notice))
    }

    /// As [`take`](Self::take), `limit` at most of the queue pairs that moved here.
    pub fn take_moved<const N: usize>(
        &mut self,
        other: usize,
        side: Side,
        limit: usize,
        frames: &mut ArrayVec<F, N>,
    ) -> usize {
        let Some(way) = &mut self.from[other].moved else { return 0 };
        take(&mut way.frames[side.index()], limit, frames)
    }

    /// Drops what is on its way to this worker, which ends, and returns how many
    /// frames that were, by [`Side::index`].
    pub fn discard(&mut self) -> [u64; 2] {
        let mut dropped = [0; 2];
        for from in &mut self.from {
            let moved = from.moved.iter_mut().flat_map(|way| way.frames.iter_mut());
            // Two and two: the sides take turns.
            let sides = [Side::Lan, Side::Wan].into_iter().cycle();
            for (ring, side) in from.frames.iter_mut().chain(moved).zip(sides) {
                dropped[side.index()] += std::iter::from_fn(|| ring.pop().ok()).count() as u64;
            }
        }
        dropped
    }

    /// Whether nothing is on its way to this worker.
    pub fn is_empty(&self) -> bool {
        let moved = |way: &FromHome<F>| way.frames.iter().all(Consumer::is_empty);
        self.from
            .iter()
            .all(|from| from.frames.iter().all(Consumer::is_empty) && from.moved.iter().all(moved))
    }
}
