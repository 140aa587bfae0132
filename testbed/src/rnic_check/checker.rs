//! The wire between two hosts, and the checks on what crosses it.

use std::collections::VecDeque;

use common::frame::{Frame, Pool};
use common::time::{Span, Time};
use common::wire::{Roce, parse};
use serde::Serialize;

use super::check::{Check, Context, Fate, Injected, Orders, Outcome, Packet, Verdict};
use super::checks::Name;
use super::end::End;
use super::flow::{Flow, Need};
use super::flows::{FlowId, Flows, Seen};

/// Frames that may be held at a time; with one more all go on, and the check is at its end.
pub const HELD_MAX: usize = 4096;
/// A check is given up after this time.
const LIMIT: Span = Span::from_millis(30_000);
/// A queue pair of which nothing was seen for so long goes on no more.
const SILENT: Span = Span::from_millis(8_000);
/// How often a check is tried that found no opportunity.
const ATTEMPTS: u32 = 3;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The checks, in the order of the run.
    pub checks: Vec<Name>,
    /// For how long packets may be held: less than the local ACK timeout, more than RNICs take to answer.
    pub hold: Span,
    /// For how long traffic of a kind is awaited.
    pub wait: Span,
}

/// A check that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// Which one.
    pub name: Name,
    /// How.
    pub outcome: Outcome,
    /// On which queue pairs; `None`: none.
    pub queue_pairs: Option<String>,
    /// Since the start of the run.
    pub began: Span,
    /// How long it took.
    pub took: Span,
}

/// News for the operator.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Traffic of this kind is awaited.
    Waits(Need),
    /// A check has begun.
    Begins(Name),
    /// A check has ended.
    Ends(Box<Done>),
}

/// Frames of one end. `received` = sent at the other end without those injected + dropped on purpose + held.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Ledger {
    /// Received from the host.
    pub received: u64,
    /// Of those, forwarded to the other host.
    pub forwarded: u64,
    /// Of those, dropped by a check.
    pub dropped: u64,
    /// Of those, held now.
    pub held: u64,
    /// Frames of checks that were sent to the host at this end.
    pub injected: u64,
    /// Frames of checks for which there was no memory.
    pub not_injected: u64,
}

struct Running {
    name: Name,
    check: Box<dyn Check>,
    flow: FlowId,
    queue_pairs: String,
    began: Time,
    icmp_before: u32,
}

/// The wire and its checks. It knows no clock and no port: frames and the time come in by
/// [`on_frame`](Self::on_frame) and [`on_time`](Self::on_time), frames go out by [`next_frame`](Self::next_frame).
pub struct Checker<F> {
    config: Config,
    start: Time,
    flows: Flows,
    at: usize,
    attempts: u32,
    /// The newest attempt, which found no opportunity.
    in_vain: Option<Done>,
    running: Option<Running>,
    /// Since when traffic is awaited for the check that is next.
    waits_since: Option<Time>,
    /// No traffic of this kind came in time: checks that need it are not waited for.
    expired: Option<Need>,
    ready_at: Time,
    held: VecDeque<(End, F)>,
    out: VecDeque<(End, F)>,
    ledgers: [Ledger; 2],
    icmp: u32,
    done: Vec<Done>,
    events: VecDeque<Event>,
}

impl<F: Frame> Checker<F> {
    /// A wire on which nothing has happened.
    pub fn new(config: Config, now: Time) -> Self {
        Self {
            config,
            start: now,
            flows: Flows::default(),
            at: 0,
            attempts: 0,
            in_vain: None,
            running: None,
            waits_since: None,
            expired: None,
            ready_at: now,
            held: VecDeque::new(),
            out: VecDeque::new(),
            ledgers: [Ledger::default(); 2],
            icmp: 0,
            done: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// A frame has come from the host at `from`. `pool` gives frames for what is sent beside the traffic.
    pub fn on_frame<P: Pool<Frame = F>>(
        &mut self,
        from: End,
        mut frame: F,
        now: Time,
        pool: &mut P,
    ) {
        self.ledgers[from.index()].received += 1;
        let bytes = frame.bytes();
        let Ok(roce) = parse(bytes) else {
            self.icmp += u32::from(is_icmp(bytes));
            return self.forward(from, frame);
        };
        let Some((id, seen)) = self.flows.on_packet(from, &roce, bytes, now) else {
            return self.forward(from, frame);
        };
        let mut orders = Orders::default();
        let fate = self.ask(id, &seen, &mut frame, &roce, now, &mut orders);
        self.inject_all(&mut orders.before, pool);
        self.release(orders.release);
        match fate {
            Fate::Forward => {
                if let (Seen::Reply(reply), Some(flow)) = (&seen, self.flows.get_mut(id)) {
                    flow.delivered(reply, now);
                }
                self.forward(from, frame);
            }
            Fate::Drop => {
                if let (Seen::Reply(reply), Some(flow)) = (&seen, self.flows.get_mut(id)) {
                    flow.dropped(reply);
                }
                self.ledgers[from.index()].dropped += 1;
            }
            Fate::Hold => {
                self.ledgers[from.index()].held += 1;
                self.held.push_back((from, frame));
            }
        }
        self.inject_all(&mut orders.after, pool);
        if let (Some(reply), Some(flow)) = (&orders.delivered, self.flows.get_mut(id)) {
            flow.delivered(reply, now);
        }
        if let Some(outcome) = orders.outcome.take() {
            self.finish(outcome, now);
        } else if self.held.len() > HELD_MAX {
            let observed = format!(
                "more than {HELD_MAX} packets came while they were held: let fewer be in flight"
            );
            self.finish(Outcome { verdict: Verdict::NotTried, observed }, now);
        }
    }

    /// The fate that the running check gives to a packet.
    fn ask(
        &mut self,
        id: FlowId,
        seen: &Seen,
        frame: &mut F,
        roce: &Roce,
        now: Time,
        orders: &mut Orders,
    ) -> Fate {
        let (Some(running), Some(flow)) = (&mut self.running, self.flows.get(id)) else {
            return Fate::Forward;
        };
        if running.flow != id {
            return Fate::Forward;
        }
        let icmp = self.icmp - running.icmp_before;
        let (hold, held) = (self.config.hold, self.held.len());
        let mut cx = Context { now, flow, hold, icmp, held, orders };
        let packet = Packet { bytes: frame.bytes_mut(), roce };
        match seen {
            Seen::Request(request) => running.check.on_request(request, packet, &mut cx),
            Seen::Reply(reply) => running.check.on_reply(reply, packet, &mut cx),
        }
    }

    /// Time has passed: to be called often.
    pub fn on_time<P: Pool<Frame = F>>(&mut self, now: Time, pool: &mut P) {
        let Some(running) = &mut self.running else { return self.begin(now) };
        let Some(flow) = self.flows.get(running.flow) else {
            let observed = "the queue pair's number was used again".into();
            return self.finish(Outcome { verdict: Verdict::NotTried, observed }, now);
        };
        let mut orders = Orders::default();
        let icmp = self.icmp - running.icmp_before;
        let (hold, held) = (self.config.hold, self.held.len());
        let mut cx = Context { now, flow, hold, icmp, held, orders: &mut orders };
        running.check.on_time(&mut cx);
        let late = now.since(running.began) >= LIMIT || now.since(flow.last_seen) >= SILENT;
        if orders.outcome.is_none() && late {
            orders.outcome = Some(given_up(running, flow, now));
        }
        let id = running.flow;
        self.inject_all(&mut orders.before, pool);
        self.release(orders.release);
        self.inject_all(&mut orders.after, pool);
        if let (Some(reply), Some(flow)) = (&orders.delivered, self.flows.get_mut(id)) {
            flow.delivered(reply, now);
        }
        if let Some(outcome) = orders.outcome.take() {
            self.finish(outcome, now);
        }
    }

    /// The next frame to be sent, and the end that it leaves at.
    pub fn next_frame(&mut self) -> Option<(End, F)> {
        self.out.pop_front()
    }

    /// The next piece of news.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether all checks have ended.
    pub fn is_done(&self) -> bool {
        self.at >= self.config.checks.len()
    }

    /// The run is to end: held packets go on, and what was not tried is so in the results.
    pub fn stop(&mut self, now: Time) {
        self.release(usize::MAX);
        let why = "the run was stopped before";
        if self.running.is_some() {
            self.attempts = ATTEMPTS;
            self.finish(Outcome { verdict: Verdict::NotTried, observed: why.into() }, now);
        }
        while !self.is_done() {
            self.skip(why, now);
        }
    }

    /// There is no traffic of the kind that is awaited: checks that need it are not tried.
    pub fn stop_waiting(&mut self) {
        if let (Some(_), Some(name)) = (self.waits_since, self.config.checks.get(self.at)) {
            self.expired = Some(name.need());
        }
    }

    /// The checks that have ended.
    pub fn results(&self) -> &[Done] {
        &self.done
    }

    /// The frames of both ends.
    pub fn ledgers(&self) -> [Ledger; 2] {
        self.ledgers
    }

    /// The next check begins if there is traffic for it.
    fn begin(&mut self, now: Time) {
        let Some(&name) = self.config.checks.get(self.at) else { return };
        if now < self.ready_at {
            return;
        }
        let need = name.need();
        let found = self.flows.find(need, now);
        let flow = found.and_then(|id| self.flows.get(id).map(|flow| (id, flow)));
        let Some((id, flow)) = flow else {
            if self.expired == Some(need) {
                return self.skip("no such traffic", now);
            }
            if self.waits_since.is_none() {
                self.events.push_back(Event::Waits(need));
            }
            let since = *self.waits_since.get_or_insert(now);
            if now.since(since) >= self.config.wait {
                self.expired = Some(need);
                let seconds = self.config.wait.as_secs_f64();
                self.skip(&format!("no such traffic within {seconds} s"), now);
            }
            return;
        };
        let queue_pairs = queue_pairs(flow);
        (self.waits_since, self.expired) = (None, None);
        if self.attempts == 0 {
            self.events.push_back(Event::Begins(name));
        }
        self.running = Some(Running {
            name,
            check: name.begin(),
            flow: id,
            queue_pairs,
            began: now,
            icmp_before: self.icmp,
        });
    }

    /// The running check is at its end.
    fn finish(&mut self, outcome: Outcome, now: Time) {
        self.release(usize::MAX);
        let Some(running) = self.running.take() else { return };
        self.ready_at = now + self.config.hold;
        self.attempts += 1;
        let is_in_vain = outcome.verdict == Verdict::NotTried;
        let done = Done {
            name: running.name,
            outcome,
            queue_pairs: Some(running.queue_pairs),
            began: running.began.since(self.start),
            took: now.since(running.began),
        };
        if is_in_vain && self.attempts < ATTEMPTS {
            self.in_vain = Some(done);
        } else {
            self.record(done);
        }
    }

    /// The check that is next is not tried.
    fn skip(&mut self, why: &str, now: Time) {
        let Some(&name) = self.config.checks.get(self.at) else { return };
        self.waits_since = None;
        if let Some(done) = self.in_vain.take() {
            // It says more.
            return self.record(done);
        }
        let outcome = Outcome { verdict: Verdict::NotTried, observed: why.into() };
        let began = now.since(self.start);
        self.record(Done { name, outcome, queue_pairs: None, began, took: Span::ZERO });
    }

    fn record(&mut self, done: Done) {
        (self.attempts, self.in_vain) = (0, None);
        self.at += 1;
        self.events.push_back(Event::Ends(Box::new(done.clone())));
        self.done.push(done);
    }

    fn forward(&mut self, from: End, frame: F) {
        self.ledgers[from.index()].forwarded += 1;
        self.out.push_back((from.other(), frame));
    }

    /// The oldest so many held packets go on.
    fn release(&mut self, count: usize) {
        for _ in 0..count.min(self.held.len()) {
            let Some((from, frame)) = self.held.pop_front() else { return };
            self.ledgers[from.index()].held -= 1;
            self.forward(from, frame);
        }
    }

    fn inject_all<P: Pool<Frame = F>>(&mut self, frames: &mut Vec<Injected>, pool: &mut P) {
        for Injected { to, bytes } in frames.drain(..) {
            match pool.alloc(bytes.len()) {
                Some(mut frame) => {
                    frame.bytes_mut().copy_from_slice(&bytes);
                    self.ledgers[to.index()].injected += 1;
                    self.out.push_back((to, frame));
                }
                None => self.ledgers[to.index()].not_injected += 1,
            }
        }
    }
}

/// A check that does not come to its end: the queue pair goes on no more, its traffic has ended, or it is too slow.
fn given_up(running: &mut Running, flow: &Flow, now: Time) -> Outcome {
    let left = flow.next.since(flow.acked);
    let is_stuck = left > 0 && now.since(flow.acked_at) >= SILENT;
    match running.check.so_far() {
        Some(seen) if is_stuck => {
            let observed =
                format!("the queue pair did not go on: {left} PSNs are not acknowledged; {seen}");
            Outcome { verdict: Verdict::Differs, observed }
        }
        _ => {
            let observed = "the traffic ended, was too slow, or had no fitting packet".into();
            Outcome { verdict: Verdict::NotTried, observed }
        }
    }
}

fn queue_pairs(flow: &Flow) -> String {
    let requester = flow.requester_qpn.unwrap_or_default();
    format!(
        "{} ({} at {}) to {} ({} at {})",
        requester,
        flow.src,
        flow.requester,
        flow.responder_qpn,
        flow.dst,
        flow.requester.other()
    )
}

/// Whether it is ICMP over IPv4, or ICMPv6 that reports an error, without VLAN tags or with one.
fn is_icmp(frame: &[u8]) -> bool {
    let at = if frame.get(12..14) == Some(&[0x81, 0x00]) { 16 } else { 12 };
    let (Some(kind), Some(ip)) = (frame.get(at..at + 2), frame.get(at + 2..)) else { return false };
    match kind {
        // Errors only: an echo is somebody's ping.
        [0x08, 0x00] => {
            let options = ip.first().map_or(20, |first| usize::from(first & 0xf) * 4);
            ip.get(9) == Some(&1) && matches!(ip.get(options), Some(3..=5 | 11 | 12))
        }
        [0x86, 0xdd] => ip.get(6) == Some(&58) && matches!(ip.get(40), Some(1..=4)),
        _ => false,
    }
}
