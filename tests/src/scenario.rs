//! The parameters of a run, drawn from its seed.

use common::allowance::Allowance;
use common::control::{BootId, Keys};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::verdict::Tolerance;
use common::wire::Spread;
use rand::{Rng, RngExt};
use rnic::{ImpliedNak, PartialRead, ReceiveQueue, RetryLimit, SecondNak, WIRE_OVERHEAD};
use switch::{Config, Recovery, Tuning};
use tunnel::{Division, Part};

use crate::end::FIRST_BOOT;
use crate::host::SlowHost;
use crate::link::Impairment;
use crate::sweep::number;
use crate::tunnel::{RECORDS, Tunnelling, tunnel_end};
use crate::underlay::Underlay;
use crate::workers::{Workers, node_of_worker};
use crate::world::{Outcome, World};

/// Bytes of a data packet besides its payload: Ethernet, IPv4, UDP, BTH, ICRC.
const HEADERS: u64 = 14 + 20 + 8 + 12 + 4;

/// Everything about a run but its random choices.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Of all random choices.
    pub seed: u64,
    /// How the switches repair losses; `None`: there are no switches.
    pub recovery: Option<Recovery>,
    /// Whether the boxes have a tunnel between them.
    pub tunnel: Tunnelling,
    /// The network under it.
    pub underlay: Underlay,
    /// One-way delay of the long-haul link.
    pub wan_delay: Span,
    /// One-way delay of the LANs.
    pub lan_delay: Span,
    /// Impairments of the long-haul link, from nic 0 to nic 1 and back.
    pub wan: [Impairment; 2],
    /// Impairments of the LAN of nic 0, towards the switch and back.
    pub lan0: [Impairment; 2],
    /// Impairments of the LAN of nic 1, towards the nic and back.
    pub lan1: [Impairment; 2],
    /// Frames of nic 1 reach nic 0 by another path, on which there is no switch.
    pub asymmetric: bool,
    /// How fast both hosts take packets; `None`: at any rate.
    pub host: Option<SlowHost>,
    /// Rate of both NICs in bit/s.
    pub rate: u64,
    /// Queue pairs.
    pub qps: u32,
    /// Pairs of addresses that they belong to in turn.
    pub hosts: u8,
    /// Workers of the two boxes, powers of two. With a tunnel, there are as many tunnels as the box with more has workers, and
    /// a box that starts again has the other one's number.
    pub workers: [u32; 2],
    /// All start at PSN 0, as those of NCCL do.
    pub zero_psn: bool,
    /// First PSN of nic 0 on QP 0, unless `zero_psn`.
    pub first_psn: Psn,
    /// Messages per QP and direction (none back if 0), and their largest size.
    pub messages: [u32; 2],
    /// Longest message in bytes.
    pub message_max: u32,
    /// Share of the work that is READs.
    pub reads: f64,
    /// Share of the work that is atomics.
    pub atomics: f64,
    /// Receive buffers for SENDs and how soon one comes back; without, there
    /// are always enough.
    pub receive_queue: Option<ReceiveQueue>,
    /// Timeouts at 2, 4, 8 ms on any path.
    pub adaptive_retransmission: bool,
    /// How requesters notice missing READ data.
    pub implied_nak: ImpliedNak,
    /// How responders answer a part of a READ.
    pub partial_read: PartialRead,
    /// All messages are of the largest size.
    pub fixed_length: bool,
    /// Path MTU.
    pub pmtu: u32,
    /// Requester window in PSNs.
    pub window: u32,
    /// AckReq at least this often.
    pub ack_req_every: u32,
    /// Retransmission timeout of the RNICs.
    pub timeout: Span,
    /// And how often.
    pub retry: RetryLimit,
    /// And how often after an RNR NAK.
    pub rnr_retry: RetryLimit,
    /// How requesters take second NAKs.
    pub second_nak: SecondNak,
    /// The switches' assumption of the round trip until they measured it.
    pub rtt_guess: Span,
    /// When a missing packet counts as lost.
    pub tolerance: Tolerance,
    /// Messages a second that the switches may send though nothing suggests that
    /// they are needed.
    pub early_per_second: u32,
    /// Frames that the reordering pool may hold.
    pub reorder_pool_frames: u64,
    /// Frames that the resend cache may hold.
    pub resend_cache_frames: u64,
    /// Frames that the backup pool may hold.
    pub backup_pool_frames: u64,
    /// How long the network misbehaves.
    pub adverse_for: Span,
    /// When which switch is killed and started again, from the start on. Its
    /// held frames are gone.
    pub restarts: Vec<(Span, usize)>,
    /// When the operator of which switch does something, with the seed of what.
    pub operations: Vec<(Span, usize, u64)>,
    /// Lives of each queue pair: when everything is done, it is reset and used
    /// again, with PSNs near the old ones.
    pub lives: u32,
    /// The first PSNs of the later incarnations.
    pub next_psns: NextPsns,
    /// Every incarnation but the last is broken off after this long, also with work
    /// outstanding.
    pub abort_after: Option<Span>,
    /// Time between two lives.
    pub pause: Span,
}

/// The PSNs with which a queue pair's next incarnation begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextPsns {
    /// Those of the first incarnation, some near them, or any.
    Various,
    /// Those of the first incarnation.
    Same,
    /// So many before those of the incarnation before.
    Behind(u32),
}

impl Scenario {
    /// A clean 10 ms path at 1 Gbit/s and one QP.
    pub fn calm(seed: u64, recovery: Option<Recovery>) -> Self {
        Self {
            seed,
            recovery,
            tunnel: Tunnelling::No,
            underlay: Underlay::default(),
            wan_delay: Span::from_millis(5),
            lan_delay: Span::from_micros(5),
            wan: [Impairment::default(); 2],
            lan0: [Impairment::default(); 2],
            lan1: [Impairment::default(); 2],
            asymmetric: false,
            host: None,
            rate: 1_000_000_000,
            qps: 1,
            hosts: 1,
            workers: [1; 2],
            zero_psn: false,
            first_psn: Psn::new(0x00ff_fe00),
            messages: [50, 0],
            message_max: 65_536,
            reads: 0.0,
            atomics: 0.0,
            receive_queue: None,
            adaptive_retransmission: false,
            implied_nak: ImpliedNak::AnyGap,
            partial_read: PartialRead::Continued,
            fixed_length: false,
            pmtu: 4096,
            window: 2048,
            ack_req_every: 64,
            timeout: Span::from_millis(67),
            retry: RetryLimit::Infinite,
            rnr_retry: RetryLimit::Infinite,
            second_nak: SecondNak::IgnoreUntilAck,
            rtt_guess: Span::from_millis(10),
            tolerance: Tolerance::default(),
            early_per_second: Tuning::default().early_per_second,
            reorder_pool_frames: 1 << 16,
            resend_cache_frames: 1 << 16,
            backup_pool_frames: 1 << 16,
            adverse_for: Span::from_millis(3_600_000),
            restarts: Vec::new(),
            operations: Vec::new(),
            lives: 1,
            next_psns: NextPsns::Various,
            abort_after: None,
            pause: Span::ZERO,
        }
    }

    /// WRITEs of 64 KiB over 20 ms with random loss, by NICs like rxe's.
    pub fn writes(seed: u64, recovery: Option<Recovery>, loss: f64) -> Self {
        Self {
            wan: [Impairment::lossy(loss); 2],
            wan_delay: Span::from_millis(10),
            fixed_length: true,
            pmtu: 1024,
            window: 128,
            timeout: Span::from_millis(536),
            retry: RetryLimit::as_rxe(7),
            rtt_guess: Span::from_millis(20),
            ..Self::calm(seed, recovery)
        }
    }

    /// Requesters that give up after seven tries.
    pub fn seven_tries(seed: u64, recovery: Option<Recovery>, rng: &mut impl Rng) -> Self {
        Self {
            pmtu: 1024,
            window: [128, 1024][rng.random_range(0..2)],
            ack_req_every: [16, 64][rng.random_range(0..2)],
            timeout: Span::from_millis(67),
            retry: RetryLimit::Count(7),
            rtt_guess: Span::from_millis(2),
            ..Self::calm(seed, recovery)
        }
    }

    /// Runs it. Returns the seconds until all is done, and the gaps that the Depot saw and those
    /// that it gave up.
    ///
    /// # Panics
    /// If it doesn't end.
    pub fn gaps(self) -> (f64, u64, u64) {
        let mut world = World::new(self);
        let took = world.run(Span::from_millis(600_000)).finished.expect("it ends");
        let sum = |metric| world.counters(1).map(|counters| counters.get(metric)).sum();
        (took.as_secs_f64(), sum(Metric::GapsSeen), sum(Metric::GapsGivenUp))
    }

    /// Runs it. With `SEED` in the environment, prints what happened.
    ///
    /// # Panics
    /// If it doesn't end within `limit`, or the switches hold frames at its end.
    pub fn outcome(&self, limit: Span) -> Outcome {
        let mut world = World::new(self.clone());
        let outcome = world.run(limit);
        if number("SEED").is_some() {
            println!("{self:#?}");
            world.explain();
        }
        assert!(outcome.finished.is_some(), "no end: {outcome:?}\n{self:#?}");
        assert_eq!(outcome.held, 0, "frames are left: {self:#?}");
        outcome
    }

    /// Time that a data packet of full size takes to leave a NIC.
    pub(crate) fn slot(&self) -> Span {
        let bytes = u64::from(self.pmtu) + HEADERS + WIRE_OVERHEAD;
        Span::from_nanos(bytes * 8 * 1_000_000_000 / self.rate)
    }

    /// Longest time that a frame travels from NIC to NIC, if no switch holds it.
    pub(crate) fn flight(&self) -> Span {
        let second = self.underlay.second.as_ref().filter(|_| self.tunnel != Tunnelling::No);
        let segments = [self.lan0, self.wan, self.lan1];
        let segments = segments.iter().chain(second.map(|path| &path.impairments)).flatten();
        let late = segments.map(|segment| segment.reorder_by).max().unwrap_or_default();
        let long_haul = self.wan_delay.max(second.map_or(Span::ZERO, |path| path.delay));
        long_haul + (self.lan_delay + late) * 2
    }

    /// The switch of end `me` in its run `boot`, if there is one.
    pub(crate) fn switch(&self, me: usize, boot: BootId, keys: Keys) -> Option<Workers> {
        let config = Config {
            keys: keys.clone(),
            records: RECORDS,
            reorder_pool_frames: self.reorder_pool_frames,
            resend_cache_frames: self.resend_cache_frames,
            backup_pool_frames: self.backup_pool_frames,
            tuning: Tuning {
                rtt_guess: self.rtt_guess,
                tolerance: self.tolerance,
                early_per_second: self.early_per_second,
                ..Tuning::default()
            },
            ..Config::lab(self.recovery?, me as u32 + 1, boot)
        };
        let which = match self.tunnel {
            Tunnelling::No => return Some(Workers::switches(self.workers[me], &config)),
            Tunnelling::Alone => None,
            Tunnelling::WithLanRepair(which) => Some(which),
        };
        let rtt = (self.wan_delay * 2).max(Span::from_micros(200));
        let end = |part: Part| {
            let node = node_of_worker(&config, part.index().into());
            let lan = which.map(|which| (Config { node, ..config.clone() }, which));
            tunnel_end((me, part), boot, keys.clone(), (&self.underlay, rtt), lan)
        };
        let count = self.workers[if boot == FIRST_BOOT { me } else { 1 - me }];
        let wan = self.underlay.encapsulations(me, Part::WHOLE);
        Some(Workers::tunnels(count, (self.division(), wan), end))
    }

    /// How flows are divided into tunnels.
    pub(crate) fn division(&self) -> Division {
        let spread = if self.seed.is_multiple_of(2) { Spread::Rss } else { Spread::Mixed };
        let tunnels = self.workers[0].max(self.workers[1]);
        Division::new(tunnels as u8, spread).expect("a power of two")
    }

    /// Any path, load and mode, with everything that networks may do: loss at
    /// random and in bursts, reordering, duplication, corruption, on every
    /// segment, control messages included; boxes that are killed; queue pair
    /// numbers that are used again.
    pub fn adverse(seed: u64, recovery: Option<Recovery>, rng: &mut impl Rng) -> Self {
        let wan = [Impairment::of_long_haul(rng), Impairment::of_long_haul(rng)];
        let mut pick = |values: &[f64]| values[rng.random_range(0..values.len())];
        let quiet = pick(&[0.0, 0.0, 0.1, 1.0]);
        let mut segment = |worst: f64| Impairment {
            loss: pick(&[0.0, 0.01, 0.04]) * worst,
            burst_start: pick(&[0.0, 0.0, 0.001]) * worst,
            burst: pick(&[2.0, 8.0]),
            duplicate: pick(&[0.0, 0.01]) * worst,
            corrupt: pick(&[0.0, 0.0, 0.002]) * worst,
            ..Impairment::default()
        };
        let lan0 = [segment(quiet), segment(quiet)];
        let lan1 = [segment(quiet), segment(quiet)];
        let adverse_for = Span::from_millis(rng.random_range(50..2_000));
        let kills = [0, 0, 0, 1, 3][rng.random_range(0..5)];
        let mut restarts: Vec<(Span, usize)> = (0..kills)
            .map(|_| {
                let at = rng.random_range(0..adverse_for.as_nanos());
                (Span::from_nanos(at), rng.random_range(0..2))
            })
            .collect();
        if kills > 0 && rng.random_bool(0.3) {
            // Both at once.
            let (at, me) = restarts[0];
            restarts.push((at, 1 - me));
        }
        let qps = [1, 1, 2, 3, 4, 8, 16, 64][rng.random_range(0..8)];
        // The same work for few queue pairs and for many.
        let share = |messages: u32| (messages * 4 / (qps + 3)).max(2);
        let mut scenario = Self {
            wan_delay: Span::from_micros(rng.random_range(50..5_000)),
            lan_delay: Span::from_micros(rng.random_range(1..20)),
            wan,
            lan0,
            lan1,
            rate: [100_000_000, 1_000_000_000, 10_000_000_000][rng.random_range(0..3)],
            qps,
            zero_psn: rng.random_bool(0.5),
            first_psn: Psn::new(rng.random_range(0..Psn::MODULUS)),
            messages: [
                share(rng.random_range(5..40)),
                if rng.random_bool(0.4) { share(10) } else { 0 },
            ],
            reads: [0.0, 0.0, 0.3, 1.0][rng.random_range(0..4)],
            atomics: [0.0, 0.0, 0.3][rng.random_range(0..3)],
            receive_queue: rng.random_bool(0.15).then(|| ReceiveQueue {
                depth: rng.random_range(1..8),
                refill: Some(Span::from_micros(rng.random_range(10..3_000))),
                rnr_timer: rng.random_range(1..16),
            }),
            adaptive_retransmission: rng.random_bool(0.15),
            implied_nak: [ImpliedNak::AnyGap, ImpliedNak::LaterRequest][rng.random_range(0..2)],
            partial_read: [PartialRead::Continued, PartialRead::Anew][rng.random_range(0..2)],
            message_max: [100, 5_000, 40_000][rng.random_range(0..3)],
            pmtu: [256, 1024, 4096][rng.random_range(0..3)],
            window: [66, 128, 512, 2048][rng.random_range(0..4)],
            ack_req_every: [8, 32, 64][rng.random_range(0..3)],
            timeout: Span::from_millis(rng.random_range(20..70)),
            retry: RetryLimit::Count(7),
            rnr_retry: RetryLimit::Count([3, 7, 7][rng.random_range(0..3)]),
            second_nak: if rng.random_bool(0.8) {
                SecondNak::IgnoreUntilAck
            } else {
                SecondNak::Obey
            },
            rtt_guess: Span::from_micros([100, 1_000, 20_000][rng.random_range(0..3)]),
            reorder_pool_frames: [1 << 13, 1 << 13, 18][rng.random_range(0..3)],
            resend_cache_frames: [1 << 13, 1 << 13, 18][rng.random_range(0..3)],
            backup_pool_frames: [1 << 13, 1 << 13, 18, 0][rng.random_range(0..4)],
            adverse_for,
            restarts,
            lives: if rng.random_bool(0.25) { 3 } else { 1 },
            pause: Span::from_millis(rng.random_range(20..400)),
            hosts: [1, 1, 2, 4][rng.random_range(0..4)],
            workers: [(); 2].map(|()| [1, 1, 2, 4][rng.random_range(0..4)]),
            early_per_second: [Allowance::AMPLE, Allowance::PER_SECOND, Allowance::PER_SECOND]
                [rng.random_range(0..3)],
            ..Self::calm(seed, recovery)
        };
        // The last ones drawn: all else stays as it was.
        let operations = [0, 0, 1, 4, 30][rng.random_range(0..5)];
        scenario.operations = (0..operations)
            .map(|_| {
                let at = rng.random_range(0..adverse_for.as_nanos());
                (Span::from_nanos(at), rng.random_range(0..2), rng.random())
            })
            .collect();
        scenario.underlay = Underlay::any(scenario.wan_delay, adverse_for, rng);
        scenario
    }
}
