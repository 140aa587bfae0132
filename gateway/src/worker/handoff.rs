//! Handoff: passing a frame to the worker that owns its flow.
//!
//! Flows are owned by one worker, and [`Owners`] says by which. A NIC that
//! spreads by the same rule gives each worker its own frames; a frame that arrives
//! elsewhere goes over a ring, one for each pair of workers and port, so that
//! the frames of a flow keep their order.

use arrayvec::ArrayVec;
use common::frame::Frame;
use rtrb::{Consumer, Producer, RingBuffer};

use super::owner::Owners;
use crate::config::HANDOFF;
use crate::port::PortId;

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
    owners: Owners,
    /// To each worker, by [`PortId::index`]; `None` is the worker itself.
    to: Vec<Option<Vec<Producer<F>>>>,
    /// From every other worker.
    from: Vec<Vec<Consumer<F>>>,
}

/// A ring for each port.
fn rings<F>(ports: usize) -> (Vec<Producer<F>>, Vec<Consumer<F>>) {
    (0..ports).map(|_| RingBuffer::new(HANDOFF.into())).unzip()
}

/// Joins `workers` workers, at least one, of a box with so many ports.
pub fn mesh<F>(workers: u16, ports: usize, owners: &Owners) -> Vec<Handoff<F>> {
    let new = |_| Handoff { owners: owners.clone(), to: Vec::new(), from: Vec::new() };
    let mut all: Vec<Handoff<F>> = (0..workers).map(new).collect();
    for from in 0..workers {
        for to in 0..workers {
            if from == to {
                all[usize::from(from)].to.push(None);
                continue;
            }
            let (give, take) = rings(ports);
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
    pub fn sort<const N: usize>(&mut self, port: PortId, frames: &mut ArrayVec<F, N>) -> Sorted {
        let mut sorted = Sorted::default();
        if self.from.is_empty() {
            return sorted;
        }
        let (mut mine, workers) = (ArrayVec::new(), self.to.len());
        for frame in frames.drain(..) {
            let part = self.owners.part(port, frame.bytes());
            match part.and_then(|part| self.to[part % workers].as_mut()) {
                None => mine.push(frame),
                Some(to) => match give(&mut to[port.index()], frame) {
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
        port: PortId,
        frames: &mut ArrayVec<F, N>,
    ) -> usize {
        let ring = &mut self.from[other][port.index()];
        let (before, room) = (frames.len(), frames.remaining_capacity());
        frames.extend(std::iter::from_fn(|| ring.pop().ok()).take(room));
        frames.len() - before
    }

    /// Drops frames from a port on their way to this worker, which ends, and returns how many
    /// they were.
    pub fn discard(&mut self, port: PortId) -> u64 {
        let rings = self.from.iter_mut().filter_map(|from| from.get_mut(port.index()));
        rings.map(|ring| std::iter::from_fn(|| ring.pop().ok()).count() as u64).sum()
    }

    /// Whether nothing is on its way to this worker.
    pub fn is_empty(&self) -> bool {
        self.from.iter().flatten().all(Consumer::is_empty)
    }
}
