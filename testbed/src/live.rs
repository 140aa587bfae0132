//! JSON lines while a program runs, written by a thread of their own so that a
//! slow reader never holds up the polling loop.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use common::time::{Span, Time};
use serde::Serialize;

/// Snapshots that may wait for the reader; later ones are left out.
const WAITING: usize = 16;

/// Writes a snapshot to standard output now and then.
pub struct Live<T> {
    every: Span,
    next: Time,
    /// `None`: nobody asked for it.
    writer: Option<(SyncSender<T>, JoinHandle<()>)>,
}

impl<T: Serialize + Send + 'static> Live<T> {
    /// One line `every` so often, from `start` on; `None` for none at all.
    pub fn new(every: Option<Span>, start: Time) -> Self {
        let Some(every) = every.filter(|e| *e > Span::ZERO) else {
            return Self { every: Span::ZERO, next: Time::NEVER, writer: None };
        };
        let (sender, receiver) = sync_channel(WAITING);
        let thread = thread::spawn(move || write_lines(&receiver));
        Self { every, next: start + every, writer: Some((sender, thread)) }
    }

    /// Whether a line is due.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Hands over the line that is due.
    pub fn send(&mut self, now: Time, snapshot: T) {
        if let Some((sender, _)) = &self.writer {
            // Full: the reader is slow; the next line will tell more.
            let _ = sender.try_send(snapshot);
        }
        while self.next <= now {
            self.next += self.every;
        }
    }
}

impl<T> Drop for Live<T> {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.writer.take() {
            drop(sender);
            // A panic in there has already been reported by the hook.
            let _ = thread.join();
        }
    }
}

fn write_lines<T: Serialize>(receiver: &Receiver<T>) {
    let mut out = io::stdout().lock();
    for snapshot in receiver {
        let Ok(mut line) = serde_json::to_vec(&snapshot) else { continue };
        line.push(b'\n');
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            return; // The reader is gone.
        }
    }
}
