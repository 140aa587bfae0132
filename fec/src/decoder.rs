//! The receiver's end.

use galois::Kernel;

use crate::known::Known;
use crate::plan::{MAX_STREAMS, MAX_WINDOWS, Place, Plan, factor};
use crate::rows::{Rows, Terms};
use crate::sums::{State, Sums, Symbol};
use crate::{LEN_BYTES, Repair};

/// Spans of the plan without a repair frame after which the plan has ended.
const SILENCE: u64 = 4;

/// The use of a repair frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The repair frame announces a plan, which holds from now on.
    Begun,
    /// All frames of the sum have arrived.
    Spare,
    /// An equation of missing frames: [`Decoder::decoded`] may have some of them.
    Equation,
    /// The equation follows from earlier ones, has too many missing frames, or the receiver no longer
    /// has the sum of the frames that arrived.
    Useless,
    /// No encoder sends such a repair frame.
    Refused,
}

/// Counts of a decoder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Frames that were decoded.
    pub decoded: u64,
    /// Solved equations whose bytes are no frame. Where nothing but the lane changes frames, there is none.
    pub faulty: u64,
}

/// Sums of the frames of one lane that have arrived.
pub struct Decoder {
    plan: Option<Plan>,
    /// The limit of [`new`](Self::new): sums have memory for such frames.
    room: usize,
    longest: usize,
    /// Numbers below are in no sum.
    since: u64,
    /// The newest number of which a repair frame told.
    told: u64,
    known: Known,
    sums: Sums,
    rows: Rows,
    counts: Counts,
}

impl Decoder {
    /// Without a plan. Frames have `longest` bytes at most, as at the encoder.
    pub fn new(kernel: Kernel, longest: usize) -> Self {
        let count = usize::from(MAX_STREAMS) * (usize::from(MAX_WINDOWS) + 1);
        Self {
            plan: None,
            room: longest,
            longest,
            since: 0,
            told: 0,
            known: Known::new(),
            sums: Sums::new(kernel, count, longest),
            rows: Rows::new(kernel, longest),
            counts: Counts::default(),
        }
    }

    /// Frames have `longest` bytes at most from now on, which is no more than [`new`](Self::new) was told.
    pub fn limit(&mut self, longest: usize) {
        self.longest = longest.min(self.room);
        self.stop();
    }

    /// The plan of the encoder, as far as it is known.
    pub const fn plan(&self) -> Option<Plan> {
        self.plan
    }

    /// The counts since the decoder was made.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether a repair frame may still come that has the lost frame `number`, on a lane that keeps order.
    pub fn may_come(&self, number: u64) -> bool {
        self.plan.is_some_and(|plan| {
            number >= self.since && plan.last_chance(number) + 1 >= self.known.next()
        })
    }

    /// The encoder protects no more frames.
    pub fn stop(&mut self) {
        self.plan = None;
        self.rows.clear();
    }

    /// A frame has arrived.
    #[inline]
    pub fn frame(&mut self, number: u64, parts: &[&[u8]]) {
        if let Some(plan) = self.plan {
            self.frame_by(plan, number, parts);
        }
    }

    fn frame_by(&mut self, plan: Plan, number: u64, parts: &[&[u8]]) {
        let is_late = number < self.known.next();
        if !self.known.insert(number) {
            return;
        }
        let symbol = Symbol::new(parts, self.longest);
        if is_late && !self.rows.is_empty() {
            self.rows.learn(number, symbol);
        }
        add(&mut self.sums, plan, self.since, number, symbol);
        if number.saturating_sub(self.told) > SILENCE * plan.span() {
            self.stop();
        }
    }

    /// A repair frame has arrived. `next` is the number above the newest one of the lane that has arrived.
    pub fn repair(&mut self, repair: &Repair, bytes: &[u8], next: u64) -> Outcome {
        let plan = repair.plan;
        let next = if self.plan.is_some() { next.max(self.known.next()) } else { next };
        let numbers = u64::from(repair.count.saturating_sub(1)) * u64::from(plan.streams());
        let last = repair.first.saturating_add(numbers);
        if last > next + SILENCE * plan.span() {
            return Outcome::Refused;
        }
        let place = plan.place(last);
        let is_announcement = repair.count == 0 && bytes.is_empty();
        let is_sum = (1..=plan.window()).contains(&repair.count)
            && repair.seed == place.block as u16
            && (LEN_BYTES + 1..=LEN_BYTES + self.longest).contains(&bytes.len());
        if !is_announcement && !is_sum {
            return Outcome::Refused;
        }
        if is_announcement || self.plan != Some(plan) {
            // A late one is of a plan that is over.
            let is_news = self.plan.is_none() || last > self.told;
            return if is_news { self.begin(plan, next.max(last)) } else { Outcome::Useless };
        }
        self.told = self.told.max(last);
        self.known.advance(last + 1);
        self.rows.expire((last + 1).saturating_sub(2 * plan.span()));
        self.equation(repair, place, last, bytes)
    }

    /// Takes a frame that was decoded, with its number: to be asked for until there is none, after each repair frame
    /// and each frame that arrived late.
    pub fn decoded(&mut self) -> Option<(u64, &[u8])> {
        let plan = self.plan?;
        let (number, is_frame) = self.rows.solve()?;
        if !is_frame {
            // Any other row may have the same fault.
            self.counts.faulty += 1;
            self.rows.clear();
            return None;
        }
        self.counts.decoded += 1;
        self.known.insert(number);
        let parts = [self.rows.frame()];
        let symbol = Symbol::new(&parts, self.longest);
        add(&mut self.sums, plan, self.since, number, symbol);
        Some((number, self.rows.frame()))
    }

    /// Frames below `since` may have passed by.
    fn begin(&mut self, plan: Plan, since: u64) -> Outcome {
        self.plan = Some(plan);
        self.since = since;
        self.told = since;
        self.known.restart(since);
        self.sums.clear();
        self.rows.clear();
        Outcome::Begun
    }

    fn equation(&mut self, repair: &Repair, place: Place, last: u64, bytes: &[u8]) -> Outcome {
        let streams = usize::from(repair.plan.streams());
        if repair.first < self.since {
            return Outcome::Useless;
        }
        let mut terms = Terms::new();
        for number in (repair.first..=last).step_by(streams) {
            if !self.known.is(number)
                && terms.try_push((number, factor(repair.seed, number))).is_err()
            {
                return Outcome::Useless;
            }
        }
        if terms.is_empty() {
            return Outcome::Spare;
        }
        let is_new = match self.sums.get(slot(repair.plan, place.stream, place.block), place.block)
        {
            State::Open(sum, _) if sum.low < repair.first || sum.high > last => false,
            State::Open(_, sum) => self.rows.insert(terms, sum, bytes),
            State::Empty => self.rows.insert(terms, &[], bytes),
            State::Gone => false,
        };
        if is_new { Outcome::Equation } else { Outcome::Useless }
    }
}

/// Adds a frame to the sums of all its windows.
fn add(sums: &mut Sums, plan: Plan, since: u64, number: u64, symbol: Symbol<'_>) {
    if number < since {
        return;
    }
    let place = plan.place(number);
    for window in place.block..place.block + u64::from(plan.windows()) {
        let slot = slot(plan, place.stream, window);
        sums.add(slot, window, number, factor(window as u16, number), symbol);
    }
}

/// Where the sum of a window is: one more than there are open windows, as a repair frame may come
/// behind frames of the next block.
fn slot(plan: Plan, stream: u64, window: u64) -> usize {
    let windows = u64::from(plan.windows()) + 1;
    (stream * windows + window % windows) as usize
}
