//! JSON lines while a program runs, written by a thread of their own so that a
//! slow reader never holds up the polling loop.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use common::time::{Span, Time};
use serde::Serialize;

/// Lines that may wait for the reader; later ones are left out.
const WAITING: usize = 64;

/// Writes lines to standard output.
pub struct Lines<T>(Option<(SyncSender<T>, JoinHandle<()>)>);

impl<T: Serialize + Send + 'static> Lines<T> {
    /// Of which nothing is written yet.
    pub fn new() -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        Self(Some((sender, thread::spawn(move || write_lines(&receiver)))))
    }

    /// Hands a line to the thread. With a reader that is slow it is left out.
    pub fn send(&self, line: T) {
        if let Some((sender, _)) = &self.0 {
            let _ = sender.try_send(line);
        }
    }
}

impl<T: Serialize + Send + 'static> Default for Lines<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Lines<T> {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            // A panic in there has already been reported by the hook.
            let _ = thread.join();
        }
    }
}

/// Writes a snapshot to standard output now and then.
pub struct Live<T> {
    every: Span,
    next: Time,
    /// `None`: nobody asked for it.
    lines: Option<Lines<T>>,
}

impl<T: Serialize + Send + 'static> Live<T> {
    /// One line `every` so often, from `start` on; `None` for none at all.
    pub fn new(every: Option<Span>, start: Time) -> Self {
        let Some(every) = every.filter(|e| *e > Span::ZERO) else {
            return Self { every: Span::ZERO, next: Time::NEVER, lines: None };
        };
        Self { every, next: start + every, lines: Some(Lines::new()) }
    }

    /// Whether a line is due.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Hands over the line that is due.
    pub fn send(&mut self, now: Time, snapshot: T) {
        if let Some(lines) = &self.lines {
            // With a reader that is slow the next line will tell more.
            lines.send(snapshot);
        }
        while self.next <= now {
            self.next += self.every;
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
