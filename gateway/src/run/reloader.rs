//! SIGHUP, or a request through the socket: the file is read again, and applied as a whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGHUP;

use crate::config::Pairs;
use crate::control::State;
use crate::reload::{changes_of_all, names_of_all};

/// How the file is read: the configuration, or all mistakes.
pub type Load<'a> = &'a dyn Fn() -> Result<Pairs, String>;

/// Waits for SIGHUP.
pub(super) struct Reloader<'a> {
    asked: Arc<AtomicBool>,
    load: Load<'a>,
    running: Pairs,
}

impl<'a> Reloader<'a> {
    /// Catches SIGHUP from now on.
    pub(super) fn new(running: &Pairs, load: Load<'a>) -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).context("can't catch SIGHUP")?;
        Ok(Self { asked, load, running: running.clone() })
    }

    /// Reads the file and applies it, if somebody asked for that.
    pub(super) fn poll(&mut self, states: &[Arc<State>]) {
        let Some(state) = states.first() else { return };
        let waiting = state.actions.asked_to_reload();
        if !self.asked.swap(false, Ordering::Relaxed) && waiting.is_empty() {
            return;
        }
        let result = self.reload(states);
        match &result {
            Ok(names) if names.is_empty() => tracing::info!("reloaded: nothing is different"),
            Ok(names) => tracing::info!("reloaded: {} applied", names.join(", ")),
            Err(why) => {
                for line in why.lines() {
                    tracing::error!("not reloaded, nothing is changed: {line}");
                }
            }
        }
        for to in waiting {
            let lines = |why: &String| why.lines().map(str::to_owned).collect();
            // Who has gone needs no answer.
            let _ = to.send(result.clone().map_err(|why| lines(&why)));
        }
    }

    fn reload(&mut self, states: &[Arc<State>]) -> Result<Vec<String>, String> {
        let new = (self.load)()?;
        let restart = |names: Vec<String>| format!("a restart is needed for {}", names.join(", "));
        let changes = changes_of_all(&self.running, &new).map_err(restart)?;
        let each = || states.iter().zip(&changes);
        // Only this thread and the control thread send changes, a few of them.
        if each().any(|(state, changes)| !state.parameters.has_room(changes.len())) {
            return Err("a worker has not taken the last changes yet; try again".to_owned());
        }
        for ((state, changes), config) in each().zip(new.iter()) {
            let busy = |_| "a worker has not taken the last changes yet; try again".to_owned();
            state.parameters.apply(changes, config).map_err(busy)?;
        }
        for warning in &new.warnings() {
            tracing::warn!("{warning}");
        }
        let names = names_of_all(&self.running, &changes);
        self.running = new;
        Ok(names)
    }
}
