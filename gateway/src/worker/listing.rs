//! Tells the control thread what a worker knows, while somebody asks: a little in each round, between two bursts, so that no frame waits
//! long however much there is. What is listed is no one moment's state.

use rtrb::{Consumer, Producer, RingBuffer};

/// Items that may wait for the control thread, which takes them every millisecond.
pub const DEPTH: usize = 1_024;
/// Requests that may wait for the worker. There is one at a time; one that was given up may be left.
const REQUESTS: usize = 4;

/// The query of a listing.
pub trait Ask: Clone + Send + Sync + 'static {
    /// Asks for all items that one of the two asks for. Others may be among them.
    fn joined(&self, other: &Self) -> Self;
}

/// All items.
impl Ask for () {
    fn joined(&self, _: &Self) {}
}

/// Something of which a worker has one or several, with numbered items.
pub trait Source {
    /// What somebody may ask for.
    type Query;
    /// An item.
    type Item;
    /// Items that a round looks at, at most [`DEPTH`].
    const SLICE: u64;

    /// The number of the first item, and of the one behind the last.
    fn span(&self) -> (u64, u64);

    /// An item, if it is there and asked for.
    fn item(&self, number: u64, query: &Self::Query) -> Option<Self::Item>;
}

/// What a worker tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Row<T> {
    /// An item.
    Item {
        /// The request.
        listing: u64,
        /// The item.
        item: T,
    },
    /// All items were told.
    End {
        /// The request.
        listing: u64,
    },
}

/// The control thread's end.
#[derive(Debug)]
pub struct ControlEnd<Q, T> {
    /// Requests, by number.
    pub ask: Producer<(u64, Q)>,
    /// The answers.
    pub rows: Consumer<Row<T>>,
}

/// The worker's end.
#[derive(Debug)]
pub struct Lister<Q, T> {
    asked: Consumer<(u64, Q)>,
    to: Producer<Row<T>>,
    at: Option<Place<Q>>,
}

/// How far a listing has come.
#[derive(Debug)]
struct Place<Q> {
    listing: u64,
    query: Q,
    /// Which of the sources.
    source: usize,
    /// Its next item.
    next: u64,
    /// Where its items ended when the listing came to it: more may come faster than they are told.
    end: Option<u64>,
}

/// Both ends.
pub fn pair<Q, T>() -> (Lister<Q, T>, ControlEnd<Q, T>) {
    let (ask, asked) = RingBuffer::new(REQUESTS);
    let (to, rows) = RingBuffer::new(DEPTH);
    (Lister { asked, to, at: None }, ControlEnd { ask, rows })
}

impl<Q, T> Lister<Q, T> {
    /// Takes requests: a new one ends the one before.
    pub fn poll(&mut self) {
        while let Ok((listing, query)) = self.asked.pop() {
            self.at = Some(Place { listing, query, source: 0, next: 0, end: None });
        }
    }

    /// Whether a listing is under way.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.at.is_some()
    }

    /// Tells of the next few items, as far as there is room. Returns whether it looked at any.
    pub fn slice<S: Source<Query = Q, Item = T>>(
        &mut self,
        mut sources: impl Iterator<Item = S>,
    ) -> bool {
        let Some(place) = &mut self.at else { return false };
        // Each makes one row at most.
        if self.to.slots() < S::SLICE as usize {
            return false;
        }
        let listing = place.listing;
        let Some(source) = sources.nth(place.source) else {
            self.at = None;
            return self.to.push(Row::End { listing }).is_ok();
        };
        let (start, end) = source.span();
        let (start, end) = (place.next.max(start), *place.end.get_or_insert(end));
        place.next = end.min(start.saturating_add(S::SLICE)).max(start);
        for number in start..place.next {
            if let Some(item) = source.item(number, &place.query) {
                // There is room.
                let _ = self.to.push(Row::Item { listing, item });
            }
        }
        if place.next >= end {
            (place.source, place.next, place.end) = (place.source + 1, 0, None);
        }
        true
    }
}
