//! The polling loop of `lr2-host`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use arrayvec::ArrayVec;
use common::frame::Frame;
use common::time::{Span, Time};
use dpdk_sys_wrapper::{Clock, Mbuf, PoolHandle, Port, RxQueue, SharedMbuf, TxQueue};
use rnic::{Nic, NicConfig, QpId, Region, Status};

use super::connection::{default_mac, queue_pairs};
use super::meter::Meter;
use super::options::{Operation, Options, Role};
use super::report::{self, Lines, Report};
use super::stall::Stalls;
use super::workload::Workload;
use crate::dpdk::{BURST, RING, SLACK};
use crate::idle::Idle;
use crate::live::Live;
use crate::reconnect::Reconnect;
use crate::report::Durations;
use crate::signals::{self, StopFlag};

/// Bursts received, and sent, before the other gets its turn.
const BURSTS: usize = 8;

/// How far the port catches up when the program had no CPU for a while: some
/// slices of a scheduler on a shared core; on a core of its own it is never used.
const PACING_SLACK: Span = Span::from_millis(10);

/// The longest that a requester waits for outstanding work requests once it was told
/// to stop.
const STOP_DRAIN: Span = Span::from_millis(2_000);

/// A host that is both sides ends when nothing has arrived for so long.
const QUIET: Span = Span::from_millis(1_000);

/// mbufs that only reception may take.
const RESERVE: u32 = 512;

/// Runs a requester to its end, or a responder until it is stopped. Exit code
/// 1 if something failed or was corrupt.
///
/// # Errors
/// In one line, why it can't run.
pub fn run(options: &Options) -> Result<ExitCode> {
    let (workload, connection) = (&options.workload, &options.connection);
    let window =
        workload.window_per_qp(connection.pmtu, connection.qps).map_err(|e| anyhow!("{e}"))?;
    let (nic, qps) = nic(options, window)?;
    let stop = signals::stop_flag()?;
    let mbufs = 2 * u64::from(RING) + SLACK;
    let eal = options.dpdk.start("lr2-host", &[&options.device], mbufs)?;
    let pool = options.dpdk.pool(&eal, "frames", mbufs)?;
    let (port, rx, tx) = options.dpdk.open(&eal, &options.device, &pool)?;
    wait_for_link(&port, options, &stop)?;

    let backlog = workload.packets_in(PACING_SLACK, connection.pmtu).ceil() as u64;
    let steady = || {
        let span = |seconds| Duration::from_secs_f64(seconds).into();
        Meter::new(span(workload.warm_up), span(workload.seconds))
    };
    let mut host = Host {
        reconnect: Reconnect::new(&port, &options.device),
        port,
        nic,
        rx,
        tx,
        frames: PoolHandle::new(&pool, RESERVE),
        outgoing: ArrayVec::new(),
        workload: options.role.requests().then(|| {
            let backlog = backlog.min(u64::from(window));
            Workload::new(&qps, workload.op.into(), workload.message, connection.pmtu, backlog)
        }),
        stalls: Stalls::new(qps.len()),
        qps,
        sent: steady(),
        received: steady(),
        completion: Durations::default(),
        last_arrival: Time::ZERO,
        port_full: 0,
    };
    signals::ready("lr2-host");
    let ceased = host.run(options, &eal.clock(), &stop);
    let report = host.report(options, window, ceased);
    if let Some(file) = &options.json {
        crate::report::write(file, &report)?;
    }
    let clean = report.requester.as_ref().is_none_or(report::Requester::is_clean)
        && report.responder.is_clean()
        && report.qps_failed == 0;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The RNIC with its QPs.
pub(super) fn nic(options: &Options, window: u32) -> Result<(Nic, Vec<QpId>)> {
    let connection = &options.connection;
    let message = options.workload.message;
    let remote = matches!(options.workload.op, Operation::Write | Operation::Read);
    if remote && u64::from(message) > Region::DEFAULT.len {
        bail!(
            "--message {message} does not fit into the {} bytes of the peer's memory",
            Region::DEFAULT.len
        );
    }
    let mut nic = Nic::new(NicConfig {
        rate: options.workload.rate,
        pacing_slack: PACING_SLACK,
        ..NicConfig::new(
            connection.mac.unwrap_or_else(|| default_mac(connection.ip)),
            connection.ip,
        )
    });
    let qps = queue_pairs(connection, window).into_iter().map(|qp| nic.add_qp(qp));
    let qps = qps.collect::<Result<Vec<QpId>, _>>().context("queue pair")?;
    Ok((nic, qps))
}

fn wait_for_link(port: &Port, options: &Options, stop: &StopFlag) -> Result<()> {
    let step = Duration::from_millis(20);
    let mut left = Duration::from_nanos(options.link_wait.as_nanos());
    while !port.link().up && !stop.is_raised() {
        left = left
            .checked_sub(step)
            .ok_or_else(|| anyhow!("{}: no link; is the other end there?", options.device))?;
        thread::sleep(step);
    }
    Ok(())
}

/// A port with the RNIC behind it.
struct Host {
    nic: Nic,
    qps: Vec<QpId>,
    rx: RxQueue,
    tx: TxQueue,
    port: Port,
    reconnect: Reconnect,
    frames: PoolHandle,
    /// Frames that the port has not taken yet.
    outgoing: ArrayVec<SharedMbuf, BURST>,
    /// `None` for a responder.
    workload: Option<Workload>,
    sent: Meter,
    received: Meter,
    stalls: Stalls,
    completion: Durations,
    last_arrival: Time,
    port_full: u64,
}

impl Host {
    /// Returns when messages ceased to be posted.
    fn run(&mut self, options: &Options, clock: &Clock, stop: &StopFlag) -> Time {
        let start = clock.now();
        let mut live = Live::new(options.live, start);
        let mut lines = Lines::new(options.role.requests());
        let idle = Idle::new(options.idle);
        if self.workload.is_some() {
            self.sent.begin(start);
        }
        let patience: Span = Duration::from_secs_f64(options.workload.drain).into();
        let mut ceased: Option<Time> = None;
        loop {
            let now = clock.now();
            if ceased.is_none() && (stop.is_raised() || self.has_sent_all(now)) {
                ceased = Some(now);
            }
            let worked = self.poll(clock, ceased.is_none());
            if let Some(ceased) = ceased {
                let drain = if stop.is_raised() { patience.min(STOP_DRAIN) } else { patience };
                if self.is_done(options.role, now, stop) || now.since(ceased) >= drain {
                    return ceased;
                }
            }
            if live.is_due(now) {
                live.send(now, lines.next(&self.nic, now.since(start)));
            }
            if !worked {
                let next = self.nic.next_deadline().unwrap_or(Time::NEVER);
                idle.wait(now, next);
            }
        }
    }

    /// Whether a requester has no reason to post any more.
    fn has_sent_all(&self, now: Time) -> bool {
        let workload = self.workload.as_ref();
        workload.is_some_and(|w| self.sent.is_over(now) || w.all_failed(&self.nic))
    }

    /// Whether nothing is left to wait for, now that posting has ceased.
    fn is_done(&self, role: Role, now: Time, stop: &StopFlag) -> bool {
        let nothing_pending = self.workload.as_ref().is_none_or(|w| w.pending(&self.nic) == 0);
        let peer_is_done =
            role != Role::Both || stop.is_raised() || now.since(self.last_arrival) >= QUIET;
        nothing_pending && peer_is_done
    }

    /// One turn of the loop. Returns whether there was anything to do.
    fn poll(&mut self, clock: &Clock, post: bool) -> bool {
        let is_open = self.reconnect.tend(clock.now(), &self.port, &mut self.rx, &mut self.tx);
        let arrived = is_open && self.receive(clock);
        let now = clock.now();
        self.nic.on_timers(now);
        while let Some(completion) = self.nic.poll_completion() {
            if completion.status == Status::Ok
                && self.sent.add(completion.work.len, completion.completed_at)
            {
                self.completion.record(completion.duration().as_nanos(), 1);
            }
        }
        while let Some(message) = self.nic.poll_received() {
            self.received.begin(message.at);
            self.received.add(message.len, message.at);
        }
        if post && let Some(workload) = &mut self.workload {
            workload.top_up(&mut self.nic, now);
        }
        (is_open && self.transmit(now)) || arrived
    }

    fn receive(&mut self, clock: &Clock) -> bool {
        for turn in 0..BURSTS {
            let mut burst = ArrayVec::<Mbuf, BURST>::new();
            let received = self.rx.burst(&mut burst);
            // Frames have arrived by now, and not by a time read before.
            let now = clock.now();
            for frame in &burst {
                self.nic.receive(frame.bytes(), now);
            }
            if received > 0 {
                self.last_arrival = now;
                for (n, qp) in self.qps.iter().enumerate() {
                    let accepted = self.nic.stats(*qp).responder.accepted;
                    self.stalls.note(n, accepted, now, |at| self.received.is_steady(at));
                }
            }
            if received < BURST {
                return turn > 0 || received > 0;
            }
        }
        true
    }

    /// Sends ready frames. A port that is full makes the RNIC wait; nothing
    /// is dropped here.
    fn transmit(&mut self, now: Time) -> bool {
        let mut sent = false;
        for _ in 0..BURSTS {
            while !self.outgoing.is_full()
                && let Some(frame) = self.nic.poll_transmit(now, &mut self.frames)
            {
                self.outgoing.push(frame.share());
            }
            if self.outgoing.is_empty() {
                break;
            }
            sent |= self.tx.burst(&mut self.outgoing) > 0;
            if !self.outgoing.is_empty() {
                self.port_full += 1;
                break;
            }
        }
        sent
    }

    fn report(&self, options: &Options, window: u32, ceased: Time) -> Report {
        let totals = self.nic.totals();
        Report {
            program: "lr2-host",
            role: options.role.name(),
            qps: options.connection.qps,
            qps_failed: self.qps.iter().filter(|&&qp| self.nic.has_failed(qp)).count(),
            pmtu: options.connection.pmtu,
            message_bytes: options.workload.message,
            rate_bps: options.workload.rate,
            window_packets_per_qp: window,
            requester: self.workload.as_ref().map(|workload| report::Requester {
                completed: self.sent.all(),
                pending: workload.pending(&self.nic),
                steady: self.sent.steady(ceased),
                completion_us: self.completion.summary(),
                rtt_us: (&totals.requester.rtt).into(),
                stats: totals.requester,
            }),
            responder: report::Responder::new(
                &totals.responder,
                self.received.all(),
                self.received.steady(ceased),
                self.stalls.longest(),
            ),
            port: report::Port { stats: *self.nic.port_stats(), port_full: self.port_full },
        }
    }
}
