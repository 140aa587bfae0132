//! SIGHUP, or a request through the socket: the file is read again, and applied as a whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use anyhow::Context;
use signal_hook::consts::SIGHUP;
use tokio::sync::oneshot;

use crate::config::{Config, Keying, Pairs, Pool};
use crate::control::State;
use crate::control::actions::Reloaded;
use crate::control::parameters::Parameters;
use crate::reload::{changes_of_all, names_of_all};

/// How the file is read: the configuration, or all mistakes.
pub type Load = Arc<dyn Fn() -> Result<Pairs, String> + Send + Sync>;

/// Waits for SIGHUP.
pub(super) struct Reloader {
    asked: Arc<AtomicBool>,
    load: Load,
    running: Pairs,
    /// Mbufs that each pair took at the start.
    reserved: Vec<Pool>,
    /// A file that is being read.
    reading: Option<Reading>,
}

/// A file that a thread of its own reads and checks: the main thread feeds systemd's watchdog and answers ARP meanwhile.
struct Reading {
    result: Receiver<Result<Pairs, String>>,
    waiting: Vec<oneshot::Sender<Reloaded>>,
}

impl Reloader {
    /// Catches SIGHUP from now on.
    pub(super) fn new(running: &Pairs, load: Load) -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).context("can't catch SIGHUP")?;
        let reserved = running.iter().map(|config| config.pool).collect();
        Ok(Self { asked, load, running: running.clone(), reserved, reading: None })
    }

    /// Begins to read the file if a signal or a request asked for that, and applies a file that has been read. Never waits.
    pub(super) fn poll(&mut self, states: &[Arc<State>]) {
        let Some(state) = states.first() else { return };
        if self.reading.is_none() {
            let waiting = state.actions.asked_to_reload();
            if self.asked.swap(false, Ordering::Relaxed) || !waiting.is_empty() {
                self.reading = Some(self.read(waiting));
            }
        }
        let Some(reading) = &self.reading else { return };
        let new = match reading.result.try_recv() {
            Ok(new) => new,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {
                Err("the thread that reads the file has failed".to_owned())
            }
        };
        let result = new.and_then(|new| self.reload(states, new));
        match &result {
            Ok(names) if names.is_empty() => tracing::info!("reloaded: nothing is different"),
            Ok(names) => tracing::info!("reloaded: {} applied", names.join(", ")),
            Err(why) => {
                for line in why.lines() {
                    tracing::error!("not reloaded, nothing is changed: {line}");
                }
            }
        }
        for to in self.reading.take().into_iter().flat_map(|reading| reading.waiting) {
            let lines = |why: &String| why.lines().map(str::to_owned).collect();
            // Who has gone needs no answer.
            let _ = to.send(result.clone().map_err(|why| lines(&why)));
        }
    }

    /// Reads the file in a thread of its own.
    fn read(&self, waiting: Vec<oneshot::Sender<Reloaded>>) -> Reading {
        let (to, result) = channel();
        let load = Arc::clone(&self.load);
        // If the thread can't be started, the channel is closed, which is an answer.
        let _ = thread::Builder::new().name("reload".into()).spawn(move || to.send(load()));
        Reading { result, waiting }
    }

    fn reload(&mut self, states: &[Arc<State>], new: Pairs) -> Result<Vec<String>, String> {
        let all = changes_of_all(&self.running, &new, &self.reserved)?;
        // The mempool keeps the size that it had at the start: mbufs that smaller pools leave are not given back.
        let shown: Vec<_> = new
            .iter()
            .zip(&self.reserved)
            .map(|(config, reserved)| Config { pool: *reserved, ..config.clone() })
            .collect();
        let each: Vec<_> = states
            .iter()
            .zip(&all)
            .zip(&shown)
            .map(|((state, applied), shown)| (&state.parameters, &*applied.changes, shown))
            .collect();
        Parameters::apply_all(&each)
            .map_err(|_| "a worker has not taken the last changes yet; try again".to_owned())?;
        for ((state, config), reserved) in states.iter().zip(new.iter()).zip(&self.reserved) {
            state.set_facts(config, reserved);
        }
        let key = unannounced(&self.running.first().peer.keying, &new.first().peer.keying);
        for warning in new.warnings().iter().map(String::as_str).chain(key) {
            tracing::warn!("{warning}");
        }
        let names = names_of_all(&self.running, &all);
        self.running = new;
        Ok(names)
    }
}

/// The warning about a key that is replaced at once: the boxes refuse each other's messages until both have the new key.
fn unannounced(old: &Keying, new: &Keying) -> Option<&'static str> {
    const WARNING: &str = "peer.key_file has another key, and peer.previous_key_file does not have the one before: a peer with the key \
                           before is refused; to change keys without a gap, name the old one in previous_key_file on both boxes first";
    match (old, new) {
        (Keying::Shared { current: old, .. }, Keying::Shared { current, previous, .. }) => {
            let is_accepted = old == current || previous.as_ref() == Some(old);
            (!is_accepted).then_some(WARNING)
        }
        (Keying::LabUnkeyed, Keying::LabUnkeyed) => None,
        _ => Some(WARNING),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::config::tests::{good, lab};

    #[test]
    fn a_key_that_is_replaced_without_the_one_before_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("the secret of {name}, of many bytes")).unwrap();
            path
        };
        let (old, new) = (file("old"), file("new"));
        let keying = |current: &Path, previous: Option<&Path>| {
            let previous =
                previous.map_or(String::new(), |path| format!("previous_key_file = {path:?}\n"));
            let keys = format!("[peer]\nkey_file = {current:?}\n{previous}");
            let text = lab("").replace("[peer]\nlab_unkeyed = true\n", &keys);
            good(&text).peer.keying
        };
        for (before, after, warns) in [
            (keying(&old, None), keying(&old, None), false),
            (keying(&old, None), keying(&new, Some(&old)), false),
            (keying(&old, Some(&new)), keying(&old, None), false),
            (keying(&old, None), keying(&new, None), true),
            (Keying::LabUnkeyed, keying(&new, None), true),
        ] {
            assert_eq!(unannounced(&before, &after).is_some(), warns, "{before:?}, {after:?}");
        }
    }

    /// Systemd's watchdog and ARP depend on it.
    #[test]
    fn the_main_thread_does_not_wait_for_a_file_that_is_read() {
        let pairs = crate::config::parse(Path::new("gw.toml"), &lab(""), None, None);
        let Ok(pairs) = pairs else { panic!("a good file") };
        let (go, wait) = channel::<()>();
        let (read, wait) = (pairs.clone(), Mutex::new(wait));
        let load =
            move || wait.lock().unwrap().recv().map(|()| read.clone()).map_err(|e| e.to_string());
        let mut reloader = Reloader::new(&pairs, Arc::new(load)).unwrap();
        let state = Arc::new(State::new("both", 1, None).of(pairs.first()));
        let states = [Arc::clone(&state)];
        let mut answer = state.actions.reload();
        // The file is being read: each look ends at once.
        for _ in 0..3 {
            reloader.poll(&states);
            assert!(answer.try_recv().is_err());
        }
        go.send(()).unwrap();
        let answered = loop {
            reloader.poll(&states);
            if let Ok(answered) = answer.try_recv() {
                break answered;
            }
        };
        assert_eq!(answered, Ok(vec![]), "nothing is different");
        // The next request reads it again.
        let mut answer = state.actions.reload();
        drop(go);
        let answered = loop {
            reloader.poll(&states);
            if let Ok(answered) = answer.try_recv() {
                break answered;
            }
        };
        assert!(answered.is_err());
    }
}
