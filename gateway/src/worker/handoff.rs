//! Handoff: passing a frame to the worker that owns its flow.
//!
//! Flows are owned by one worker, and [`Owners`] says by which. A NIC that
//! spreads by the same rule gives each worker its own frames; a frame that arrives
//! elsewhere goes over a ring, one for each pair of workers and port, so that
//! the frames of a flow keep their order.

use arrayvec::ArrayVec;
use common::cpu::prefetch;
use common::frame::Frame;
use datapath::Owners;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::config::{BURST_MAX, HANDOFF};
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
    /// Which worker this is.
    me: usize,
    /// To each worker; the one to this worker itself has no rings.
    to: Vec<To<F>>,
    /// From every other worker, by [`PortId::index`].
    from: Vec<Vec<Consumer<F>>>,
}

/// The way to another worker.
struct To<F> {
    /// A ring for each port, by [`PortId::index`].
    rings: Vec<Producer<F>>,
    /// That worker's frames of the burst that is sorted; empty between bursts.
    frames: Vec<F>,
}

impl<F> To<F> {
    fn new(rings: Vec<Producer<F>>) -> Self {
        Self { rings, frames: Vec::with_capacity(BURST_MAX) }
    }

    /// Puts its frames, which arrived at a port, into that port's ring. Those that the ring has no room for are
    /// dropped, the newest first, and all if the worker has ended.
    fn flush(&mut self, port: PortId) -> Sorted {
        let (ring, count) = (&mut self.rings[port.index()], self.frames.len());
        let room = if ring.is_abandoned() { 0 } else { ring.slots().min(count) };
        let chunk = ring.write_chunk_uninit(room);
        let given = chunk.map_or(0, |chunk| chunk.fill_from_iter(self.frames.drain(..room)));
        self.frames.clear();
        Sorted { handed_off: given as u64, dropped: (count - given) as u64 }
    }
}

/// A ring for each port.
fn rings<F>(ports: usize) -> (Vec<Producer<F>>, Vec<Consumer<F>>) {
    (0..ports).map(|_| RingBuffer::new(HANDOFF.into())).unzip()
}

/// Joins `workers` workers, at least one, of a box with so many ports.
pub fn mesh<F>(workers: u16, ports: usize, owners: &Owners) -> Vec<Handoff<F>> {
    let new = |me: u16| {
        let (owners, me) = (owners.clone(), me.into());
        Handoff { owners, me, to: Vec::new(), from: Vec::new() }
    };
    let mut all: Vec<Handoff<F>> = (0..workers).map(new).collect();
    for from in 0..usize::from(workers) {
        for to in 0..usize::from(workers) {
            let (give, take) = rings(if from == to { 0 } else { ports });
            all[from].to.push(To::new(give));
            if from != to {
                all[to].from.push(take);
            }
        }
    }
    all
}

impl<F: Frame> Handoff<F> {
    /// Leaves in `frames` those of this worker and sends the others on their way.
    #[inline]
    pub fn sort<const N: usize>(&mut self, port: PortId, frames: &mut ArrayVec<F, N>) -> Sorted {
        if self.from.is_empty() {
            return Sorted::default();
        }
        let (me, workers) = (self.me, self.to.len());
        let at = (port.side(), port.wan_port());
        let owner = |frame: &F| self.owners.part(at, frame.bytes()).map_or(me, |n| n % workers);
        let owners: ArrayVec<usize, N> = frames.iter().map(owner).collect();
        // The usual case, where the NIC spreads by the same rule: no frame is moved.
        if owners.iter().all(|owner| *owner == me) {
            return Sorted::default();
        }
        let mut mine = ArrayVec::new();
        for (frame, owner) in frames.drain(..).zip(owners) {
            match owner == me {
                true => mine.push(frame),
                false => self.to[owner].frames.push(frame),
            }
        }
        *frames = mine;
        let others = self.to.iter_mut().filter(|to| !to.frames.is_empty());
        others.map(|to| to.flush(port)).fold(Sorted::default(), |all, one| Sorted {
            handed_off: all.handed_off + one.handed_off,
            dropped: all.dropped + one.dropped,
        })
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
        let before = frames.len();
        let count = ring.slots().min(frames.remaining_capacity());
        let Ok(chunk) = ring.read_chunk(count) else { return 0 };
        for frame in chunk {
            frame.prefetch();
            frames.push(frame);
        }
        // mbufs and headers are in the cache of the core that received them. Prefetched together, their misses overlap.
        frames[before..].iter().filter_map(|frame| frame.bytes().first()).for_each(prefetch);
        count
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
