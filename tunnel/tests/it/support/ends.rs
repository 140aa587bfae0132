//! A receiver and a sender, each by itself, and what they do. Frames are numbers.

use common::time::{Span, Time};
use common::verdict::Tolerance;
use tunnel::message::{Probe, Report, Skip};
use tunnel::shim::Shim;
use tunnel::spray::Policy;
use tunnel::{
    Deliver, Health, Lane, Receiver, ReceiverConfig, Recover, Sender, SenderConfig, Session,
    Transmit, WireNumber,
};

pub const SESSION: Session = Session::new(1_000);
pub const FIRST: u32 = 1_000;

pub fn lane(n: u8) -> Lane {
    Lane::new(n).expect("a lane")
}

pub const fn ms(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

/// Both ends' actions. Frames are numbers.
#[derive(Default)]
pub struct Out {
    pub delivered: Vec<u32>,
    pub discarded: Vec<u32>,
    pub reports: Vec<Report>,
    pub sent: Vec<(Shim, u32)>,
    pub released: Vec<u32>,
    pub probes: Vec<Probe>,
    pub skips: Vec<Skip>,
    /// The lanes that SKIPs took.
    pub skips_via: Vec<Lane>,
    pub is_out_of_memory: bool,
}

impl Deliver<u32> for Out {
    fn deliver(&mut self, frame: u32) {
        self.delivered.push(frame);
    }

    fn discard(&mut self, frame: u32) {
        self.discarded.push(frame);
    }

    fn report(&mut self, report: Report) {
        self.reports.push(report);
    }
}

impl Transmit<u32> for Out {
    type Kept = u32;

    fn send(&mut self, shim: &Shim, _: u8, frame: u32) -> Option<u32> {
        self.sent.push((*shim, frame));
        (shim.is_kept && !self.is_out_of_memory).then_some(frame)
    }
}

impl Recover for Out {
    type Kept = u32;

    fn resend(&mut self, shim: &Shim, kept: &u32) -> bool {
        if !self.is_out_of_memory {
            self.sent.push((*shim, *kept));
        }
        !self.is_out_of_memory
    }

    fn release(&mut self, kept: u32) {
        self.released.push(kept);
    }

    fn probe(&mut self, probe: Probe) {
        self.probes.push(probe);
    }

    fn skip(&mut self, via: Lane, skip: Skip) {
        self.skips_via.push(via);
        self.skips.push(skip);
    }
}

/// One lane falls silent while another is heard, in each millisecond from `from` on, until it is suspect. Nothing is news.
/// Returns when it is.
pub fn fall_silent(
    sender: &mut Sender<u32>,
    (silent, heard): (Lane, Lane),
    from: u64,
    out: &mut Out,
) -> u64 {
    for at in from..from + 200 {
        let now = ms(at);
        sender.on_report(now, &Report { lane: heard, ..report(FIRST, &[]) }, out);
        sender.on_timer(now, out);
        if sender.health(silent) != Some(Health::Good) {
            return at;
        }
    }
    panic!("{silent:?} is not suspect 200 ms later");
}

/// Time passes until all frames have moved that are to move.
pub fn all_move(sender: &mut Sender<u32>, from: Time, out: &mut Out) {
    let mut now = from;
    while sender.deadline() <= now {
        sender.on_timer(now, out);
        now += Span::from_nanos(1);
    }
}

pub struct Test {
    pub config: ReceiverConfig,
    pub receiver: Receiver<u32>,
    pub out: Out,
}

impl Test {
    pub fn new(lanes: u8) -> Self {
        let config = ReceiverConfig {
            lanes,
            window: 1 << 16,
            waiting_max: 64,
            waiting_room: 64,
            give_up: Span::from_millis(100),
            report_interval: Span::from_millis(1),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        };
        Self { receiver: Receiver::new(&config, SESSION), config, out: Out::default() }
    }

    pub fn shim(lane: Lane, number: u32, predecessor: Option<u32>) -> Shim {
        Shim {
            lane,
            number: WireNumber(number),
            session: SESSION,
            predecessor: predecessor.map(|number| (lane, WireNumber(number))),
            original: None,
            is_kept: true,
            clear: 0,
        }
    }

    /// Frame `number` of lane 0 arrives, the one behind `predecessor`.
    pub fn frame(&mut self, now: Time, number: u32, predecessor: Option<u32>) {
        self.take(now, Self::shim(lane(0), number, predecessor), number);
    }

    pub fn take(&mut self, now: Time, shim: Shim, frame: u32) {
        self.receiver.on_frame(&self.config, now, &shim, false, frame, &mut self.out);
        assert!(self.receiver.is_balanced(), "{:?}", self.receiver.counts());
    }

    /// What was delivered since the last time.
    pub fn delivered(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.out.delivered)
    }
}

pub fn sender(cache_max: usize) -> (SenderConfig, Sender<u32>, Out) {
    let config = SenderConfig {
        lanes: 1,
        rtt: Span::from_millis(10),
        cache_max,
        give_up: Span::from_millis(400),
        ports: 1,
        spray: Policy::default(),
        resend_copies: 2,
    };
    (config.clone(), Sender::new(&config, SESSION), Out::default())
}

pub fn report(next: u32, missing: &[(u32, u32)]) -> Report {
    let missing = missing.iter().map(|(start, count)| (WireNumber(*start), *count)).collect();
    Report {
        lane: lane(0),
        from: None,
        next: WireNumber(next),
        frames: 0,
        marked: 0,
        echo: None,
        missing,
    }
}
