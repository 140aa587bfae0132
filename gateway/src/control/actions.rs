//! Requests of the API that the main thread carries out: reload and drain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::log::Log;

/// The keys that were applied, or every reason why nothing was changed.
pub type Reloaded = Result<Vec<String>, Vec<String>>;

/// The requests.
#[derive(Debug, Default)]
pub struct Actions {
    /// The level of the log.
    pub log: Log,
    stop: Arc<AtomicBool>,
    reloads: Mutex<Vec<oneshot::Sender<Reloaded>>>,
}

impl Actions {
    /// `stop` ends the workers as SIGTERM does.
    pub fn new(stop: Arc<AtomicBool>, log: Log) -> Self {
        Self { log, stop, reloads: Mutex::default() }
    }

    /// Asks the main thread to read the file again. It answers when the file has been read, within a second.
    pub fn reload(&self) -> oneshot::Receiver<Reloaded> {
        let (to, from) = oneshot::channel();
        self.reloads().push(to);
        from
    }

    /// Those who wait for a reload. For the main thread.
    pub fn asked_to_reload(&self) -> Vec<oneshot::Sender<Reloaded>> {
        std::mem::take(&mut *self.reloads())
    }

    /// Ends the gateway as SIGTERM does: held frames leave, and peers are told.
    pub fn drain(&self) {
        tracing::info!("asked to drain");
        self.stop.store(true, Ordering::Relaxed);
    }

    fn reloads(&self) -> parking_lot::MutexGuard<'_, Vec<oneshot::Sender<Reloaded>>> {
        self.reloads.lock()
    }
}
