//! A queue that serves flows in turn.

use std::collections::VecDeque;

/// Bytes that a flow may send in its turn: a packet of the largest path MTU.
const QUANTUM: u32 = 4096;

/// No slot.
const NONE: u32 = u32::MAX;

/// A queued packet.
#[derive(Debug)]
struct Slot<P> {
    /// `None` in a free slot.
    packet: Option<P>,
    len: u32,
    /// The next one of the same bucket, or the next free slot.
    next: u32,
}

/// The packets of the flows with one hash, in order.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Oldest and newest slot; meaningless while `is_active` is false.
    oldest: u32,
    newest: u32,
    /// Bytes that it may still send in this turn.
    credit: u32,
    is_active: bool,
}

/// A bounded queue with deficit round robin (Shreedhar and Varghese, 1995) between flows,
/// which are told apart by a hash (stochastic fairness, McKenney 1990).
///
/// Packets of one flow leave in the order in which they came. Each flow that waits gets the
/// same share of bytes. Memory for all packets is allocated at once; a push and a
/// pop take constant time.
#[derive(Debug)]
pub struct FairQueue<P> {
    /// Grows to `limit`, within its first capacity.
    slots: Vec<Slot<P>>,
    limit: usize,
    free: u32,
    buckets: Box<[Bucket]>,
    /// The buckets with packets, next turn first.
    active: VecDeque<u32>,
    len: usize,
}

impl<P> FairQueue<P> {
    /// Bytes of memory for each packet, besides those of the packet.
    pub const OVERHEAD: usize = 8;

    /// An empty queue for `limit` packets, whose flows fall into `buckets` buckets, at
    /// least one.
    pub fn new(limit: usize, buckets: usize) -> Self {
        let bucket = Bucket { oldest: NONE, newest: NONE, credit: 0, is_active: false };
        let limit = limit.min(NONE as usize);
        Self {
            slots: Vec::with_capacity(limit),
            limit,
            free: NONE,
            buckets: vec![bucket; buckets.max(1)].into(),
            active: VecDeque::with_capacity(buckets.max(1)),
            len: 0,
        }
    }

    /// An empty queue that allocates as it grows, for `u32::MAX` packets.
    pub fn growing(buckets: usize) -> Self {
        Self { limit: NONE as usize, ..Self::new(0, buckets) }
    }

    /// Packets that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a packet of `len` bytes of the flow with this hash.
    ///
    /// # Errors
    /// Returns the packet if the queue is full.
    pub fn push(&mut self, hash: u32, len: u32, packet: P) -> Result<(), P> {
        let Some(slot) = self.take_slot() else { return Err(packet) };
        self.slots[slot as usize] = Slot { packet: Some(packet), len, next: NONE };
        let number = hash as usize % self.buckets.len();
        let bucket = &mut self.buckets[number];
        if bucket.is_active {
            self.slots[bucket.newest as usize].next = slot;
            bucket.newest = slot;
        } else {
            *bucket = Bucket { oldest: slot, newest: slot, credit: QUANTUM, is_active: true };
            self.active.push_back(number as u32);
        }
        self.len += 1;
        Ok(())
    }

    /// A free slot, unless the queue is full.
    fn take_slot(&mut self) -> Option<u32> {
        if self.free != NONE {
            let slot = self.free;
            self.free = self.slots[slot as usize].next;
            return Some(slot);
        }
        (self.slots.len() < self.limit).then(|| {
            self.slots.push(Slot { packet: None, len: 0, next: NONE });
            (self.slots.len() - 1) as u32
        })
    }

    /// The next packet.
    pub fn pop(&mut self) -> Option<P> {
        loop {
            let number = *self.active.front()?;
            let bucket = &mut self.buckets[number as usize];
            let slot = &mut self.slots[bucket.oldest as usize];
            if bucket.credit < slot.len {
                bucket.credit += QUANTUM;
                self.active.rotate_left(1);
                continue;
            }
            bucket.credit -= slot.len;
            let packet = slot.packet.take();
            let next = std::mem::replace(&mut slot.next, self.free);
            self.free = std::mem::replace(&mut bucket.oldest, next);
            if next == NONE {
                bucket.is_active = false;
                self.active.pop_front();
            }
            self.len -= 1;
            return packet;
        }
    }

    /// Drops all packets, and returns how many there were.
    pub fn clear(&mut self) -> usize {
        std::iter::from_fn(|| self.pop()).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flow_with_one_packet_passes_another_ones_backlog() {
        let mut queue = FairQueue::new(1000, 64);
        for n in 0..500 {
            queue.push(1, 1000, (1, n)).unwrap();
        }
        queue.push(2, 1000, (2, 0)).unwrap();
        let turn: Vec<_> = (0..6).map(|_| queue.pop().unwrap()).collect();
        assert_eq!(turn, [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (1, 4)]);
    }

    #[test]
    fn a_full_queue_returns_the_packet() {
        let mut queue = FairQueue::new(2, 8);
        assert_eq!((queue.push(1, 1, 'a'), queue.push(2, 1, 'b')), (Ok(()), Ok(())));
        assert_eq!(queue.push(3, 1, 'c'), Err('c'));
        assert_eq!(queue.pop(), Some('a'));
        assert_eq!(queue.push(3, 1, 'c'), Ok(()));
        assert_eq!((queue.clear(), queue.len(), queue.pop()), (2, 0, None));
    }

    #[test]
    fn one_bucket_is_first_in_first_out() {
        let mut queue = FairQueue::new(100, 1);
        for n in 0..100 {
            queue.push(n, 9000, n).unwrap();
        }
        assert!((0..100).eq(std::iter::from_fn(|| queue.pop())));
    }

    #[test]
    fn a_growing_queue_takes_what_comes() {
        let mut queue = FairQueue::growing(1);
        assert!((0..1_000).all(|n| queue.push(n, 1, n).is_ok()));
        assert!((0..1_000).eq(std::iter::from_fn(|| queue.pop())));
    }

    proptest! {
        /// Against a queue for each flow: order within a flow, conservation of packets, the
        /// limit, and no flow that waits gets more than another by over a turn and a packet.
        #[test]
        fn flows_share_bytes_and_keep_their_order(
            events in prop::collection::vec((0u32..4, 64u32..4096, any::<bool>()), 1..400),
        ) {
            let mut queue = FairQueue::new(100, 4);
            let mut waiting: HashMap<u32, VecDeque<usize>> = HashMap::new();
            let mut sent = [0u64; 4];
            // Bytes that each flow had sent when it last began to wait, and the others had.
            let mut since = [[0u64; 4]; 4];
            for (n, (flow, len, is_push)) in events.into_iter().enumerate() {
                let all: usize = waiting.values().map(VecDeque::len).sum();
                prop_assert_eq!(queue.len(), all);
                if is_push {
                    let has_room = queue.push(flow, len, (flow, len, n)).is_ok();
                    prop_assert_eq!(has_room, all < 100);
                    if has_room {
                        let queued = waiting.entry(flow).or_default();
                        if queued.is_empty() {
                            since[flow as usize] = sent;
                        }
                        queued.push_back(n);
                    }
                    continue;
                }
                let Some((flow, len, n)) = queue.pop() else {
                    prop_assert_eq!(all, 0);
                    continue;
                };
                prop_assert_eq!(waiting.get_mut(&flow).and_then(VecDeque::pop_front), Some(n));
                sent[flow as usize] += u64::from(len);
                for (other, queued) in &waiting {
                    let (me, other) = (flow as usize, *other as usize);
                    if me == other || queued.is_empty() {
                        continue;
                    }
                    // Since the other one began to wait.
                    let mine = sent[me] - since[other][me];
                    let its = sent[other] - since[other][other];
                    prop_assert!(mine <= its + 3 * u64::from(QUANTUM), "{mine} {its}");
                }
            }
        }
    }
}
