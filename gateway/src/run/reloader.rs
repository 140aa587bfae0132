//! SIGHUP, or a request through the socket: the file is read again, and applied as a whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGHUP;

use crate::config::{Config, Pool};
use crate::control::State;
use crate::reload::{Applied, changes};

/// How the file is read: the configuration, or all mistakes.
pub type Load<'a> = &'a dyn Fn() -> Result<Config, String>;

/// Waits for SIGHUP.
pub(super) struct Reloader<'a> {
    asked: Arc<AtomicBool>,
    load: Load<'a>,
    running: Config,
    /// Mbufs that were taken at the start.
    reserved: Pool,
}

impl<'a> Reloader<'a> {
    /// Catches SIGHUP from now on.
    pub(super) fn new(running: &Config, load: Load<'a>) -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).context("can't catch SIGHUP")?;
        Ok(Self { asked, load, running: running.clone(), reserved: running.pool })
    }

    /// Reads the file and applies it, if somebody asked for that.
    pub(super) fn poll(&mut self, state: &State) {
        let waiting = state.actions.asked_to_reload();
        if !self.asked.swap(false, Ordering::Relaxed) && waiting.is_empty() {
            return;
        }
        let result = self.reload(state);
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
            let lines = |why: String| why.lines().map(str::to_owned).collect();
            // Who has gone needs no answer.
            let _ = to.send(result.clone().map_err(lines));
        }
    }

    fn reload(&mut self, state: &State) -> Result<Vec<String>, String> {
        let new = (self.load)()?;
        let Applied { changes, names } = changes(&self.running, &new, &self.reserved)?;
        let busy = |_| "a worker has not taken the last changes yet; try again".to_owned();
        // Its pools have shares of those mbufs; what is left of them is not given back.
        let shown = Config { pool: self.reserved, ..new.clone() };
        state.parameters.apply(&changes, &shown).map_err(busy)?;
        state.set_facts(&new, &self.reserved);
        for warning in &new.warnings {
            tracing::warn!("{warning}");
        }
        self.running = new;
        Ok(names)
    }
}
