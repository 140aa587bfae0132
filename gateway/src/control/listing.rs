//! Lists flows or records of all workers: the control thread's end of [`worker::listing`](crate::worker::listing).
//!
//! One listing runs at a time. Requests that arrive meanwhile wait for the next listing, which serves all of them, whatever each
//! asks for: so a request waits for the rest of one listing and for one more, however many requests there are.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::{sleep, timeout};

use crate::worker::listing::{Ask, ControlEnd, Lister, Row, pair};

/// Time in which a worker that is asked tells something.
const PATIENCE: Duration = Duration::from_secs(4);
/// Time for a request, with its wait for others. A connection may last ten seconds.
const WHOLE: Duration = Duration::from_secs(8);
/// Time between two looks at what the workers have told.
const TICK: Duration = Duration::from_millis(1);
/// Items that the requests of one listing may keep together. One request may keep up to 10,000.
const KEPT_MAX: usize = 40_000;

/// Collects the items of a listing for one request.
pub trait Take<T>: Send + 'static {
    /// Takes an item of the worker with this number, if it is asked for: another request may have asked for it.
    fn take(&mut self, worker: usize, item: &T);
}

/// A request that waits for a listing.
struct Request<Q, T> {
    query: Q,
    /// Items that its taker keeps at most.
    keeps: usize,
    taker: Arc<Mutex<dyn Take<T>>>,
    done: oneshot::Sender<Result<(), String>>,
}

/// The requests that wait for a listing, the oldest first.
struct Waiting<Q, T> {
    requests: VecDeque<Request<Q, T>>,
    /// A task serves them.
    is_served: bool,
}

impl<Q, T> Waiting<Q, T> {
    /// Takes the oldest request and the others, as far as they keep no more than [`KEPT_MAX`] items together.
    fn next(&mut self) -> Vec<Request<Q, T>> {
        // Their clients have closed the connection.
        self.requests.retain(|request| !request.done.is_closed());
        let mut all = Vec::new();
        let mut kept = 0;
        for request in std::mem::take(&mut self.requests) {
            if all.is_empty() || kept + request.keeps <= KEPT_MAX {
                kept += request.keeps;
                all.push(request);
            } else {
                self.requests.push_back(request);
            }
        }
        all
    }
}

/// The ways to the workers.
struct Ways<Q, T> {
    workers: Vec<ControlEnd<Q, T>>,
    listing: u64,
}

struct Shared<Q, T> {
    waiting: Mutex<Waiting<Q, T>>,
    ways: AsyncMutex<Ways<Q, T>>,
}

/// Asks the workers.
pub struct Listing<Q, T>(Arc<Shared<Q, T>>);

impl<Q, T> Default for Listing<Q, T> {
    fn default() -> Self {
        let waiting = Waiting { requests: VecDeque::new(), is_served: false };
        Self(Arc::new(Shared {
            waiting: Mutex::new(waiting),
            ways: AsyncMutex::new(Ways { workers: Vec::new(), listing: 0 }),
        }))
    }
}

impl<Q, T> fmt::Debug for Listing<Q, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}

impl<Q, T> Listing<Q, T>
where
    Q: Ask,
    T: Send + 'static,
{
    /// The way to one more worker. Not to be called within an event loop.
    pub fn add_worker(&self) -> Lister<Q, T> {
        let (lister, end) = pair();
        self.0.ways.blocking_lock().workers.push(end);
        lister
    }

    /// Gives all items of all workers that are asked for to `taker`, which keeps so many of them at most, and returns it.
    ///
    /// # Errors
    /// In one sentence: a worker does not answer, or others ask as well.
    pub async fn list<S: Take<T>>(&self, query: Q, keeps: usize, taker: S) -> Result<S, String> {
        let taker = Arc::new(Mutex::new(taker));
        let (done, is_done) = oneshot::channel();
        let request = Request { query, keeps, taker: Arc::clone(&taker) as _, done };
        self.0.ask(request);
        let late = "others ask for as much, or there is more than can be told in time; try again";
        let result = timeout(WHOLE, is_done).await.map_err(|_| late)?;
        // It is sent unless the process ends.
        result.map_err(|_| late)??;
        let taker = Arc::into_inner(taker).ok_or(late)?;
        Ok(taker.into_inner())
    }
}

impl<Q, T> Shared<Q, T>
where
    Q: Ask,
    T: Send + 'static,
{
    fn waiting(&self) -> MutexGuard<'_, Waiting<Q, T>> {
        self.waiting.lock()
    }

    /// Queues a request for the next listing.
    fn ask(self: &Arc<Self>, request: Request<Q, T>) {
        let mut waiting = self.waiting();
        waiting.requests.push_back(request);
        if !std::mem::replace(&mut waiting.is_served, true) {
            // A task of its own: one client may close its connection while others wait for the same listing.
            tokio::spawn(Arc::clone(self).serve());
        }
    }

    /// Runs listings until no request waits.
    async fn serve(self: Arc<Self>) {
        loop {
            let requests = {
                let mut waiting = self.waiting();
                let requests = waiting.next();
                waiting.is_served = !requests.is_empty();
                requests
            };
            let queries = requests.iter().map(|request| request.query.clone());
            let Some(query) = queries.reduce(|one, other| one.joined(&other)) else { return };
            // The main thread adds workers between two listings.
            let result = self.ways.lock().await.list(query, &requests).await;
            for Request { taker, done, .. } in requests {
                // The client's task is its only owner then.
                drop(taker);
                let _ = done.send(result.clone());
            }
        }
    }
}

impl<Q: Clone, T: 'static> Ways<Q, T> {
    async fn list(&mut self, query: Q, requests: &[Request<Q, T>]) -> Result<(), String> {
        self.listing += 1;
        let Self { workers, listing } = self;
        let silent = |n| format!("worker {n} does not answer; /healthz says how it does");
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.ask.push((*listing, query.clone())).map_err(|_| silent(n))?;
        }
        let mut told = Instant::now();
        let mut open: Vec<_> = (0..workers.len()).collect();
        loop {
            open.retain(|n| {
                let Some(worker) = workers.get_mut(*n) else { return false };
                let (is_over, has_told) = take_told(worker, *listing, *n, requests);
                if has_told {
                    told = Instant::now();
                }
                !is_over
            });
            let Some(first) = open.first() else { return Ok(()) };
            if told.elapsed() >= PATIENCE {
                return Err(silent(*first));
            }
            if requests.iter().all(|request| request.done.is_closed()) {
                return Err("all clients have closed their connections".to_owned());
            }
            sleep(TICK).await;
        }
    }
}

/// Takes what worker `n` has told. Returns whether that was all, and whether there was anything.
fn take_told<Q, T: 'static>(
    worker: &mut ControlEnd<Q, T>,
    listing: u64,
    n: usize,
    requests: &[Request<Q, T>],
) -> (bool, bool) {
    let lock = |request| {
        let Request { taker, .. }: &Request<Q, T> = request;
        taker.lock()
    };
    let mut takers: Vec<_> = requests.iter().map(lock).collect();
    let mut has_told = false;
    // At most as many rows as the ring holds: other tasks wait for this thread.
    for _ in 0..worker.rows.slots() {
        match worker.rows.pop() {
            Ok(Row::Item { listing: of, item }) if of == listing => {
                takers.iter_mut().for_each(|taker| taker.take(n, &item));
                has_told = true;
            }
            Ok(Row::End { listing: of }) if of == listing => return (true, true),
            // Of an earlier listing that was given up.
            Ok(_) => {}
            Err(_) => break,
        }
    }
    (false, has_told)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::worker::listing::Source;

    /// The numbers below a limit; a query lists its multiples.
    struct Numbers(u64);

    impl Source for Numbers {
        type Query = u64;
        type Item = u64;

        const SLICE: u64 = 16;

        fn span(&self) -> (u64, u64) {
            (0, self.0)
        }

        fn item(&self, number: u64, query: &u64) -> Option<u64> {
            number.is_multiple_of(*query).then_some(number)
        }
    }

    /// The multiples of both are among those of their greatest common divisor.
    impl Ask for u64 {
        fn joined(&self, other: &Self) -> Self {
            let (mut one, mut other) = (*self, *other);
            while other > 0 {
                (one, other) = (other, one % other);
            }
            one
        }
    }

    /// The multiples of a number: how many there are, and their sum.
    #[derive(PartialEq, Debug)]
    struct Sum(u64, u64, u64);

    impl Take<u64> for Sum {
        fn take(&mut self, worker: usize, item: &u64) {
            assert_eq!(worker, 0);
            if item.is_multiple_of(self.0) {
                self.1 += 1;
                self.2 += item;
            }
        }
    }

    fn expected(items: u64, of: u64) -> Sum {
        let multiples = (0..items).step_by(of as usize);
        multiples.fold(Sum(of, 0, 0), |sum, n| Sum(of, sum.1 + 1, sum.2 + n))
    }

    /// Raises a flag when it goes, also when a test fails: its worker would run for ever.
    struct Raise<'a>(&'a AtomicBool);

    impl Drop for Raise<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `ask` in an event loop, beside a worker with so many items; returns how often these were listed.
    fn beside_a_worker<F: Future<Output = ()>>(
        items: u64,
        ask: impl FnOnce(Arc<Listing<u64, u64>>) -> F,
    ) -> u64 {
        let listing = Arc::new(Listing::default());
        let mut lister = listing.add_worker();
        let (is_over, listed) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let _at_the_end = Raise(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let was_on = lister.is_on();
                    lister.poll();
                    if !was_on && lister.is_on() {
                        listed.fetch_add(1, Ordering::Relaxed);
                    }
                    if !lister.slice(std::iter::once(Numbers(items))) {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(ask(Arc::clone(&listing)));
        });
        listed.load(Ordering::Relaxed)
    }

    /// Asks so often at the same time.
    fn at_once(
        listing: &Arc<Listing<u64, u64>>,
        of: u64,
        keeps: usize,
        times: usize,
    ) -> Vec<tokio::task::JoinHandle<Result<Sum, String>>> {
        let ask = |_| {
            let listing = Arc::clone(listing);
            tokio::spawn(async move { listing.list(of, keeps, Sum(of, 0, 0)).await })
        };
        (0..times).map(ask).collect()
    }

    #[test]
    fn those_who_ask_at_once_share_a_listing() {
        const ITEMS: u64 = 100_000;
        let listed = beside_a_worker(ITEMS, async |listing| {
            let first = at_once(&listing, 1, 100, 1);
            sleep(Duration::from_millis(5)).await;
            let mut all = at_once(&listing, 6, 100, 30);
            // Whatever each asks for.
            for of in [4, 7, 9] {
                all.extend(at_once(&listing, of, 100, 1));
            }
            all.extend(first);
            for (one, of) in all.into_iter().zip([6; 30].into_iter().chain([4, 7, 9, 1])) {
                assert_eq!(one.await.unwrap(), Ok(expected(ITEMS, of)));
            }
        });
        assert_eq!(listed, 2);
    }

    #[test]
    fn no_more_share_one_than_memory_allows() {
        let listed = beside_a_worker(10_000, async |listing| {
            for one in at_once(&listing, 1, KEPT_MAX / 2, 6) {
                assert_eq!(one.await.unwrap(), Ok(expected(10_000, 1)));
            }
        });
        assert_eq!(listed, 3);
    }

    #[test]
    fn who_goes_away_disturbs_no_other() {
        beside_a_worker(300_000, async |listing| {
            let gone = at_once(&listing, 1, 1, 3);
            let stays = at_once(&listing, 1, 1, 1);
            sleep(Duration::from_millis(5)).await;
            gone.iter().for_each(tokio::task::JoinHandle::abort);
            for one in stays.into_iter().chain(at_once(&listing, 3, 1, 1)) {
                assert!(one.await.unwrap().is_ok());
            }
            // All of them, before the end.
            let gone = at_once(&listing, 1, 1, 3);
            sleep(Duration::from_millis(5)).await;
            gone.iter().for_each(tokio::task::JoinHandle::abort);
            for one in at_once(&listing, 7, 1, 2) {
                assert_eq!(one.await.unwrap(), Ok(expected(300_000, 7)));
            }
        });
    }

    #[test]
    fn a_worker_that_tells_nothing_is_named() {
        let listing = Arc::new(Listing::<u64, u64>::default());
        let _lister = listing.add_worker();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let began = Instant::now();
            for one in at_once(&listing, 1, 1, 2) {
                let error = one.await.unwrap().unwrap_err();
                assert!(error.starts_with("worker 0 does not answer"), "{error}");
            }
            assert!(began.elapsed() < PATIENCE * 2, "they wait together");
        });
    }
}
