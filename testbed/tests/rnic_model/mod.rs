//! Two models of RNICs with a [`Checker`] between them, on virtual time.

mod deviation;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use self::deviation::Deviation;
use self::deviation::Memory;
use common::frame::Frame;
use common::heap::{HeapFrame, HeapPool};
use common::time::{Span, Time};
use common::wire::{Qpn, parse};
use rnic::{Nic, NicConfig, QpConfig, QpId, Status, WorkKind, WorkRequest, lab_ip};
use testbed::rnic_check::{Checker, Config, Done, End, Event, Ledger, Name};

/// The time between two looks at the checker's timers.
const TICK: Span = Span::from_micros(50);
/// A run is at its end by then.
const LONGEST: Span = Span::from_millis(120_000);

/// The work of the requester, at A.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub kind: WorkKind,
    pub len: u32,
    /// Work requests outstanding.
    pub at_once: usize,
}

/// A frame on its way.
struct Flying {
    at: Time,
    number: u64,
    /// To the checker from this end; or from it to this end.
    to_checker: bool,
    end: End,
    frame: HeapFrame,
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub struct World {
    now: Time,
    nics: [Nic; 2],
    qp: QpId,
    /// More queue pairs with the same load, and the same PSNs.
    twins: Vec<QpId>,
    load: Load,
    checker: Checker<HeapFrame>,
    flying: BinaryHeap<Reverse<Flying>>,
    number: u64,
    delay: Span,
    deviation: Option<Deviation>,
    memory: Memory,
    posted: u64,
    failed: u64,
}

impl World {
    /// Checks of this name, with a load from A to B, and queue pairs that `change` has changed.
    pub fn new(names: &[Name], load: Load, change: impl Fn(&mut QpConfig)) -> Self {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let nic = |host: usize| {
            let mut config = NicConfig::new(macs[host], lab_ip(host as u8 + 1));
            config.rate = Some(2_000_000_000);
            Nic::new(config)
        };
        let mut nics = [nic(0), nic(1)];
        let qpns = [Qpn::new(0x11), Qpn::new(0x22)];
        let mut qps = [0, 1].map(|host: usize| {
            let other = 1 - host;
            let mut config =
                QpConfig::new(qpns[host], qpns[other], macs[other], lab_ip(other as u8 + 1));
            // Hardware keeps more in flight than Soft-RoCE, and asks for ACKs seldom.
            config.window = 256;
            change(&mut config);
            nics[host].add_qp(config).expect("a right configuration")
        });
        qps.reverse();
        let config = Config {
            checks: names.to_vec(),
            hold: Span::from_millis(5),
            wait: Span::from_millis(2_000),
        };
        Self {
            now: Time::ZERO,
            nics,
            qp: qps[1],
            twins: Vec::new(),
            load,
            checker: Checker::new(config, Time::ZERO),
            flying: BinaryHeap::new(),
            number: 0,
            delay: Span::from_micros(5),
            deviation: None,
            memory: Memory::default(),
            posted: 0,
            failed: 0,
        }
    }

    /// One more queue pair, at the same PSNs from the start.
    pub fn twin(&mut self) {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let qpns = [Qpn::new(0x33), Qpn::new(0x44)];
        for host in [1, 0] {
            let other = 1 - host;
            let config =
                QpConfig::new(qpns[host], qpns[other], macs[other], lab_ip(other as u8 + 1));
            let qp = self.nics[host].add_qp(config).expect("a right configuration");
            if host == 0 {
                self.twins.push(qp);
            }
        }
    }

    pub fn deviate(&mut self, deviation: Deviation) {
        self.deviation = Some(deviation);
    }

    /// From a host to the checker.
    pub fn delay(&mut self, delay: Span) {
        self.delay = delay;
    }

    pub fn results(&self) -> &[Done] {
        self.checker.results()
    }

    pub fn ledgers(&self) -> [Ledger; 2] {
        self.checker.ledgers()
    }

    /// Until all checks have ended.
    pub fn run(&mut self) {
        while !self.checker.is_done() {
            self.step();
        }
        let ends = std::iter::from_fn(|| self.checker.next_event());
        let ended = ends.filter(|event| matches!(event, Event::Ends(_))).count();
        assert_eq!(ended, self.results().len());
    }

    /// Until so many checks have ended.
    pub fn run_until_ended(&mut self, checks: usize) {
        while self.results().len() < checks {
            self.step();
        }
    }

    /// For a while.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
    }

    /// After a pause the queue pairs' numbers are used again, from this PSN on.
    pub fn use_again(&mut self, psn: u32) {
        let at_once = std::mem::take(&mut self.load.at_once);
        self.run_for(Span::from_millis(1_000));
        let psn = common::psn::Psn::new(psn);
        for nic in &mut self.nics {
            nic.reset_qp(QpId::new(0), psn, psn, self.now);
        }
        self.load.at_once = at_once;
    }

    /// Until a check has dropped so many responses; then no more work is posted.
    pub fn end_traffic_after(&mut self, dropped: u64) {
        while self.ledgers()[End::B.index()].dropped < dropped {
            self.step();
        }
        self.load.at_once = 0;
    }

    /// Until a packet is held.
    pub fn run_until_held(&mut self) {
        while self.ledgers().iter().all(|ledger| ledger.held == 0) {
            self.step();
        }
    }

    /// Until traffic is awaited; then it is said that none will come.
    pub fn stop_waiting(&mut self) {
        while self.checker.next_event().is_none() {
            self.step();
        }
        self.checker.stop_waiting();
        self.step();
    }

    pub fn stop(&mut self) {
        self.checker.stop(self.now);
        assert!(self.checker.is_done());
    }

    /// All work completes once no more is posted, with the right bytes, and all frames are accounted for.
    pub fn is_intact(&mut self) {
        self.load.at_once = 0;
        let end = self.now + Span::from_millis(5_000);
        while self.now < end && (self.nics[0].pending(self.qp) > 0 || !self.flying.is_empty()) {
            self.step();
        }
        assert_eq!((self.nics[0].pending(self.qp), self.failed), (0, 0));
        for nic in &self.nics {
            let totals = nic.totals();
            assert_eq!(totals.requester.corrupt_bytes + totals.responder.corrupt_bytes, 0);
            assert_eq!(totals.requester.wrong_originals + totals.responder.refused, 0);
        }
        for ledger in self.ledgers() {
            let accounted = ledger.forwarded + ledger.dropped + ledger.held;
            assert_eq!((ledger.received, ledger.held), (accounted, 0));
        }
    }

    /// Frames that are no RoCE, or of a queue pair that is not tried, leave byte for byte.
    pub fn strangers_pass(&mut self) {
        let frames: Vec<Vec<u8>> = (0..100_usize).map(|n| vec![n as u8; 14 + n]).collect();
        for frame in &frames {
            self.checker.on_frame(End::B, HeapFrame::from(frame.clone()), self.now, &mut HeapPool);
            let (to, passed) = self.checker.next_frame().expect("forwarded at once");
            assert_eq!((to, passed.bytes()), (End::A, &frame[..]));
        }
    }

    fn step(&mut self) {
        assert!(self.now < Time::ZERO + LONGEST, "{:#?}", self.checker.results());
        let due = [
            self.flying.peek().map(|Reverse(flying)| flying.at),
            self.nics[0].next_deadline(),
            self.nics[1].next_deadline(),
            Some(self.now + TICK),
        ];
        self.now = due.into_iter().flatten().min().unwrap_or(self.now).max(self.now);
        while self.flying.peek().is_some_and(|Reverse(flying)| flying.at <= self.now) {
            let Some(Reverse(flying)) = self.flying.pop() else { break };
            self.arrive(flying);
        }
        self.checker.on_time(self.now, &mut HeapPool);
        self.drain();
        for end in End::BOTH {
            self.post();
            let nic = &mut self.nics[end.index()];
            nic.on_timers(self.now);
            while let Some(frame) = self.nics[end.index()].poll_transmit(self.now, &mut HeapPool) {
                if let Some(frame) = self.sends(end, frame) {
                    self.fly(true, end, frame);
                }
            }
            while let Some(completion) = self.nics[end.index()].poll_completion() {
                self.failed += u64::from(completion.status != Status::Ok);
                assert_eq!(completion.corrupt_bytes, 0);
            }
            while self.nics[end.index()].poll_received().is_some() {}
        }
    }

    fn post(&mut self) {
        for qp in self.twins.iter().copied().chain([self.qp]) {
            while self.nics[0].pending(qp) < self.load.at_once {
                let work =
                    WorkRequest { kind: self.load.kind, len: self.load.len, id: self.posted };
                if self.nics[0].post(qp, work, self.now).is_err() {
                    break;
                }
                self.posted += 1;
            }
        }
    }

    fn fly(&mut self, to_checker: bool, end: End, frame: HeapFrame) {
        let mut frame = frame;
        // What their ICRC is to them, another one is to all others.
        if self.deviation == Some(Deviation::OtherIcrc)
            && let Ok(roce) = parse(frame.bytes())
        {
            frame.bytes_mut()[roce.icrc_at()] ^= 0x5a;
        }
        self.number += 1;
        let at = self.now + self.delay;
        self.flying.push(Reverse(Flying { at, number: self.number, to_checker, end, frame }));
    }

    fn drain(&mut self) {
        while let Some((to, frame)) = self.checker.next_frame() {
            self.fly(false, to, frame);
        }
    }

    fn arrive(&mut self, flying: Flying) {
        let Flying { to_checker, end, frame, .. } = flying;
        if to_checker {
            self.checker.on_frame(end, frame, self.now, &mut HeapPool);
            return self.drain();
        }
        if !self.deviates(end, &frame) {
            self.nics[end.index()].receive(frame.bytes(), self.now);
        }
    }
}
