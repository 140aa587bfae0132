//! The polling loop of `lr2-check-rnic`.

use std::fs;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use arrayvec::ArrayVec;
use common::frame::Frame;
use common::time::{Span, Time};
use dpdk_sys_wrapper::{Clock, Mbuf, PoolHandle, Port, RxQueue, SharedMbuf, TxQueue};
use serde::Serialize;

use super::checker::{Checker, Event};
use super::end::End;
use super::flow::Need;
use super::options::Options;
use super::report::{self, Report};
use crate::dpdk::BURST;
use crate::idle::Idle;
use crate::live::Lines;
use crate::reconnect::Reconnect;
use crate::signals;

/// mbufs that only reception may take.
const RESERVE: u32 = 512;
/// For how long a port may refuse frames until they are dropped: longer than a scheduler's slice.
const PATIENCE: Span = Span::from_millis(500);
/// For how long frames still cross the wire once a run has ended: repairs of what the last check did.
const AFTERWARDS: Span = Span::from_millis(100);

/// A line of standard output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    /// Traffic is awaited.
    Waits { traffic: &'static str },
    /// A check has begun.
    Begins { check: String, does: &'static str },
    /// A check has ended.
    Ends { check: String, verdict: &'static str, observed: String },
    /// All have ended.
    Done,
}

impl From<Event> for Line {
    fn from(event: Event) -> Self {
        match event {
            Event::Waits(need) => Self::Waits {
                traffic: match need {
                    Need::Messages => "messages",
                    Need::Reads => "reads",
                    Need::Atomics => "atomics",
                    Need::Any => "any",
                },
            },
            Event::Begins(name) => Self::Begins { check: name.text(), does: name.about().does },
            Event::Ends(done) => Self::Ends {
                check: done.name.text(),
                verdict: done.outcome.verdict.in_words(),
                observed: done.outcome.observed,
            },
        }
    }
}

/// A port, and what waits for it.
struct Station {
    rx: RxQueue,
    tx: TxQueue,
    outgoing: ArrayVec<SharedMbuf, BURST>,
    refusing_since: Option<Time>,
    refused: u64,
    reconnect: Reconnect,
    port: Port,
}

impl Station {
    /// Offers what waits to the port. Whether nothing waits any more.
    fn flush(&mut self, now: Time) -> bool {
        if self.outgoing.is_empty() {
            return true;
        }
        if self.tx.burst(&mut self.outgoing) > 0 {
            self.refusing_since = None;
        }
        if self.outgoing.is_empty() {
            return true;
        }
        let since = *self.refusing_since.get_or_insert(now);
        if now.since(since) < PATIENCE {
            return false;
        }
        self.refused += self.outgoing.len() as u64;
        self.outgoing.clear();
        true
    }
}

/// Both ports and the core between them.
struct Wire {
    checker: Checker<Mbuf>,
    stations: [Station; 2],
    /// The frame that is next, while its port refuses those before it.
    next: Option<(End, Mbuf)>,
}

impl Wire {
    /// One turn. Whether there was anything to do.
    fn poll(&mut self, clock: &Clock, pool: &mut PoolHandle) -> bool {
        let mut worked = false;
        let now = clock.now();
        let mut are_up = true;
        for station in &mut self.stations {
            let Station { rx, tx, reconnect, port, .. } = station;
            are_up &= reconnect.tend(now, port, rx, tx);
        }
        if !are_up {
            return false;
        }
        for end in End::BOTH {
            let mut burst = ArrayVec::<Mbuf, BURST>::new();
            self.stations[end.index()].rx.burst(&mut burst);
            let now = clock.now();
            for frame in burst {
                worked = true;
                self.checker.on_frame(end, frame, now, pool);
            }
            self.send(clock.now());
        }
        self.checker.on_time(clock.now(), pool);
        self.send(clock.now());
        worked
    }

    /// Sends what has to leave, in order.
    fn send(&mut self, now: Time) {
        while let Some((to, frame)) = self.next.take().or_else(|| self.checker.next_frame()) {
            let station = &mut self.stations[to.index()];
            if station.outgoing.is_full() && !station.flush(now) {
                self.next = Some((to, frame));
                return;
            }
            station.outgoing.push(frame.share());
        }
        for station in &mut self.stations {
            station.flush(now);
        }
    }
}

/// Runs until all checks have ended, or until SIGTERM or SIGINT. Exit code 1 if something differs.
///
/// # Errors
/// In one line, why it can't run.
pub fn run(options: &Options) -> Result<ExitCode> {
    let stop = signals::stop_flag()?;
    let skip = signals::skip_flag()?;
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let devices = options.devices();
    let mbufs = options.mbufs();
    let eal = options.dpdk.start("lr2-check-rnic", &devices, mbufs)?;
    let pool = options.dpdk.pool(&eal, "frames", mbufs)?;
    let clock = eal.clock();
    let open = |device: &str| -> Result<Station> {
        let (port, rx, tx) = options.dpdk.open(&eal, device, &pool)?;
        let reconnect = Reconnect::new(&port, device);
        let outgoing = ArrayVec::new();
        Ok(Station { rx, tx, outgoing, refusing_since: None, refused: 0, reconnect, port })
    };
    let stations = [open(devices[0])?, open(devices[1])?];
    let mut wire =
        Wire { checker: Checker::new(options.config(), clock.now()), stations, next: None };
    let mut frames = PoolHandle::new(&pool, RESERVE);
    let lines = Lines::new();
    let idle = Idle::new(options.idle);
    signals::ready("lr2-check-rnic");

    let mut until = Time::NEVER;
    while clock.now() < until {
        let is_at_end = wire.checker.is_done() || stop.is_raised();
        if is_at_end && until == Time::NEVER {
            wire.checker.stop(clock.now());
            until = clock.now() + AFTERWARDS;
        }
        if skip.take() {
            wire.checker.stop_waiting();
        }
        let worked = wire.poll(&clock, &mut frames);
        while let Some(event) = wire.checker.next_event() {
            lines.send(event.into());
        }
        if !worked {
            idle.wait(clock.now(), Time::NEVER);
        }
    }
    lines.send(Line::Done);

    let report = report(options, &wire, date);
    if let Some(file) = &options.json {
        crate::report::write(file, &report)?;
    }
    if let Some(file) = &options.markdown {
        fs::write(file, report.markdown())
            .with_context(|| format!("cannot write the report to {}", file.display()))?;
    }
    Ok(if report.differs() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(options: &Options, wire: &Wire, date: String) -> Report {
    let [a, b] = End::BOTH.map(|end| {
        let station = &wire.stations[end.index()];
        let stats = station.port.stats();
        report::Port {
            end,
            device: options.devices()[end.index()].to_owned(),
            driver: station.port.driver().to_owned(),
            frames: wire.checker.ledgers()[end.index()],
            refused: station.refused,
            missed: stats.rx_missed + stats.rx_errors + stats.rx_no_mbuf,
        }
    });
    Report {
        program: "lr2-check-rnic",
        version: env!("CARGO_PKG_VERSION"),
        date,
        rnic: options.rnic.clone(),
        hold_ms: options.hold.as_secs_f64() * 1e3,
        ports: [a, b],
        checks: wire.checker.results().to_vec(),
    }
}
