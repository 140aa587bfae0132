//! The run of the process: from a configuration to pairs of ports, workers and a
//! control thread, and back in the right order.
//!
//! `pair` opens the ports and the mempool of one pair of ports and runs its workers; `watched` is the main thread's work for
//! that pair. An error of one pair ends that pair only.

mod link_loss;
mod notes;
mod opening;
mod pair;
mod ports;
mod reloader;
mod retry;
pub mod trial;
mod watched;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use dpdk_sys_wrapper::{Eal, raise_interface};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing::Span;

use self::opening::Opening;
use self::pair::{Pair, Queues};
use self::ports::eal_config;
use self::reloader::Reloader;
use self::retry::Unopened;
use self::watched::Watched;
use crate::boot::Boot;
use crate::config::{Config, Machine, Pairs, ROLES, word};
use crate::control::actions::Actions;
use crate::control::socket::{self, Socket};
use crate::control::tunnel::Expected;
use crate::control::{State, health, server};
use crate::instance::{Instance, Purpose};
use crate::log::Log;
use crate::notify::Notifier;
use crate::shares::boot;
use crate::worker::Ended;

/// Time between two looks at signals and at the worker's end.
const TICK: Duration = Duration::from_millis(20);

/// Time between two samples of ports and pool.
const SAMPLE: Duration = Duration::from_millis(500);

pub use self::reloader::Load;

/// The main thread's duties while the workers run.
struct Duties {
    reloader: Reloader,
    notifier: Notifier,
}

/// Runs the gateway until a signal ends it. `load` reads the configuration again, for SIGHUP; `log` changes the level of
/// the log.
///
/// # Errors
/// In one line: the resource that was missing at the start, and how to get it. Of several pairs of ports, those that can
/// be opened run.
pub fn run(pairs: &Pairs, load: Load, log: Log) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    // First: a second gateway must not replace the socket of the first, nor set up interfaces that the first holds down.
    let _instance = claim(&pairs.first().eal.file_prefix)?;
    let mut duties =
        Duties { reloader: Reloader::new(pairs, load)?, notifier: Notifier::from_environment() };
    let actions = Arc::new(Actions::new(Arc::clone(&stop), log));
    let state = |config: &Config| {
        let (tunnel, workers) = (Expected::of(config), config.worker.count.into());
        let state = State::new(word(ROLES, &config.role), workers, tunnel);
        Arc::new(state.of(config).with(Arc::clone(&actions)))
    };
    let states: Vec<_> = pairs.iter().map(state).collect();
    let config = pairs.first();
    // Who can't be asked forwards all the same.
    let ignore = |error| tracing::error!("{error:#}; frames are forwarded all the same");
    let bind = |path| socket::bind(path, config.group.as_deref()).map_err(ignore).ok();
    let socket = config.socket.as_deref().and_then(bind);
    // The file of the socket goes at the end.
    let (socket, _file) = socket.map(Socket::into_parts).unzip();
    let listener = server::bind(config.listen).map_err(ignore).ok();
    server::spawn((config.listen, listener), socket, states.clone())?;

    raise_held(config);
    let eal = Eal::init(&eal_config(pairs))?;
    let (opened, unopened) = open(&eal, pairs, &states)?;
    let ended = work(&eal, (opened, unopened), &states, &stop, &mut duties)?;
    if ended.held + ended.queued > 0 {
        tracing::warn!(
            "stopped after drain_timeout: {} held and {} queued frames were dropped",
            ended.held,
            ended.queued
        );
    } else {
        tracing::info!("stopped");
    }
    Ok(())
}

/// The mark that this gateway runs.
fn claim(file_prefix: &str) -> anyhow::Result<Instance> {
    Instance::claim(file_prefix, Purpose::ToRun)?.with_context(|| {
        format!(
            "a gateway with eal.file_prefix = \"{file_prefix}\" runs already: end it, or give this one another prefix"
        )
    })
}

/// Sets up the interfaces that an earlier process held down when it was killed.
fn raise_held(config: &Config) {
    match watched::marks(config).release(raise_interface) {
        Ok(raised) => raised.iter().for_each(|name| {
            tracing::info!("{name} is set up: an earlier process was killed and left it down");
        }),
        Err(error) => tracing::warn!("{error:#}"),
    }
}

/// A pair of ports that is open.
struct Opened<'a> {
    config: &'a Config,
    state: &'a Arc<State>,
    pair: Pair,
    queues: Vec<Queues>,
}

/// Opens the pairs of ports. Of those that can't be opened the state says why.
fn open<'a>(
    eal: &Eal,
    pairs: &'a Pairs,
    states: &'a [Arc<State>],
) -> anyhow::Result<(Vec<Opened<'a>>, Vec<Unopened<'a>>)> {
    let machine = Machine::read();
    let (mut opened, mut unopened) = (Vec::new(), Vec::new());
    for (config, state) in pairs.iter().zip(states) {
        let _span = span(config).entered();
        let mut opening = Opening::default();
        match opening.attempt(eal, config, &machine) {
            Ok((pair, queues)) => opened.push(Opened { config, state, pair, queues }),
            Err(fault) => unopened.push(Unopened::new((config, state), opening, fault)),
        }
    }
    if opened.is_empty() {
        let lines: Vec<_> = unopened.iter().map(Unopened::named).collect();
        anyhow::bail!("{}", lines.join("; "));
    }
    unopened.iter().for_each(Unopened::tell);
    Ok((opened, unopened))
}

/// A sentence about one of several pairs.
fn named(config: &Config, text: &str) -> String {
    match config.pair.label() {
        Some(name) => format!("pair {name}: {text}"),
        None => text.to_owned(),
    }
}

/// What stands before each line of the log that is about one of several pairs.
fn span(config: &Config) -> Span {
    match config.pair.label() {
        Some(name) => tracing::error_span!("pair", name),
        None => Span::none(),
    }
}

/// Runs the workers of all pairs, each in a thread of its own, and watches them until they end. Pairs that were not opened
/// are tried again.
fn work(
    eal: &Eal,
    (opened, mut unopened): (Vec<Opened<'_>>, Vec<Unopened<'_>>),
    states: &[Arc<State>],
    stop: &Arc<AtomicBool>,
    duties: &mut Duties,
) -> anyhow::Result<Ended> {
    let Some(first) = opened.first() else { return Ok(Ended::default()) };
    let Boot { id, warning } = boot(first.config)?;
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    // It is set once.
    for state in states {
        let _ = state.boot.set(id.0);
    }
    let (mut parts, mut queues) = (Vec::new(), Vec::new());
    for opened in opened {
        queues.push(opened.queues);
        parts.push((opened.config, opened.state, opened.pair));
    }
    // They live as long as their workers.
    let places: Vec<_> = unopened.iter().map(|_| OnceLock::new()).collect();
    thread::scope(|scope| {
        let each = parts.iter().zip(queues);
        let mut all: Vec<_> = each
            .map(|((config, state, pair), queues)| {
                Watched::start(scope, (eal, pair, queues), (config, state), id)
            })
            .collect();
        let late = || {
            let mut each = unopened.iter_mut().zip(&places);
            each.find_map(|(it, place)| {
                let (pair, queues) = it.poll(eal, place)?;
                Some(Watched::start(scope, (eal, pair, queues), it.of(), id))
            })
        };
        supervise(duties, states, stop, &mut all, late);
        let several = states.len() > 1;
        let (mut sum, mut failed) = (Ended::default(), None);
        let mut clean = 0;
        for watched in all {
            match watched.join() {
                Ok(ended) => {
                    clean += 1;
                    sum.held += ended.held;
                    sum.queued += ended.queued;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // That one of several had failed was said when it did.
        match failed {
            Some(error) if !several || clean == 0 => Err(error),
            _ => Ok(sum),
        }
    })
}

/// Follows the workers until all have ended. What all pairs have in common is done here, the rest by each [`Watched`].
/// `late` gives pairs that were opened since.
fn supervise<'scope, 'a: 'scope>(
    Duties { reloader, notifier }: &mut Duties,
    states: &[Arc<State>],
    stop: &AtomicBool,
    all: &mut Vec<Watched<'scope, 'a>>,
    mut late: impl FnMut() -> Option<Watched<'scope, 'a>>,
) {
    let mut stopping = false;
    let mut next_sample = Instant::now();
    loop {
        if !stopping && stop.load(Ordering::Relaxed) {
            stopping = true;
            next_sample = Instant::now();
            tracing::info!("stopping; a second signal ends the process at once");
            notifier.stopping();
            all.iter().for_each(Watched::stop);
        }
        let mut is_over = true;
        for watched in all.iter_mut() {
            is_over &= watched.look();
        }
        if is_over {
            break;
        }
        reloader.poll(states);
        if !stopping {
            all.extend(late());
        }
        if all.iter().all(|watched| watched.has_ended() || watched.has_begun()) {
            notifier.ready();
        }
        let now = Instant::now();
        if now >= next_sample {
            next_sample = now + SAMPLE;
            let mut is_stalled = false;
            for watched in all.iter_mut() {
                is_stalled |= watched.sample(stopping, now);
            }
            for state in states {
                health::check(state, now);
            }
            // A stuck worker trips the watchdog.
            if !is_stalled {
                notifier.alive();
            }
        }
        thread::sleep(TICK);
    }
    if !stopping {
        // The workers were that quick.
        notifier.stopping();
    }
    notifier.closing();
}

/// The flag that SIGTERM and SIGINT set. A second signal ends the process at
/// once, with status 1.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("can't catch signals")?;
    }
    Ok(stop)
}
