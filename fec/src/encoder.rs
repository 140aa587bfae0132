//! The sender's end.

use galois::Kernel;

use crate::plan::{MAX_STREAMS, MAX_WINDOWS, Place, Plan, factor};
use crate::sums::{State, Sums, Symbol};
use crate::{LEN_BYTES, Repair};

/// Sums of the frames of one lane.
pub struct Encoder {
    plan: Option<Plan>,
    /// The limit of [`new`](Self::new): sums have memory for such frames.
    room: usize,
    longest: usize,
    sums: Sums,
    /// The number of the next frame.
    next: u64,
    /// Numbers of each stream since its last repair frame.
    pending: [u16; MAX_STREAMS as usize],
}

impl Encoder {
    /// Without a plan. Frames have `longest` bytes at most; longer ones are not protected. The decoder has
    /// the same limit.
    pub fn new(kernel: Kernel, longest: usize) -> Self {
        let count = usize::from(MAX_STREAMS) * usize::from(MAX_WINDOWS);
        Self {
            plan: None,
            room: longest,
            longest,
            sums: Sums::new(kernel, count, longest),
            next: 0,
            pending: [0; MAX_STREAMS as usize],
        }
    }

    /// The plan that holds.
    pub const fn plan(&self) -> Option<Plan> {
        self.plan
    }

    /// Frames have `longest` bytes at most from now on, which is no more than [`new`](Self::new) was told. The decoder has
    /// to have the same limit.
    pub fn limit(&mut self, longest: usize) {
        self.longest = longest.min(self.room);
        self.stop();
    }

    /// Begins to protect frames, from the number `next` on. Sums of another plan are gone. Returns the
    /// announcement for the decoder: a repair frame without bytes.
    pub fn start(&mut self, plan: Plan, next: u64) -> Repair {
        self.plan = Some(plan);
        self.next = next;
        self.sums.clear();
        self.pending.fill(0);
        Repair { plan, first: next, count: 0, seed: 0 }
    }

    /// Protects no more frames.
    pub fn stop(&mut self) {
        self.plan = None;
    }

    /// The number of the next frame.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Adds the next frame. Returns a repair frame if one is due behind it. If `number` is not the
    /// [next](Self::next) one, all sums begin with it. Without a plan nothing happens.
    #[inline]
    pub fn add(&mut self, number: u64, parts: &[&[u8]]) -> Option<(Repair, &[u8])> {
        let plan = self.plan?;
        self.add_by(plan, number, parts)
    }

    fn add_by(&mut self, plan: Plan, number: u64, parts: &[&[u8]]) -> Option<(Repair, &[u8])> {
        if number != self.next {
            self.start(plan, number);
        }
        self.next += 1;
        let place = plan.place(number);
        let symbol = Symbol::new(parts, self.longest);
        for window in place.block..place.block + u64::from(plan.windows()) {
            let slot = slot(plan, place.stream, window);
            self.sums.add(slot, window, number, factor(window as u16, number), symbol);
        }
        self.pending[place.stream as usize] += 1;
        if place.is_last { self.repair(plan, place, number) } else { None }
    }

    /// A repair frame for frames that are in none yet, to be sent when no further frames come. `None` once
    /// all frames are in one.
    pub fn flush(&mut self) -> Option<(Repair, &[u8])> {
        let plan = self.plan?;
        let streams = u64::from(plan.streams());
        let stream = (0..streams).find(|stream| self.pending[*stream as usize] > 0)?;
        // The stream's newest number.
        let back = (self.next - 1 - stream) % streams;
        let number = self.next - 1 - back;
        self.repair(plan, plan.place(number), number)
    }

    /// The window that ends with the number's block, as far as it was sent.
    fn repair(&mut self, plan: Plan, place: Place, last: u64) -> Option<(Repair, &[u8])> {
        self.pending[place.stream as usize] = 0;
        let slot = slot(plan, place.stream, place.block);
        let State::Open(sum, bytes) = self.sums.get(slot, place.block) else { return None };
        let count = (last - sum.low) / u64::from(plan.streams()) + 1;
        let header = Repair { plan, first: sum.low, count: count as u16, seed: place.block as u16 };
        // Frames without bytes need no repair.
        (bytes.len() > LEN_BYTES).then_some((header, bytes))
    }
}

/// Where the sum of a window is.
fn slot(plan: Plan, stream: u64, window: u64) -> usize {
    let windows = u64::from(plan.windows());
    (stream * windows + window % windows) as usize
}
