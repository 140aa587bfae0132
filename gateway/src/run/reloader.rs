//! SIGHUP, or a request through the socket: the file is read again, and applied as a whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGHUP;

use crate::config::{Config, Pairs, Pool};
use crate::control::State;
use crate::control::parameters::Parameters;
use crate::reload::{changes_of_all, names_of_all};

/// How the file is read: the configuration, or all mistakes.
pub type Load<'a> = &'a dyn Fn() -> Result<Pairs, String>;

/// Waits for SIGHUP.
pub(super) struct Reloader<'a> {
    asked: Arc<AtomicBool>,
    load: Load<'a>,
    running: Pairs,
    /// Mbufs that each pair took at the start.
    reserved: Vec<Pool>,
}

impl<'a> Reloader<'a> {
    /// Catches SIGHUP from now on.
    pub(super) fn new(running: &Pairs, load: Load<'a>) -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).context("can't catch SIGHUP")?;
        let reserved = running.iter().map(|config| config.pool).collect();
        Ok(Self { asked, load, running: running.clone(), reserved })
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
        for warning in &new.warnings() {
            tracing::warn!("{warning}");
        }
        let names = names_of_all(&self.running, &all);
        self.running = new;
        Ok(names)
    }
}
