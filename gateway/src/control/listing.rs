//! Asks the workers for what they know, one request at a time: the control thread's end of [`worker::listing`](crate::worker::listing).

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use crate::worker::listing::{ControlEnd, Lister, Row, pair};

/// Time for a listing, and to wait for those of others. A connection may last ten seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// Time between two looks at what the workers have told.
const TICK: Duration = Duration::from_millis(1);

/// The ways to the workers.
#[derive(Debug)]
pub struct Listing<Q, T>(Mutex<Inner<Q, T>>);

#[derive(Debug)]
struct Inner<Q, T> {
    workers: Vec<ControlEnd<Q, T>>,
    listing: u64,
}

impl<Q, T> Default for Listing<Q, T> {
    fn default() -> Self {
        Self(Mutex::new(Inner { workers: Vec::new(), listing: 0 }))
    }
}

impl<Q: Clone, T> Listing<Q, T> {
    /// The way to one more worker. Not to be called within an event loop.
    pub fn add_worker(&self) -> Lister<Q, T> {
        let (lister, end) = pair();
        self.0.blocking_lock().workers.push(end);
        lister
    }

    /// Gives all items of all workers that are asked for to `take`, with the number of the worker.
    ///
    /// # Errors
    /// In one sentence: a worker does not answer, or others ask as well.
    pub async fn list(&self, query: &Q, mut take: impl FnMut(usize, T)) -> Result<(), String> {
        let lock = timeout(PATIENCE, self.0.lock()).await;
        let mut inner = lock.map_err(|_| "others ask for the same; try again")?;
        inner.listing += 1;
        let Inner { workers, listing } = &mut *inner;
        let silent = |n| format!("worker {n} does not answer; /healthz says how it does");
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.ask.push((*listing, query.clone())).map_err(|_| silent(n))?;
        }
        let began = Instant::now();
        let mut open: Vec<_> = (0..workers.len()).collect();
        loop {
            open.retain(|n| {
                let is_over = |it| take_told(it, *listing, |item| take(*n, item));
                !workers.get_mut(*n).is_none_or(is_over)
            });
            let Some(first) = open.first() else { return Ok(()) };
            if began.elapsed() >= PATIENCE {
                return Err(silent(*first));
            }
            sleep(TICK).await;
        }
    }
}

/// Takes what a worker has told. Returns whether that was all.
fn take_told<Q, T>(worker: &mut ControlEnd<Q, T>, listing: u64, mut take: impl FnMut(T)) -> bool {
    // No more than it can have told by now: others wait for this thread.
    for _ in 0..worker.rows.slots() {
        match worker.rows.pop() {
            Ok(Row::Item { listing: of, item }) if of == listing => take(item),
            Ok(Row::End { listing: of }) if of == listing => return true,
            // Of a request that was given up.
            Ok(_) => {}
            Err(_) => break,
        }
    }
    false
}
