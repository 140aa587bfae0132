//! Copies: packets that one capture has twice, as of a bond and its member (`tcpdump -i any`), or of a mirror of both
//! directions.
//!
//! A copy can't be told from a resend by itself. A host that resends two fifths of its packets within microseconds is hardly
//! possible, so a stream with so many repeats is a stream with copies.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hasher;

use common::time::{Span, Time};
use common::wire::Roce;

use crate::stream::StreamKey;

/// A copy passes at most so long after its packet: less than a host takes to resend.
const CLOSE: Span = Span::from_micros(20);
/// Repeats within this time may be copies.
const NEAR: Span = Span::from_millis(1);
/// Packets of the last millisecond that are kept.
const MOST: usize = 1 << 16;
/// Bytes from the IP header on that are compared. With RETH or AETH, as far as a short snaplen leaves them.
const COMPARED: usize = 60;
/// Packets of a stream, below which its share proves nothing.
const FEWEST: u64 = 8;

/// Streams in which each packet, or nearly each, is there twice.
#[derive(Clone, Default, Debug)]
pub struct Copied(pub(crate) HashSet<StreamKey>);

impl Copied {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Repeats of a stream's packets.
#[derive(Clone, Copy, Default, Debug)]
pub struct Repeats {
    packets: u64,
    close: u64,
    near: u64,
}

impl Repeats {
    /// Counts a packet; `distance`: the time since the same bytes passed.
    pub fn count(&mut self, distance: Option<Span>) {
        self.packets += 1;
        self.close += u64::from(is_close(distance));
        self.near += u64::from(distance.is_some());
    }

    /// Whether the stream may have copies.
    pub fn may_be_copies(&self) -> bool {
        self.is_share(self.close)
    }

    /// Whether the stream has copies, and so the file has.
    pub fn are_copies(&self) -> bool {
        self.packets >= FEWEST && self.may_be_copies()
    }

    /// Packets that passed within a millisecond of the same bytes, if they are so many that they may be copies.
    pub fn suspects(&self) -> u64 {
        if self.packets >= FEWEST && self.is_share(self.near) { self.near } else { 0 }
    }

    fn is_share(&self, part: u64) -> bool {
        part * 5 >= self.packets * 2
    }
}

/// Whether a packet passed so soon after the same bytes that it may be a copy.
pub fn is_close(distance: Option<Span>) -> bool {
    distance.is_some_and(|distance| distance <= CLOSE)
}

/// The packets of the last millisecond.
#[derive(Debug, Default)]
pub struct Recent {
    times: HashMap<u64, Time>,
    order: VecDeque<(Time, u64)>,
}

impl Recent {
    /// Remembers a packet. Returns the time since the same bytes passed, if that was within a millisecond.
    pub fn distance(&mut self, captured: &[u8], roce: &Roce, at: Time) -> Option<Span> {
        while let Some(&(time, key)) = self.order.front()
            && (at.since(time) > NEAR || self.order.len() >= MOST)
        {
            self.order.pop_front();
            if self.times.get(&key) == Some(&time) {
                self.times.remove(&key);
            }
        }
        let key = key(captured, roce);
        let distance = self.times.get(&key).map(|time| at.max(*time).since(at.min(*time)));
        // Of three copies the third is close to the first, too.
        if !is_close(distance) {
            self.times.insert(key, at);
            self.order.push_back((at, key));
        }
        distance.filter(|distance| *distance <= NEAR)
    }
}

/// A number for the bytes from the IP header on, without those that routers change: DSCP, ECN, TTL, checksum.
fn key(captured: &[u8], roce: &Roce) -> u64 {
    let mut hasher = DefaultHasher::new();
    let l3 = usize::from(roce.l3);
    let ip = captured.get(l3..).unwrap_or_default();
    let ip = &ip[..ip.len().min(COMPARED)];
    let changed: &[usize] = if roce.l4 - roce.l3 == 40 { &[0, 1, 7] } else { &[1, 8, 10, 11] };
    let mut from = 0;
    for at in changed {
        hasher.write(ip.get(from..*at).unwrap_or_default());
        from = at + 1;
    }
    hasher.write(ip.get(from..).unwrap_or_default());
    hasher.finish()
}
