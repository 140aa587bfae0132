//! The event loop.

mod boxes;
mod faults;
mod operator;
mod view;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::frame::{Frame, Side};
use common::heap::{HeapFrame, HeapPool};
use common::psn::Psn;
use common::time::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::{ATOMIC_LEN, ImpliedNak, Status, WorkKind, WorkRequest};
use tunnel::Port;

use crate::end::End;
use crate::order::{InOrder, Ordered};
use crate::scenario::Scenario;
use crate::script::{Script, Segment};
use crate::trace::{describe, nonzero};
use crate::tunnel::Tunnelling;
use crate::workers::Workers;

pub use faults::Silenced;

/// When traffic begins.
pub(crate) const START: Time = Time::from_nanos(1_000_000_000);

/// When boxes with a tunnel were started.
const BOXES_START: Time = Time::from_nanos(100_000_000);

/// The segments, in both directions.
const TO_SWITCH: usize = 0;
pub(crate) const TO_NIC: usize = 1;
/// Of the first WAN port; that of a second one follows.
pub(crate) const WAN_OUT: usize = 2;

/// Where a frame arrives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Nic(usize),
    /// At the LAN port (0), or at a WAN port (from 1 on).
    Switch(usize, u8),
}

/// A frame arrives: when, in which order among equals, where, its bytes.
type Event = (Time, u64, Place, Vec<u8>);

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// How long it took until everything was delivered and acknowledged.
    pub finished: Option<Span>,
    /// Frames that the switches still hold.
    pub held: u64,
    /// Frames that a tunnel without repair of the LANs carried.
    pub order: Ordered,
    /// Requests that ended in error.
    pub failed: u64,
    /// The fate of each queue pair, incarnation by incarnation.
    pub qps: Vec<QpFate>,
}

/// The fate of a queue pair in one incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QpFate {
    /// How the first of its requests that failed ended, at either end.
    pub died: Option<Status>,
    /// How long it took until its last request was done.
    pub took: Span,
}

/// A run.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    events: BinaryHeap<Reverse<Event>>,
    sent: u64,
    pub(crate) rng: ChaCha8Rng,
    expected: [u64; 2],
    /// Lives of the queue pairs that are still to come, and their PSNs.
    pub(crate) lives_left: u32,
    pub(crate) psns: Vec<(Psn, Psn)>,
    /// When the present incarnation began.
    pub(crate) incarnation: Time,
    /// The fates of the queue pairs, incarnation by incarnation.
    pub(crate) fates: Vec<QpFate>,
    /// When the next incarnation begins, once everything is done.
    pub(crate) next_incarnation: Time,
    /// Time at which all frames of the NICs have arrived, if no switch holds one. Queue pairs are not used again before.
    pub(crate) arrived_by: Time,
    /// When the present incarnation is broken off.
    pub(crate) abort_at: Time,
    /// It was: until the next one begins the NICs have no use for arriving frames.
    pub(crate) aborted: bool,
    /// Whether to print every frame that arrives anywhere.
    pub(crate) trace: bool,
    /// Restarts that are still to come, soonest last.
    pub(crate) restarts: Vec<(Time, usize)>,
    /// What operators are still to do, soonest last.
    operations: Vec<(Time, usize, u64)>,
    /// Losses that are chosen.
    script: Script,
    /// Messages of each box that don't arrive.
    silenced: [Option<Silenced>; 2],
    /// Whether a tunnel keeps the order of flows.
    order: Option<InOrder>,
}

impl World {
    /// Sets everything up and posts all messages.
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
        let psns: Vec<(Psn, Psn)> = (0..scenario.qps)
            .map(|q| match (scenario.zero_psn, q) {
                (true, _) => (Psn::new(0), Psn::new(0)),
                (false, 0) => (scenario.first_psn, Psn::new(rng.random())),
                (false, _) => (Psn::new(rng.random()), Psn::new(rng.random())),
            })
            .collect();
        let ends = [0, 1].map(|me| End::new(me, &scenario, &psns));
        let mut restarts: Vec<(Time, usize)> =
            scenario.restarts.iter().map(|(at, me)| (START + *at, *me)).collect();
        restarts.sort_unstable_by(|a, b| b.cmp(a));
        let operations = scenario.operations.iter();
        let mut operations: Vec<_> =
            operations.map(|(at, me, seed)| (START + *at, *me, *seed)).collect();
        operations.sort_unstable_by(|a, b| b.cmp(a));
        let is_checked = scenario.recovery.is_some() && scenario.tunnel == Tunnelling::Alone;
        let mut world = Self {
            order: is_checked.then(|| InOrder::new(scenario.division())),
            lives_left: scenario.lives.saturating_sub(1),
            psns,
            incarnation: START,
            fates: vec![QpFate::default(); scenario.qps as usize],
            next_incarnation: Time::NEVER,
            arrived_by: START,
            abort_at: Time::NEVER,
            aborted: false,
            trace: std::env::var_os("TRACE").is_some(),
            restarts,
            operations,
            now: START,
            ends,
            events: BinaryHeap::new(),
            sent: 0,
            rng,
            expected: [0; 2],
            script: Script::default(),
            silenced: [None; 2],
            scenario,
        };
        world.meet();
        world.set_abort();
        world.post();
        world
    }

    /// Boxes with a tunnel have had time to find each other when traffic begins: without, hosts have to wait for UDP.
    fn meet(&mut self) {
        if self.scenario.tunnel != Tunnelling::No {
            self.now = BOXES_START;
            while self.next_event() < START {
                self.step();
            }
            self.now = START;
        }
    }

    pub(crate) fn post(&mut self) {
        for me in 0..2 {
            for q in 0..self.scenario.qps as usize {
                for id in 0..self.scenario.messages[me] {
                    let max = self.scenario.message_max;
                    let min = if self.scenario.fixed_length { max } else { 0 };
                    let len = self.rng.random_range(min..=max);
                    let (kind, len) = match self.rng.random::<f64>() - self.scenario.reads {
                        x if x < 0.0 => (WorkKind::Read, len),
                        x if x < self.scenario.atomics => {
                            (WorkKind::FetchAdd { add: 1 }, ATOMIC_LEN)
                        }
                        _ if self.rng.random() => (WorkKind::Send, len),
                        _ => (WorkKind::Write, len),
                    };
                    let end = &mut self.ends[me];
                    let work = WorkRequest { kind, len, id: u64::from(id) };
                    end.nic.post(end.qps[q], work, self.now).expect("a fresh QP takes work");
                    self.expected[me] += 1;
                }
            }
        }
    }

    /// Posts one more message at nic `me`, on the first queue pair.
    pub fn submit(&mut self, me: usize, kind: WorkKind, len: u32) {
        let end = &mut self.ends[me];
        let work = WorkRequest { kind, len, id: self.expected[me] };
        end.nic.post(end.qps[0], work, self.now).expect("the queue pair takes work");
        self.expected[me] += 1;
    }

    /// Sets the losses by choice from now on, in place of the script before.
    pub fn set_script(&mut self, script: Script) {
        self.script = script;
    }

    /// One past the newest PSN that nic `me` has sent on its first queue pair.
    pub fn next_psn(&self, me: usize) -> Psn {
        self.ends[me].next_psn()
    }

    /// A frame comes to switch `me` from the long-haul link, sent by nobody who is known.
    pub fn inject(&mut self, me: usize, frame: Vec<u8>) {
        self.sent += 1;
        self.events.push(Reverse((self.now, self.sent, Place::Switch(me, 1), frame)));
    }

    /// The outcome of the losses by choice.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Runs for `span`, also if all work is done.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        self.serve();
        while self.next_event() <= end {
            self.step();
        }
        self.now = end;
    }

    /// Runs until everything is delivered and the switches have settled, or
    /// until `limit`.
    ///
    /// # Panics
    /// If a message arrives twice, out of order or not intact, or a switch
    /// loses or invents a frame.
    pub fn run(&mut self, limit: Span) -> Outcome {
        let mut finished = None;
        while self.now < START + limit {
            self.step();
            let done = (0..2)
                .all(|me| self.ends[me].completed + self.ends[me].failed == self.expected[me]);
            if done && finished.is_none() {
                finished = Some(self.now.since(START));
            }
            if done && self.lives_left > 0 {
                finished = None;
                if self.next_incarnation == Time::NEVER {
                    self.end_incarnation();
                }
                continue;
            }
            let settled = self.next_event() == Time::NEVER;
            if settled
                || finished.is_some_and(|at| self.now > START + at + Span::from_millis(5_000))
            {
                break;
            }
        }
        self.check_sessions();
        self.check_frames();
        for end in &self.ends {
            let stats = end.nic.totals();
            assert_eq!(stats.requester.beyond_sent, 0, "an ACK of what was never sent");
            if self.scenario.reads == 0.0 && self.scenario.atomics == 0.0 {
                // The covered part of a READ, or of an ACK held back, has no MSN of
                // its own; RNICs don't look at it.
                assert_eq!(end.wrong_msn, 0, "an ACK or NAK with a wrong MSN");
            }
            // An old ACK among READ data ends a queue pair of rxe's, without
            // gateways too where the source repeats packets that were only late.
            if self.scenario.implied_nak == ImpliedNak::AnyGap {
                assert_eq!(stats.requester.unexpected, 0, "a response that nothing asked for");
            }
            assert_eq!(stats.responder.corrupt_bytes, 0, "a corrupt byte");
            assert_eq!(stats.requester.corrupt_bytes, 0, "a corrupt byte of a READ");
            assert_eq!(stats.requester.wrong_originals, 0, "an atomic was executed twice");
        }
        Outcome {
            finished,
            held: self.ends.iter().filter_map(|e| e.switch.as_ref()).map(Workers::held).sum(),
            failed: self.ends.iter().map(|e| e.failed).sum(),
            order: self.check_arrivals(),
            qps: self.fates.clone(),
        }
    }

    /// Prints the events of a run that is replayed.
    pub fn explain(&self) {
        for (me, end) in self.ends.iter().enumerate() {
            println!(
                "end {me}, box in run {}: {} completed, {} failed",
                end.boot, end.completed, end.failed
            );
            println!("  received {:?} of {:?}", end.received, self.expected);
            println!("  {:?}", end.nic.totals());
            for counters in end.switch.iter().flat_map(Workers::counters) {
                println!("  {:?}", nonzero(counters));
            }
        }
    }

    fn next_event(&self) -> Time {
        let mut next = self.events.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        for end in &self.ends {
            next = next.min(end.nic.next_deadline().unwrap_or(Time::NEVER));
            if let Some(switch) = &end.switch {
                next = next.min(switch.next_deadline());
            }
        }
        let restart = self.restarts.last().map_or(Time::NEVER, |(at, _)| *at);
        let operation = self.operations.last().map_or(Time::NEVER, |(at, ..)| *at);
        next.min(restart).min(operation).min(self.next_incarnation).min(self.abort_at)
    }

    fn step(&mut self) {
        self.now = self.now.max(self.next_event());
        if self.now == Time::NEVER {
            return;
        }
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= self.now
            && let Some(Reverse((_, _, place, bytes))) = self.events.pop()
        {
            if self.trace {
                println!("{:?} {place:?} {}", self.now, describe(&bytes));
            }
            match place {
                Place::Nic(_) if self.aborted => {}
                Place::Nic(me) => {
                    self.script.arrived(&bytes, self.now);
                    let is_of_nic = self.ends[1 - me].has_acked(&bytes);
                    let odd = self.ends[me].receives(&bytes, self.now, is_of_nic);
                    if let Some(odd) = odd.filter(|_| self.trace) {
                        println!("{:?} that was {odd}", self.now);
                    }
                }
                Place::Switch(1, 0) if self.scenario.asymmetric => {
                    self.transmit(1, WAN_OUT, Place::Nic(0), bytes);
                }
                Place::Switch(me, side) => {
                    let at = match side.checked_sub(1) {
                        None => (Side::Lan, Port::default()),
                        Some(port) => (Side::Wan, Port::new(port).expect("there are two")),
                    };
                    self.through_switch(me, at, HeapFrame::from(bytes));
                }
            }
        }
        while let Some((_, me)) = self.restarts.pop_if(|(at, _)| *at <= self.now) {
            self.restart(me);
        }
        while let Some((_, me, seed)) = self.operations.pop_if(|(at, ..)| *at <= self.now) {
            self.operate(me, seed);
        }
        if self.now >= self.abort_at {
            self.abort();
        }
        if self.now >= self.next_incarnation {
            self.begin_incarnation();
        }
        self.serve();
    }

    fn serve(&mut self) {
        for me in 0..2 {
            self.serve_nic(me);
            self.serve_timers(me);
        }
    }

    fn serve_nic(&mut self, me: usize) {
        let now = self.now;
        self.ends[me].nic.on_timers(now);
        while let Some(frame) = self.ends[me].nic.poll_transmit(now, &mut HeapPool) {
            self.ends[me].sends(frame.bytes());
            self.arrived_by = now + self.scenario.flight();
            if self.next_incarnation != Time::NEVER {
                // It still answers repeated requests.
                self.next_incarnation = self.next_incarnation.max(self.arrived_by);
            }
            self.send(me, TO_SWITCH, frame.bytes().to_vec());
        }
        let end = &mut self.ends[me];
        while let Some(message) = end.nic.poll_received() {
            let q = message.qp.index();
            assert_eq!(message.corrupt_bytes, 0, "corrupt: {message:?}");
            assert_eq!(message.index, end.received[q], "out of order: {message:?}");
            end.received[q] += 1;
        }
        let mut completions = Vec::new();
        while let Some(completion) = end.nic.poll_completion() {
            completions.push(completion);
        }
        for completion in completions {
            if self.trace {
                println!("{now:?} {completion:?}");
            }
            let q = completion.qp.index();
            let fate = self.fates.len() - self.scenario.qps as usize + q;
            let fate = &mut self.fates[fate];
            fate.took = now.since(self.incarnation);
            if completion.status == Status::Ok {
                self.ends[me].completed += 1;
                if completion.work.kind.is_fetch() {
                    assert_eq!(completion.corrupt_bytes, 0, "corrupt: {completion:?}");
                    continue;
                }
                // A completion means delivery.
                let received = self.ends[1 - me].received[q];
                assert!(completion.index < received, "completed before delivery: {completion:?}");
            } else {
                if completion.status != Status::Flushed {
                    fate.died.get_or_insert(completion.status);
                }
                self.ends[me].failed += 1;
            }
        }
    }

    /// How long a frame that enters a link travels to its NIC.
    fn way(&self, me: usize, link: usize) -> Span {
        let delay = |me: usize, link: usize| self.ends[me].links[link].delay;
        match link {
            TO_SWITCH => delay(me, link) + delay(me, WAN_OUT) + delay(1 - me, TO_NIC),
            TO_NIC => delay(me, link),
            _ => delay(me, link) + delay(1 - me, TO_NIC),
        }
    }

    fn send(&mut self, me: usize, link: usize, bytes: Vec<u8>) {
        let place = match link {
            TO_SWITCH => Place::Switch(me, 0),
            TO_NIC => Place::Nic(me),
            _ => Place::Switch(1 - me, (1 + link - WAN_OUT) as u8),
        };
        let is_silenced =
            link == WAN_OUT && self.silenced[me].is_some_and(|what| what.takes(&bytes));
        if is_silenced
            || self.has_outage(link)
            || self.script.takes(segment(me, link), &bytes, self.now + self.way(me, link))
        {
            let fate = &mut self.ends[me].links[link].fate;
            fate.offer(&bytes);
            fate.lost += 1;
            return;
        }
        self.transmit(me, link, place, bytes);
    }

    /// Puts a frame on a link that ends at `place`.
    fn transmit(&mut self, me: usize, link: usize, place: Place, bytes: Vec<u8>) {
        let (events, sent) = (&mut self.events, &mut self.sent);
        let End { links, ring, .. } = &mut self.ends[me];
        let mut ring = ring.as_mut().filter(|_| link == TO_NIC);
        links[link].send(bytes, self.now, |at, bytes| {
            let taken = ring.as_mut().map_or(Some(at), |ring| ring.takes(at));
            if let Some(at) = taken {
                *sent += 1;
                events.push(Reverse((at, *sent, place, bytes)));
            }
        });
    }
}

/// Which segment a link is a direction of.
fn segment(me: usize, link: usize) -> Segment {
    match (link, me) {
        (WAN_OUT, _) => Segment::LongHaul,
        (_, 0) => Segment::SourceLan,
        _ => Segment::DestinationLan,
    }
}
