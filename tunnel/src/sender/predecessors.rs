//! The newest frame of each flow bucket: the predecessor of the next one.

use crate::flow::Order;
use crate::number::FrameId;
use crate::shim::CLEAR_MAX;

/// Flow buckets: each frame names the one before it of its bucket.
pub const BUCKETS: usize = 1 << 16;

/// By flow bucket.
#[derive(Debug)]
pub(super) struct Predecessors {
    /// The newest frame.
    last: Box<[Option<FrameId>; BUCKETS]>,
    /// The newest response that is no positive ACK.
    responses: Box<[Option<FrameId>; BUCKETS]>,
    /// Whether there is one, a bit for each bucket: most often there is none, and this stays in the L1 cache.
    answered: Box<Bits>,
}

/// A bit for each bucket.
type Bits = [u64; BUCKETS / u64::BITS as usize];

impl Default for Predecessors {
    fn default() -> Self {
        let none = || vec![None; BUCKETS].try_into().expect("as many as there are");
        Self {
            last: none(),
            responses: none(),
            answered: Box::new([0; BUCKETS / u64::BITS as usize]),
        }
    }
}

impl Predecessors {
    /// No frame has one.
    pub fn clear(&mut self) {
        self.last.fill(None);
        self.responses.fill(None);
        self.answered.fill(0);
    }

    /// The newest frame of a bucket.
    #[inline]
    pub fn newest(&self, bucket: u16) -> Option<FrameId> {
        self.last[usize::from(bucket)]
    }

    /// Fetches the flow bucket of a frame that follows.
    #[inline]
    pub fn fetch(&self, order: Order) {
        // The number is of no use yet.
        core::hint::black_box(order.bucket().and_then(|bucket| self.newest(bucket)));
    }

    /// Access for the time of a burst.
    #[inline]
    pub fn borrow(&mut self) -> Places<'_> {
        let Self { last, responses, answered } = self;
        Places { last, responses, answered }
    }
}

/// Access to [`Predecessors`] without their address.
pub(super) struct Places<'a> {
    last: &'a mut [Option<FrameId>; BUCKETS],
    responses: &'a mut [Option<FrameId>; BUCKETS],
    answered: &'a mut Bits,
}

impl Places<'_> {
    /// The predecessor of frame `id`, and its [`clear`](crate::shim::Shim::clear). R-TUN-20, R-TUN-24
    #[inline(always)]
    pub fn place(&mut self, id: FrameId, order: Order) -> (Option<FrameId>, u8) {
        let Some(bucket) = order.bucket().map(usize::from) else { return (None, 0) };
        let predecessor = self.last[bucket].replace(id);
        let clear = match order {
            Order::Ordered(_) | Order::Free => 0,
            Order::Ack(_) => self.clear(bucket, id),
            Order::Response(_) => self.answer(bucket, id),
        };
        (predecessor, clear)
    }

    // These two would take the registers of all other frames, if they were part of the caller.
    #[inline(never)]
    fn clear(&self, bucket: usize, id: FrameId) -> u8 {
        let (word, bit) = place(bucket);
        if self.answered[word] & bit == 0 { CLEAR_MAX } else { clear(self.responses[bucket], id) }
    }

    #[inline(never)]
    fn answer(&mut self, bucket: usize, id: FrameId) -> u8 {
        let (word, bit) = place(bucket);
        self.answered[word] |= bit;
        self.responses[bucket] = Some(id);
        0
    }
}

/// The word and the bit of a bucket.
#[inline]
const fn place(bucket: usize) -> (usize, u64) {
    (bucket / u64::BITS as usize, 1 << (bucket % u64::BITS as usize))
}

/// How far the newest response lies before frame `id`, as [`Shim::clear`](crate::shim::Shim::clear) says it.
fn clear(response: Option<FrameId>, id: FrameId) -> u8 {
    let Some(response) = response else { return CLEAR_MAX };
    let is_comparable = response.lane() == id.lane();
    let distance = id.number().since(response.number()).checked_ilog2();
    let clear = distance.filter(|_| is_comparable).unwrap_or(0);
    clear.min(CLEAR_MAX.into()) as u8
}
