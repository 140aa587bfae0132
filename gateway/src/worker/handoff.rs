//! Handoff: passing a frame to the worker that owns its flow.
//!
//! Flows are owned by one worker, and [`Spread`] says by which. A NIC that
//! spreads by the same rule gives each worker its own frames; a frame that arrives
//! elsewhere goes over a ring, one for each pair of workers and side, so that
//! the frames of a flow keep their order.

use arrayvec::ArrayVec;
use common::frame::{Frame, Side};
use common::wire::Spread;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::config::HANDOFF;

/// Fates of frames of other workers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sorted {
    /// Put into the ring of another worker.
    pub handed_off: u64,
    /// Dropped: the other worker is too slow, or has ended.
    pub dropped: u64,
}

/// One worker's ends of the rings.
pub struct Handoff<F> {
    spread: Spread,
    /// To each worker, by [`Side::index`]; `None` is the worker itself.
    to: Vec<Option<[Producer<F>; 2]>>,
    /// From every other worker.
    from: Vec<[Consumer<F>; 2]>,
}

/// A ring for each side.
fn rings<F>() -> ([Producer<F>; 2], [Consumer<F>; 2]) {
    let room = usize::from(HANDOFF);
    let ((lan_in, lan_out), (wan_in, wan_out)) = (RingBuffer::new(room), RingBuffer::new(room));
    ([lan_in, wan_in], [lan_out, wan_out])
}

/// Joins `workers` workers, at least one.
pub fn mesh<F>(workers: u16, spread: Spread) -> Vec<Handoff<F>> {
    let new = |_| Handoff { spread, to: Vec::new(), from: Vec::new() };
    let mut all: Vec<Handoff<F>> = (0..workers).map(new).collect();
    for from in 0..workers {
        for to in 0..workers {
            if from == to {
                all[usize::from(from)].to.push(None);
                continue;
            }
            let (give, take) = rings();
            all[usize::from(from)].to.push(Some(give));
            all[usize::from(to)].from.push(take);
        }
    }
    all
}

/// Puts a frame into a ring, or drops it. Returns whether it is on its way.
fn give<F>(ring: &mut Producer<F>, frame: F) -> bool {
    !ring.is_abandoned() && ring.push(frame).is_ok()
}

impl<F: Frame> Handoff<F> {
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
                Some(to) => match give(&mut to[side.index()], frame) {
                    true => sorted.handed_off += 1,
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

    /// Appends frames that another one, less than [`others`](Self::others), has handed
    /// off, as many as fit, and returns how many those are.
    pub fn take<const N: usize>(
        &mut self,
        other: usize,
        side: Side,
        frames: &mut ArrayVec<F, N>,
    ) -> usize {
        let ring = &mut self.from[other][side.index()];
        let (before, room) = (frames.len(), frames.remaining_capacity());
        frames.extend(std::iter::from_fn(|| ring.pop().ok()).take(room));
        frames.len() - before
    }

    /// Drops frames on their way to this worker, which ends, and returns how many
    /// they were, by [`Side::index`].
    pub fn discard(&mut self) -> [u64; 2] {
        let mut dropped = [0; 2];
        for from in &mut self.from {
            for (ring, dropped) in from.iter_mut().zip(&mut dropped) {
                *dropped += std::iter::from_fn(|| ring.pop().ok()).count() as u64;
            }
        }
        dropped
    }

    /// Whether nothing is on its way to this worker.
    pub fn is_empty(&self) -> bool {
        self.from.iter().flatten().all(Consumer::is_empty)
    }
}
