//! How long it takes until what was lost arrives all the same.
//!
//! One queue pair is warmed up; then a burst of packets follows, and of it one
//! chosen frame is lost, in some cases with what would have repaired it. What
//! is measured is the time from when the frame would have arrived at its NIC
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
use tests::{Loss, Scenario, Script, Segment, Victim, World};

/// Round trips of the long-haul link, in microseconds.
const RTTS: [u64; 4] = [500, 2_000, 10_000, 40_000];
/// The one whose times the table shows.
const SHOWN: usize = 2;
/// Without gateways, and the modes.
const MODES: [Option<Recovery>; 3] = [None, Some(Recovery::Lr2), Some(Recovery::Cached)];
/// Messages before the burst: enough to pair the two directions and to let the
/// deviations of measured round trips settle.
const WARM_UP: u32 = 24;
/// The switches' least `t_out`, where LANs are short.
const T_OUT: Span = Span::from_micros(500);
/// The least `tail_timeout`.
const TAIL_MIN: Span = Span::from_micros(100);
/// The source's timeout: exponent 14.
const TIMEOUT: Span = Span::from_nanos(4_096 << 14);

/// What the burst consists of.
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

/// A path, and what is sent over it.
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
        // Within the window, and READs within what may be outstanding of them.
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
    fn measure(&self, case: &Case, recovery: Option<Recovery>) -> Span {
        let mut world = World::new(Scenario { recovery, ..self.scenario.clone() });
        let interval = (self.rtt / 4).max(Span::from_millis(2));
        let mut rng = ChaCha8Rng::seed_from_u64(self.scenario.seed);
        for _ in 0..WARM_UP {
            world.submit(0, write_or_send(&mut rng), 1 + rng.random_range(0..self.scenario.pmtu));
            world.run_for(interval);
        }
        world.run_for(self.pause);
        let psn = self.scenario.first_psn.offset(WARM_UP + self.lost);
        let mut losses = (case.losses)(psn);
        if recovery.is_none() {
            // What tells the source is the destination's NAK.
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

/// A case of loss.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    load: Load,
    position: Position,
    /// What is lost, if the packet in question has this PSN. The first one is
    /// waited for.
    losses: fn(Psn) -> Vec<Loss>,
    /// What docs/recovery.md promises; `None`: only the source can know.
    bound: fn(&Path) -> Option<Span>,
    /// Whether the source is asked for it, in each mode.
    asks_source: [bool; 2],
}

fn lose<const N: usize>(losses: [(Segment, Victim); N]) -> Vec<Loss> {
    losses.map(|(on, what)| Loss { on, what }).into()
}

const SRC: Segment = Segment::SourceLan;
const WAN: Segment = Segment::LongHaul;
const DST: Segment = Segment::DestinationLan;

/// A quarter more than a round trip.
fn quarter_more(rtt: Span) -> Span {
    rtt.scale(5, 4)
}

const CASES: &[Case] = &[
    Case {
        name: "source LAN, others follow",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(SRC, Request(p))]),
        bound: |path| Some(quarter_more(path.lan)),
        asks_source: [true, true],
    },
    Case {
        name: "long haul, others follow",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(WAN, Request(p))]),
        bound: |path| Some(quarter_more(path.rtt)),
        asks_source: [true, false],
    },
    Case {
        name: "destination LAN, others follow",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(DST, Request(p))]),
        bound: |path| Some(quarter_more(path.lan)),
        asks_source: [false, false],
    },
    Case {
        name: "READ response, long haul, others follow",
        load: Load::Reads,
        position: Position::Middle,
        losses: |p| lose([(WAN, Response(p))]),
        bound: |path| Some(quarter_more(path.rtt)),
        asks_source: [true, false],
    },
    Case {
        name: "long haul, and the resend",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(WAN, Request(p)), (WAN, Request(p))]),
        bound: |path| Some(quarter_more(path.rtt) + path.rtt),
        asks_source: [true, false],
    },
    Case {
        name: "long haul, and the Depot-NACK",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(WAN, Request(p)), (WAN, DepotNack)]),
        bound: |path| Some(quarter_more(path.rtt) + path.rtt),
        asks_source: [true, false],
    },
    Case {
        name: "source LAN, and the resend",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(SRC, Request(p)), (SRC, Request(p))]),
        bound: |path| Some(quarter_more(path.lan) + path.rtt),
        asks_source: [true, true],
    },
    Case {
        name: "source LAN, and the Sentry's NAK",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(SRC, Request(p)), (SRC, Nak)]),
        bound: |path| Some(quarter_more(path.lan) + path.rtt),
        asks_source: [true, true],
    },
    Case {
        name: "destination LAN, and the resend",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(DST, Request(p)), (DST, Request(p))]),
        bound: |path| Some(quarter_more(path.lan) + T_OUT),
        asks_source: [false, false],
    },
    Case {
        name: "destination LAN, and its NAK",
        load: Load::Writes,
        position: Position::Middle,
        losses: |p| lose([(DST, Request(p)), (DST, Nak)]),
        bound: |path| Some(quarter_more(path.lan) + T_OUT),
        asks_source: [false, false],
    },
    Case {
        name: "tail, source LAN",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(SRC, Request(p))]),
        bound: |_| None,
        asks_source: [false, false],
    },
    Case {
        name: "tail, long haul",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(WAN, Request(p))]),
        bound: |path| Some(quarter_more(path.rtt) + path.tail_timeout()),
        asks_source: [true, false],
    },
    Case {
        name: "tail, destination LAN",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(DST, Request(p))]),
        bound: |path| Some(quarter_more(path.lan) + T_OUT),
        asks_source: [false, false],
    },
    Case {
        name: "READ response, tail, long haul",
        load: Load::Reads,
        position: Position::Last,
        losses: |p| lose([(WAN, Response(p))]),
        bound: |path| Some(quarter_more(path.rtt) + path.tail_timeout()),
        asks_source: [true, false],
    },
    Case {
        name: "last ACK, destination LAN",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(DST, Ack(p))]),
        bound: |path| Some(quarter_more(path.lan) + T_OUT),
        asks_source: [false, false],
    },
    Case {
        name: "last ACK, long haul",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(WAN, Ack(p))]),
        bound: |path| Some(path.rtt + path.tail_timeout()),
        asks_source: [false, false],
    },
    Case {
        name: "last ACK, source LAN",
        load: Load::Writes,
        position: Position::Last,
        losses: |p| lose([(SRC, Ack(p))]),
        bound: |_| None,
        asks_source: [false, false],
    },
];

/// Recovery times, sorted.
struct Times(Vec<Span>);

impl Times {
    /// The value that a share of `percent` does not exceed.
    fn percentile(&self, percent: usize) -> Span {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }

    fn show(&self) -> String {
        let ms = |percent| self.percentile(percent).as_secs_f64() * 1e3;
        format!("{:.2} / {:.2} / {:.2}", ms(50), ms(95), ms(100))
    }
}

#[test]
fn recovery_times() {
    let seeds = std::env::var("SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(5);
    println!("| lost | bound | no gateways | lr2 | cached | worst |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for case in CASES {
        let mut shown = Vec::new();
        let mut worst = [0.0_f64; 2];
        for recovery in MODES {
            for (at, rtt) in RTTS.iter().enumerate() {
                let mut times = Vec::new();
                for seed in 0..seeds {
                    let path = Path::draw(seed, Span::from_micros(*rtt), case.position);
                    let time = path.measure(case, recovery);
                    times.push(time);
                    if let (Some(mode), Some(bound)) = (recovery, (case.bound)(&path)) {
                        let mode = usize::from(mode == Recovery::Cached);
                        let rewind = if case.asks_source[mode] {
                            path.lan + path.slot * u64::from(path.lost)
                        } else {
                            Span::ZERO
                        };
                        let bound = bound + path.slot * 3 + rewind;
                        let share = time.as_secs_f64() / bound.as_secs_f64();
                        if share > 1.0 {
                            println!(
                                "OVER {} {recovery:?} seed {seed} {time:?} bound {bound:?} rtt {:?} lan {:?} slot {:?} lost {} of {} every {} window {}",
                                case.name,
                                path.rtt,
                                path.lan,
                                path.slot,
                                path.lost,
                                path.packets,
                                path.scenario.ack_req_every,
                                path.scenario.window
                            );
                        }
                        worst[mode] = worst[mode].max(share);
                    }
                }
                times.sort_unstable();
                if at == SHOWN {
                    shown.push(Times(times).show());
                }
            }
        }
        println!("| {} | | {} | {:.2} {:.2} |", case.name, shown.join(" | "), worst[0], worst[1]);
    }
}
