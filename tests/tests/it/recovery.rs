//! The time until a lost packet arrives all the same.
//!
//! One queue pair is warmed up; then a burst of packets follows, and of it one
//! chosen frame is lost, in some cases with the frame that would have repaired it. The
//! test measures the time from when the frame would have arrived at its NIC
//! to when a copy of it did: without gateways, and in two modes with them.
//! `docs/recovery.md` has the table that `--nocapture` prints, and the bounds.
//! `SEEDS=n` measures n paths per round-trip time.

use common::psn::Psn;
use common::time::Span;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::WorkKind;
use switch::Recovery;
use tests::Victim::{Ack, DepotNack, Nak, Request, Response};
use tests::{Loss, Scenario, Script, Segment, Victim, World, number};

/// Round trips of the long-haul link, in microseconds.
const RTTS: [u64; 4] = [500, 2_000, 10_000, 40_000];
/// The one whose times the table shows.
const SHOWN: usize = 2;
/// Messages before the burst: enough to pair the two directions and to let the
/// deviations of measured round trips settle.
const WARM_UP: u32 = 24;
/// Messages before the burst that use up the budget of early SYNCs. Time pays for a few more of them meanwhile.
const SPENDING: u32 = 120;
/// The switches' least `t_out`, where LANs are short.
const T_OUT: Span = Span::from_micros(500);
/// The least `tail_timeout`.
const TAIL_MIN: Span = Span::from_micros(100);
/// The source's timeout: exponent 14.
const TIMEOUT: Span = Span::from_nanos(4_096 << 14);

/// The content of the burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Writes,
    Reads,
}

/// Which packet of the burst is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    /// One that others follow.
    Middle,
    /// The last one.
    Last,
}

/// A path and its load.
#[derive(Clone, Debug)]
struct Path {
    /// Round trip of the long-haul link.
    rtt: Span,
    /// Round trip of either LAN.
    lan: Span,
    /// Time that a packet takes to leave the NIC.
    slot: Span,
    /// Packets of the burst.
    packets: u32,
    /// Packets per message of it.
    per_message: u32,
    /// The packet of it that is lost.
    lost: u32,
    /// From the warm-up's last message to the burst.
    pause: Span,
    scenario: Scenario,
}

impl Path {
    fn draw(seed: u64, rtt: Span, position: Position) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ rtt.as_nanos());
        let mut pick = |values: &[u32]| values[rng.random_range(0..values.len())];
        let pmtu = pick(&[1024, 4096]);
        let gigabits = pick(&[1, 10, 100]);
        let window = pick(&[256, 512, 2048]);
        let ack_req_every = pick(&[8, 32, 64]);
        let per_message = pick(&[1, 5, 16, 64]);
        let lan = Span::from_nanos(rng.random_range(2_000..40_000));
        // Within the window, and READs within their limit of outstanding ones.
        let packets = rng.random_range(8..=120);
        let lost = match position {
            Position::Middle => rng.random_range(0..packets - 1),
            Position::Last => packets - 1,
        };
        let phase: u32 = match rng.random_range(0..3) {
            0 => Psn::MODULUS - rng.random_range(0..200),
            _ => rng.random(),
        };
        let rate = u64::from(gigabits) * 1_000_000_000;
        Self {
            rtt,
            lan,
            slot: Span::from_nanos((u64::from(pmtu) + 90) * 8 / u64::from(gigabits)),
            packets,
            per_message,
            lost,
            pause: rtt.scale(11, 10) + Span::from_nanos(rng.random_range(0..rtt.as_nanos())),
            scenario: Scenario {
                wan_delay: rtt / 2,
                lan_delay: lan / 2,
                rate,
                pmtu,
                window,
                ack_req_every,
                timeout: TIMEOUT,
                first_psn: Psn::new(phase % Psn::MODULUS),
                messages: [0, 0],
                ..Scenario::calm(seed, None)
            },
        }
    }

    fn tail_timeout(&self) -> Span {
        (self.rtt / 8).max(TAIL_MIN)
    }

    /// The time until the packet of `case` that is lost arrives.
    fn measure(&self, case: &Case, recovery: Option<Recovery>, warm_up: u32) -> Span {
        let mut world = World::new(Scenario { recovery, ..self.scenario.clone() });
        let interval = (self.rtt / 4).max(Span::from_millis(2));
        let mut rng = ChaCha8Rng::seed_from_u64(self.scenario.seed);
        for n in 0..warm_up {
            // The first one is of two packets: that tells the path MTU.
            let packets = if n == 0 { 1 } else { 0 };
            let len = packets * self.scenario.pmtu + rng.random_range(1..self.scenario.pmtu);
            world.submit(0, write_or_send(&mut rng), len);
            world.run_for(interval);
        }
        world.run_for(self.pause);
        let psn = self.scenario.first_psn.offset(warm_up + 1 + self.lost);
        let mut losses = (case.losses)(psn);
        if recovery.is_none() {
            // The destination's NAK tells the source.
            for loss in losses.iter_mut().filter(|loss| loss.what == DepotNack) {
                loss.what = Nak;
            }
        }
        world.set_script(Script::new(losses));
        let mut left = self.packets;
        // So many READs that they don't wait for each other.
        let per_message = match case.load {
            Load::Writes => self.per_message,
            Load::Reads => self.per_message.max(self.packets.div_ceil(15)),
        };
        while left > 0 {
            let packets = left.min(per_message);
            let kind = match case.load {
                Load::Writes => write_or_send(&mut rng),
                Load::Reads => WorkKind::Read,
            };
            world.submit(0, kind, packets * self.scenario.pmtu);
            left -= packets;
        }
        let outcome = world.run(Span::from_millis(60_000));
        assert!(
            outcome.finished.is_some() && outcome.failed == 0,
            "{outcome:?} {case:?} {self:#?}"
        );
        assert!(world.script().is_over(), "nothing was lost: {case:?} {recovery:?} {self:#?}");
        world.script().recovery().expect("it arrived in the end")
    }
}

fn write_or_send(rng: &mut impl Rng) -> WorkKind {
    if rng.random() { WorkKind::Send } else { WorkKind::Write }
}

/// By when the packet is to arrive on a path, if that is bounded at all.
type Limit = fn(&Path) -> Option<Span>;

/// A case of loss.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    load: Load,
    position: Position,
    /// The lost frames, if the packet in question has this PSN. The first one is
    /// waited for.
    losses: fn(Psn) -> Vec<Loss>,
    /// The promise, in words and numbers; `None`: only the source can
    /// know.
    promise: (&'static str, Limit),
    /// The addition of serialisation and LANs in `lr2` and `cached`.
    slack: [fn(&Path) -> Span; 2],
    /// Today's bound where that is not the promise; see docs/recovery.md.
    today: [Option<Limit>; 2],
    /// The promise while nothing pays for early SYNCs, if that is another.
    spent: Option<(&'static str, Limit)>,
}

fn lose<const N: usize>(losses: [(Segment, Victim); N]) -> Vec<Loss> {
    losses.map(|(on, what)| Loss { on, what }).into()
}

const SRC: Segment = Segment::SourceLan;
const WAN: Segment = Segment::LongHaul;
const DST: Segment = Segment::DestinationLan;

/// The packet that shows the loss has to leave the NIC, and the repair
/// has to queue.
fn frames(path: &Path) -> Span {
    path.slot * 3
}

/// A rewind of the source begins with the oldest packet that is not
/// acknowledged: the burst's first, at worst.
fn rewind(path: &Path) -> Span {
    frames(path) + path.slot * u64::from(path.lost)
}

/// The same, after a NAK that has to cross the source LAN.
fn rewind_and_lan(path: &Path) -> Span {
    rewind(path) + path.lan
}

fn two_rewinds(path: &Path) -> Span {
    rewind(path) * 2 + path.lan
}

/// Nothing is unanswered before a packet asks for a response.
fn next_request(path: &Path) -> Span {
    frames(path) + path.slot * u64::from(path.scenario.ack_req_every.min(path.packets))
}

/// A responder sends requested data before it sends it again.
fn rest_of_reads(path: &Path) -> Span {
    frames(path) + path.lan * 2 + path.slot * u64::from(path.packets - path.lost)
}

/// The source's timeout begins anew with all that it is sent meanwhile, even if
/// it ignores it: at the latest when the Depot gives up, and lets the
/// destination's NAK go on, and repeats it.
fn put_off(path: &Path) -> Span {
    TIMEOUT + (path.rtt * 6).max(Span::from_millis(20)) + path.rtt * 6
}

/// A quarter more than a round trip.
fn quarter_more(rtt: Span) -> Span {
    rtt.scale(5, 4)
}

const LAN: (&str, Limit) = ("1.25 LAN round trips", |path| Some(quarter_more(path.lan)));
const LAN_AND_T_OUT: (&str, Limit) =
    ("1.25 LAN round trips + `t_out`", |path| Some(quarter_more(path.lan) + T_OUT));
/// A timeout of the Depot resends the oldest packet, not the range (decision 29): the response
/// to that may only move `acked` to the packet that was lost, which the second timeout, after
/// twice the time, resends.
fn after_two_timeouts(path: &Path) -> Option<Span> {
    Some(quarter_more(path.lan) * 2 + T_OUT * 3)
}
const LAN_AND_RTT: (&str, Limit) =
    ("1.25 LAN round trips + 1 RTT", |path| Some(quarter_more(path.lan) + path.rtt));
const RTT: (&str, Limit) = ("1.25 RTT", |path| Some(quarter_more(path.rtt)));
const RTT_AND_RTT: (&str, Limit) =
    ("1.25 RTT + 1 RTT", |path| Some(quarter_more(path.rtt) + path.rtt));
const RTT_AND_TAIL: (&str, Limit) =
    ("1.25 RTT + `tail_timeout`", |path| Some(quarter_more(path.rtt) + path.tail_timeout()));
/// The SYNC(tail) goes out when the ACK is late.
const LATER_TAIL: (&str, Limit) =
    ("2.5 RTT + `tail_timeout`", |path| Some(quarter_more(path.rtt) * 2 + path.tail_timeout()));
const LATER_TAIL_AND_LAN: (&str, Limit) = ("2.5 RTT + `tail_timeout` + 1 LAN round trip", |path| {
    Some(quarter_more(path.rtt) * 2 + path.tail_timeout() + path.lan)
});
const ACK: (&str, Limit) = ("1 RTT + `tail_timeout`", |path| Some(path.rtt + path.tail_timeout()));
const TIMEOUT_ONLY: (&str, Limit) = ("only the source can know", |_| None);

/// Most cases.
const PLAIN: Case = Case {
    name: "",
    load: Load::Writes,
    position: Position::Middle,
    losses: |_| Vec::new(),
    promise: TIMEOUT_ONLY,
    slack: [frames, frames],
    today: [None, None],
    spent: None,
};

const CASES: &[Case] = &[
    Case {
        name: "source LAN, others follow",
        losses: |p| lose([(SRC, Request(p))]),
        promise: LAN,
        slack: [rewind, rewind],
        ..PLAIN
    },
    Case {
        name: "long haul, others follow",
        losses: |p| lose([(WAN, Request(p))]),
        promise: RTT,
        slack: [rewind_and_lan, frames],
        ..PLAIN
    },
    Case {
        name: "destination LAN, others follow",
        losses: |p| lose([(DST, Request(p))]),
        promise: LAN,
        ..PLAIN
    },
    Case {
        name: "READ response, long haul, others follow",
        load: Load::Reads,
        losses: |p| lose([(WAN, Response(p))]),
        promise: RTT,
        slack: [rest_of_reads, frames],
        ..PLAIN
    },
    Case {
        name: "long haul, and the resend",
        losses: |p| lose([(WAN, Request(p)), (WAN, Request(p))]),
        promise: RTT_AND_RTT,
        slack: [rewind_and_lan, frames],
        ..PLAIN
    },
    Case {
        name: "long haul, and the Depot-NACK",
        losses: |p| lose([(WAN, Request(p)), (WAN, DepotNack)]),
        promise: RTT_AND_RTT,
        spent: Some(LATER_TAIL_AND_LAN),
        slack: [rewind_and_lan, frames],
        ..PLAIN
    },
    Case {
        name: "source LAN, and the resend",
        losses: |p| lose([(SRC, Request(p)), (SRC, Request(p))]),
        promise: LAN_AND_RTT,
        slack: [two_rewinds, two_rewinds],
        today: [Some(|path| Some(put_off(path))); 2],
        ..PLAIN
    },
    Case {
        name: "source LAN, and the Sentry's NAK",
        losses: |p| lose([(SRC, Request(p)), (SRC, Nak)]),
        promise: LAN_AND_RTT,
        slack: [rewind, rewind],
        today: [None; 2],
        ..PLAIN
    },
    Case {
        name: "destination LAN, and the resend",
        losses: |p| lose([(DST, Request(p)), (DST, Request(p))]),
        promise: LAN_AND_T_OUT,
        ..PLAIN
    },
    Case {
        name: "destination LAN, and its NAK",
        losses: |p| lose([(DST, Request(p)), (DST, Nak)]),
        promise: LAN_AND_T_OUT,
        slack: [next_request, next_request],
        today: [Some(after_two_timeouts); 2],
        ..PLAIN
    },
    Case {
        name: "tail, long haul",
        position: Position::Last,
        losses: |p| lose([(WAN, Request(p))]),
        promise: RTT_AND_TAIL,
        spent: Some(LATER_TAIL),
        slack: [rewind_and_lan, frames],
        ..PLAIN
    },
    Case {
        name: "tail, destination LAN",
        position: Position::Last,
        losses: |p| lose([(DST, Request(p))]),
        promise: LAN_AND_T_OUT,
        ..PLAIN
    },
    Case {
        name: "READ response, tail, long haul",
        load: Load::Reads,
        position: Position::Last,
        losses: |p| lose([(WAN, Response(p))]),
        promise: RTT_AND_TAIL,
        today: [Some(|_| None), None],
        ..PLAIN
    },
    Case {
        name: "last ACK, destination LAN",
        position: Position::Last,
        losses: |p| lose([(DST, Ack(p))]),
        promise: LAN_AND_T_OUT,
        ..PLAIN
    },
    Case {
        name: "last ACK, long haul",
        position: Position::Last,
        losses: |p| lose([(WAN, Ack(p))]),
        promise: ACK,
        spent: Some(RTT_AND_TAIL),
        ..PLAIN
    },
    Case {
        name: "last ACK, source LAN",
        position: Position::Last,
        losses: |p| lose([(SRC, Ack(p))]),
        ..PLAIN
    },
    Case {
        name: "tail, source LAN",
        position: Position::Last,
        losses: |p| lose([(SRC, Request(p))]),
        ..PLAIN
    },
];

/// Recovery times of one case and mode.
#[derive(Default)]
struct Times {
    /// Those of the round trip that the table shows.
    shown: Vec<Span>,
    /// The largest share of the promise that any of all took.
    worst: f64,
}

impl Times {
    /// Median, 95th percentile and maximum in milliseconds.
    fn show(&mut self) -> String {
        self.shown.sort_unstable();
        let ms = |percent: usize| {
            let rank = (self.shown.len() * percent).div_ceil(100).max(1);
            self.shown[rank - 1].as_secs_f64() * 1e3
        };
        format!("{:.2} / {:.2} / {:.2}", ms(50), ms(95), ms(100))
    }

    /// The worst share of the promise, if there is one.
    fn share(&self) -> String {
        if self.worst == 0.0 { "–".into() } else { format!("{:.2}", self.worst) }
    }
}

/// Measures one case on one path, and compares it with the bound.
fn check(case: &Case, path: &Path, warm_up: u32, is_shown: bool, times: &mut [Times; 3]) {
    let plain = path.measure(case, None, warm_up);
    let mut modes = times.iter_mut();
    let mut take = |time: Span| {
        let of_mode = modes.next().expect("one per mode");
        if is_shown {
            of_mode.shown.push(time);
        }
        of_mode
    };
    take(plain);
    for (mode, recovery) in [Recovery::Lr2, Recovery::Cached].into_iter().enumerate() {
        let time = path.measure(case, Some(recovery), warm_up);
        let of_mode = take(time);
        let slack = case.slack[mode](path);
        let promise = case.promise.1(path);
        if let Some(promise) = promise {
            let share = time.as_secs_f64() / (promise + slack).as_secs_f64();
            of_mode.worst = of_mode.worst.max(share);
        }
        let limit = match case.today[mode] {
            Some(today) => today(path).unwrap_or(plain),
            // Nor is it ever later than without gateways.
            None => promise.map_or(plain, |promise| promise.min(plain)),
        } + slack;
        assert!(
            time <= limit,
            "{}, {recovery:?}: {time:?}, limit {limit:?}, without gateways {plain:?}\n{path:#?}",
            case.name
        );
    }
}

/// Measures all `cases` after `warm_up` messages, on `seeds` paths for each round trip.
fn measure(cases: &[Case], seeds: u64, warm_up: u32) {
    println!("| lost | promised | no gateways | `lr2` | `cached` | worst, of promise |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for case in cases {
        let mut times = <[Times; 3]>::default();
        for (at, rtt) in RTTS.into_iter().enumerate() {
            for seed in 0..seeds {
                let path = Path::draw(seed, Span::from_micros(rtt), case.position);
                check(case, &path, warm_up, at == SHOWN, &mut times);
            }
        }
        let shares = [times[1].share(), times[2].share()].join(", ");
        let shown = times.map(|mut of_mode| of_mode.show()).join(" | ");
        println!("| {} | {} | {shown} | {shares} |", case.name, case.promise.0);
    }
}

#[test]
fn what_is_lost_arrives_in_time() {
    measure(CASES, number("SEEDS").unwrap_or(25), WARM_UP);
}

/// A queue pair that has sent a packet now and then for so long that nothing pays for early SYNCs any more.
// R-MSG-7
#[test]
fn what_is_lost_after_the_budget_is_spent_arrives_in_time() {
    let spent = |case: &Case| Case { promise: case.spent.unwrap_or(case.promise), ..*case };
    let cases: Vec<_> = CASES.iter().map(spent).collect();
    measure(&cases, number("SEEDS").unwrap_or(8), SPENDING);
}
