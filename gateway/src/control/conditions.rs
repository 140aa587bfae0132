//! Conditions in which the gateway forwards frames but can't do its job, found in the workers' counters: for `/healthz`, the
//! log and the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::metrics::Metric;
use common::time::Span;

use super::State;
use super::reason::{Kind, Reason, Word};
use crate::config::{Config, TunnelMode};
use crate::port::{PORTS, PortId};
use crate::telemetry::{LaneIo, PortIo, Published, TunnelIo};
use crate::worker::io::RESERVE;

/// Time in which a counter has to grow by enough.
const WINDOW: Duration = Duration::from_secs(3);
/// Time for which a condition is said after it was last seen. A Sentry that finds no Depot tries every 10 s.
const HOLD: Duration = Duration::from_secs(15);
/// Events that are no accident.
const SEVERAL: u64 = 3;
/// Of so many packets or numbers that overtake others, one may be resent in vain.
const OVERTAKEN: u64 = 1_000;

/// Flows that are left to the RNICs, by the operator or since their data does not pay: more than are under test.
const MANY: u64 = 16;

const STALLED: &str = "the port takes no frames, and those that waited were dropped: is its link good? A packet socket (net_af_packet) \
                       that was given a frame above its interface's MTU takes none any more: give the interface the MTU of the port's key, \
                       and restart the gateway";

/// A counter that grows by enough within a while.
#[derive(Debug, Default)]
struct Growth {
    count: u64,
    grown: u64,
    began: Option<Instant>,
    seen: Option<Instant>,
}

impl Growth {
    /// Whether it has grown by `least` within [`WINDOW`], less than [`HOLD`] ago.
    fn look(&mut self, count: u64, least: u64, now: Instant) -> bool {
        if self.began.is_none_or(|began| now.duration_since(began) > WINDOW) {
            (self.began, self.grown) = (Some(now), 0);
        }
        self.grown += count.saturating_sub(std::mem::replace(&mut self.count, count));
        if self.grown >= least {
            self.seen = Some(now);
        }
        self.seen.is_some_and(|seen| now.duration_since(seen) < HOLD)
    }
}

/// Announcements of flows that no box answers.
#[derive(Debug, Default)]
struct Unanswered {
    sent: u64,
    answers: u64,
    /// When the first was sent since the last answer, and the last.
    since: Option<(Instant, Instant)>,
}

impl Unanswered {
    /// Whether none was answered for `patience`.
    fn look(&mut self, sent: u64, answers: u64, patience: Duration, now: Instant) -> bool {
        let was_sent = std::mem::replace(&mut self.sent, sent) != sent;
        if std::mem::replace(&mut self.answers, answers) != answers {
            // The answer may belong to the newest message: waiting begins with the next one.
            self.since = None;
        } else if was_sent {
            let (first, _) = self.since.unwrap_or((now, now));
            self.since = Some((first, now));
        }
        self.since.take_if(|(_, last)| now.duration_since(*last) >= HOLD);
        self.since.is_some_and(|(first, _)| now.duration_since(first) >= patience)
    }
}

/// The counters, summed over all workers, as they were.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counts {
    bad_tag: u64,
    version: u64,
    from_lan: u64,
    announced: u64,
    answers: u64,
    too_long: u64,
    reorder_pool: u64,
    cache: u64,
    misjudged: u64,
    late: u64,
    unprotected: u64,
    deferred: u64,
    protected: u64,
}

impl Counts {
    fn of(state: &State) -> Self {
        let switch = |metric| state.workers.iter().map(|worker| worker.switch(metric)).sum::<u64>();
        let tunnel = |what| state.tunnels().map(|tunnel| tunnel.get(what)).sum::<u64>();
        let lane = |what| {
            let lanes = state.tunnels().flat_map(|tunnel| tunnel.lanes());
            lanes.map(|lane| lane.get(what)).sum::<u64>()
        };
        let long = state.workers.iter().map(|worker| {
            let io = worker.io();
            let ports = PortId::all(state.wans);
            ports.map(|port| io.port(port, PortIo::RxTooLong)).sum::<u64>()
        });
        Self {
            bad_tag: switch(Metric::DropControlBadTag),
            version: switch(Metric::DropControlVersion),
            from_lan: switch(Metric::DropControlFromLan) + tunnel(TunnelIo::DropReserved),
            announced: switch(Metric::SyncOpen),
            answers: switch(Metric::DropStatusConsumed),
            too_long: long.sum(),
            reorder_pool: switch(Metric::DropReorderFull),
            cache: switch(Metric::SentryCacheFull) + lane(LaneIo::NotKept),
            misjudged: switch(Metric::DepotMisjudged) + lane(LaneIo::Misjudged),
            late: switch(Metric::DepotAwaited) + lane(LaneIo::Awaited),
            unprotected: switch(Metric::FlowsUnprotected),
            deferred: switch(Metric::FlowsDeferred),
            protected: switch(Metric::FlowsProtected),
        }
    }
}

/// Watches the counters.
#[derive(Debug)]
pub struct Conditions {
    /// Longest time in which a box answers.
    patience: Duration,
    has_tunnel: bool,
    unanswered: Unanswered,
    key: Growth,
    version: Growth,
    swapped: Growth,
    too_long: Growth,
    reorder_pool: Growth,
    cache: Growth,
    tolerance: Growth,
    overtaken: Growth,
    /// By [`PortId::index`].
    stalled: [Growth; PORTS],
    /// Frames that were lost at a port's receive queue, by [`PortId::index`].
    missed: [Growth; PORTS],
    /// Of each worker, by [`PortId::index`].
    overloaded: Vec<[Growth; PORTS]>,
}

const SECOND: Span = Span::from_millis(1_000);

/// Time in which a box answers, at the longest: announcements are repeated for two round trips, and answers take one.
pub fn patience(config: &Config) -> Duration {
    let patience = (config.recovery.tuning.rtt_guess * 3).max(SECOND * 2);
    Duration::from_nanos(patience.as_nanos())
}

impl Conditions {
    /// Those of a gateway with that configuration.
    pub fn new(config: &Config) -> Self {
        Self::after(patience(config), config.tunnel.mode != TunnelMode::Off)
    }

    fn after(patience: Duration, has_tunnel: bool) -> Self {
        Self {
            patience,
            has_tunnel,
            unanswered: Unanswered::default(),
            key: Growth::default(),
            version: Growth::default(),
            swapped: Growth::default(),
            too_long: Growth::default(),
            reorder_pool: Growth::default(),
            cache: Growth::default(),
            tolerance: Growth::default(),
            overtaken: Growth::default(),
            stalled: Default::default(),
            missed: Default::default(),
            overloaded: Vec::new(),
        }
    }

    /// The conditions that hold. To be called about twice a second.
    pub fn look(&mut self, state: &State, mbufs_free: u32, now: Instant) -> Vec<Reason> {
        // A reload may have changed it.
        self.patience = state.facts().patience;
        let mut found = self.judge(Counts::of(state), now);
        // Those of the workers' own frames end before those of reception.
        if mbufs_free < RESERVE {
            let text =
                "free mbufs are nearly exhausted: raise pool.mbufs, or make the pools smaller";
            found.push(Reason::degraded(Kind::Pool, text, "lr2ctl pools"));
        }
        for (port, growth) in PortId::all(state.wans).zip(&mut self.stalled) {
            let dropped = |worker: &Arc<Published>| worker.io().port(port, PortIo::DropStalled);
            if growth.look(state.workers.iter().map(dropped).sum(), 1, now) {
                found.push(Reason::down(Kind::Stalled, STALLED, "ip -s link").at(port));
            }
        }
        self.find_overload(state, now, &mut found);
        found
    }

    /// The workers that do not keep up with a port.
    fn find_overload(&mut self, state: &State, now: Instant, found: &mut Vec<Reason>) {
        let sample = state.sample();
        self.overloaded.resize_with(state.workers.len(), Default::default);
        for port in PortId::all(state.wans) {
            let stats = sample.as_ref().and_then(|sample| sample.ports.get(port.index()));
            let missed = stats.map_or(0, |stats| stats.rx_missed);
            let is_full = self.missed[port.index()].look(missed, 1, now);
            for (n, (worker, ports)) in state.workers.iter().zip(&mut self.overloaded).enumerate() {
                let lagged = worker.io().port(port, PortIo::OverloadedNanos);
                if ports[port.index()].look(lagged, 1, now) {
                    let effect = if is_full {
                        "the port's receive queue overflows (lr2_port_missed_frames_total), and new flows are not protected"
                    } else {
                        "new flows are not protected"
                    };
                    let text = format!(
                        "worker {n} does not keep up with the frames: {effect} (lr2_passed_frames_total{{reason=\"overload\"}}); raise worker.count, or give the workers faster CPUs of their own (eal.cores)"
                    );
                    let reason = Reason::degraded(Kind::Overload, text, "lr2ctl top").at(port);
                    let word = if is_full { Word::Down } else { Word::Degraded };
                    found.push(Reason { word, ..reason });
                }
            }
        }
    }

    fn judge(&mut self, counts: Counts, now: Instant) -> Vec<Reason> {
        let Counts { bad_tag, announced, answers, .. } = counts;
        let unanswered = self.unanswered.look(announced, answers, self.patience, now);
        let other_key = self.key.look(bad_tag, 1, now);
        // In the tunnel its session says more.
        let unanswered = unanswered && !self.has_tunnel;
        self.overtaken.look(counts.misjudged + counts.late, u64::MAX, now);
        let least = (self.overtaken.grown / OVERTAKEN).max(100);
        let late = self.tolerance.look(counts.misjudged, least, now);
        let degraded =
            |holds: bool, kind, text, next| holds.then(|| Reason::degraded(kind, text, next));
        let found = [
            degraded(
                other_key && unanswered,
                Kind::Key,
                "the peer refuses our key, and we refuse its key: peer.key_file must have the same content on both boxes",
                "lr2ctl peers",
            ),
            degraded(
                other_key && !unanswered,
                Kind::Key,
                "we refuse the peer's key: peer.key_file must have the same content on both boxes (lr2_dropped_frames_total{reason=\"control_bad_tag\"})",
                "lr2ctl peers",
            ),
            degraded(
                self.version.look(counts.version, 1, now),
                Kind::Version,
                "the peer's messages have another version: install one release on both boxes",
                "lr2ctl peers",
            ),
            degraded(
                unanswered && !other_key,
                Kind::NoPeer,
                "no peer answers although traffic flows, which crosses unprotected: is the other box running, with another recovery.mode than \"off\" and the same peer.control_opcode, and are LAN and WAN the right way round on both? Hosts without a gateway are left out by peer.remote_prefixes",
                "lr2ctl flows",
            ),
            degraded(
                self.swapped.look(counts.from_lan, 1, now),
                Kind::Swapped,
                "LAN and WAN look swapped: messages of another box arrive at the LAN port; exchange lan.device and wan.device, or the cables",
                "lr2ctl ports",
            ),
            self.too_long.look(counts.too_long, 1, now).then(|| {
                Reason::down(
                    Kind::Mtu,
                    "frames that are longer than a port's MTU arrive and are dropped: raise lan.mtu and wan.mtu; in front of net_af_packet, switch off the offload that merges segments (gro; tx at hosts behind a veth) (lr2_port_receive_dropped_frames_total{reason=\"too_long\"})",
                    "ethtool -K INTERFACE gro off",
                )
            }),
            degraded(
                self.reorder_pool.look(counts.reorder_pool, SEVERAL, now),
                Kind::Pool,
                "the reordering pool is exhausted, so that losses are left to the RNICs: raise recovery.reorder_pool",
                "lr2ctl pools",
            ),
            degraded(
                self.cache.look(counts.cache, SEVERAL, now),
                Kind::Pool,
                "the resend cache is exhausted, so that losses are left to the RNICs: raise recovery.resend_cache",
                "lr2ctl pools",
            ),
            degraded(
                late,
                Kind::Tolerance,
                "packets are late by more than is waited for, and are resent in vain: raise recovery.tolerance_depth and tolerance_wait, or use recovery.tolerance = \"auto\"",
                "lr2ctl recovery",
            ),
            degraded(
                counts.unprotected >= MANY,
                Kind::Operator,
                "the operator has left many flows to the RNICs: protect them again, where that has served its purpose (lr2ctl protect)",
                "lr2ctl flows --state unprotected",
            ),
            degraded(
                counts.deferred >= MANY && counts.deferred > counts.protected,
                Kind::Deferred,
                "most flows send too little to pay for control messages, which may be 5 % of the frames between two hosts: the RNICs repair their losses (lr2_flows{state=\"deferred\"})",
                "lr2ctl flows --state unprotected",
            ),
        ];
        found.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use common::metrics::Counters;

    use super::*;
    use crate::config::tests::{good, lab};
    use crate::telemetry::IoCounters;

    type Counter = fn(&mut Counts) -> &mut u64;

    /// The kinds that hold each half second, for so many of them, while `grow` changes the counts.
    fn run(halves: u32, mut grow: impl FnMut(u32, &mut Counts)) -> Vec<Vec<(Kind, String)>> {
        let (start, mut counts) = (Instant::now(), Counts::default());
        let mut conditions = Conditions::after(Duration::from_secs(2), false);
        let mut each = |half: u32| {
            grow(half, &mut counts);
            let found = conditions.judge(counts, start + Duration::from_millis(500) * half);
            found.into_iter().map(|reason| (reason.kind, reason.text.into_owned())).collect()
        };
        (0..halves).map(&mut each).collect()
    }

    fn kinds(found: &[(Kind, String)]) -> Vec<Kind> {
        found.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn announcements_without_an_answer_are_said_within_five_seconds_and_not_before_they_can_be_answered()
     {
        let found = run(10, |_, counts| counts.announced += 3);
        assert!(found[..4].iter().all(Vec::is_empty), "{found:?}");
        assert_eq!(kinds(&found[9]), [Kind::NoPeer]);
        assert!(found[9][0].1.starts_with("no peer answers although traffic flows"));
        // One tries every ten seconds.
        let found = run(60, |half, counts| counts.announced += u64::from(half % 20 == 0));
        assert!(found[10..].iter().all(|found| kinds(found) == [Kind::NoPeer]), "{found:?}");
        let found = run(60, |half, counts| counts.announced += u64::from(half < 10));
        assert!(found[59].is_empty(), "without traffic nothing is known");
        let answered = run(60, |_, counts| {
            (counts.announced, counts.answers) = (counts.announced + 1, counts.answers + 1)
        });
        assert!(answered.iter().all(Vec::is_empty), "{answered:?}");
        // One flow that is announced and answered once, and then silent.
        let answered = run(60, |half, counts| {
            let one = u64::from(half == 3);
            (counts.announced, counts.answers) = (counts.announced + one, counts.answers + one)
        });
        assert!(answered.iter().all(Vec::is_empty), "{answered:?}");
    }

    /// A reload of `recovery.rtt_guess`.
    #[test]
    fn a_box_is_waited_for_by_the_round_trip_of_the_last_reload() {
        let config =
            |round_trip| good(&lab(&format!("[recovery]\nrtt_guess = \"{round_trip}\"\n")));
        let (short, long) = (config("10ms"), config("2s"));
        // At the start, and after a reload.
        for (first, then, seconds) in
            [(&short, None, 2), (&short, Some(&long), 6), (&long, Some(&short), 2)]
        {
            let state = State::new("both", 1, None).of(first);
            let (start, mut conditions) = (Instant::now(), Conditions::new(first));
            if let Some(then) = then {
                state.set_facts(then, &first.pool);
            }
            let mut counters = Counters::default();
            let mut said = (1..20).filter(|half| {
                counters.set(Metric::SyncOpen, u64::from(*half));
                state.workers[0].store(&counters, &IoCounters::default());
                let now = start + Duration::from_millis(500) * *half;
                let found = conditions.look(&state, u32::MAX, now);
                found.iter().any(|reason| reason.kind == Kind::NoPeer)
            });
            let first = said.next();
            assert_eq!(first, Some(2 * seconds + 1), "in half seconds");
        }
    }

    #[test]
    fn a_port_that_takes_no_frames_is_named_until_it_takes_some() {
        let config = good(&lab(""));
        let state = State::new("both", 1, None).of(&config);
        let (start, mut conditions) = (Instant::now(), Conditions::new(&config));
        let mut io = IoCounters::default();
        let mut said = Vec::new();
        for second in 0..30_u32 {
            io.add(PortId::LAN, PortIo::DropStalled, u64::from((1..5).contains(&second)));
            state.workers[0].store(&Counters::default(), &io);
            let now = start + Duration::from_secs(1) * second;
            let found = conditions.look(&state, u32::MAX, now);
            assert!(
                found.iter().all(|it| (it.kind, it.port) == (Kind::Stalled, Some(PortId::LAN)))
            );
            said.extend(found.first().map(|_| second));
        }
        assert_eq!(said, (1..22).collect::<Vec<_>>(), "15 s from the end of its three seconds on");
    }

    #[test]
    fn a_worker_that_does_not_keep_up_is_named_with_its_port() {
        let config = good(&lab(""));
        let state = State::new("both", 2, None).of(&config);
        let (start, mut conditions) = (Instant::now(), Conditions::new(&config));
        let mut said = Vec::new();
        for second in 0..30_u32 {
            let mut io = IoCounters::default();
            io.add(PortId::LAN, PortIo::OverloadedNanos, u64::from(second.min(3)) * 5_000_000);
            state.workers[1].store(&Counters::default(), &io);
            let now = start + Duration::from_secs(1) * second;
            let found = conditions.look(&state, u32::MAX, now);
            let [reason] = &found[..] else { continue };
            assert_eq!((reason.kind, reason.port), (Kind::Overload, Some(PortId::LAN)));
            assert_eq!((reason.word, &*reason.next), (Word::Degraded, "lr2ctl top"));
            assert!(reason.text.starts_with(
                "worker 1 does not keep up with the frames: new flows are not protected"
            ));
            said.push(second);
        }
        assert_eq!(said, (1..18).collect::<Vec<_>>(), "15 s from the last time on");
    }

    #[test]
    fn who_refuses_whose_key_is_said() {
        let found = run(8, |_, counts| {
            (counts.announced, counts.bad_tag) = (counts.announced + 3, counts.bad_tag + 3)
        });
        assert!(found[7][0].1.starts_with("the peer refuses our key"), "{found:?}");
        let found = run(8, |_, counts| counts.bad_tag += 1);
        assert!(found[7][0].1.starts_with("we refuse the peer's key"), "{found:?}");
        // A Sentry that finds no Depot tries once in ten seconds.
        let found = run(60, |half, counts| counts.bad_tag += u64::from(half % 20 == 2));
        assert!(found[2..].iter().all(|found| kinds(found) == [Kind::Key]), "{found:?}");
    }

    /// However many were late before.
    #[test]
    fn packets_resent_in_vain_are_compared_with_those_that_are_late_at_the_time() {
        for (late, is_said) in [(200_000, true), (2_000_000, false)] {
            let found = run(40, |half, counts| {
                counts.late += if half < 30 { 1 << 40 } else { late / 6 };
                counts.misjudged += if half < 30 { 0 } else { 100 };
            });
            assert!(found[..30].iter().all(Vec::is_empty), "{found:?}");
            assert_eq!(kinds(&found[39]) == [Kind::Tolerance], is_said, "{late} in three seconds");
        }
    }

    #[test]
    fn each_counter_has_its_condition_and_it_ends() {
        let grow: [(Kind, Counter); 6] = [
            (Kind::Version, |counts| &mut counts.version),
            (Kind::Swapped, |counts| &mut counts.from_lan),
            (Kind::Mtu, |counts| &mut counts.too_long),
            (Kind::Pool, |counts| &mut counts.reorder_pool),
            (Kind::Pool, |counts| &mut counts.cache),
            (Kind::Tolerance, |counts| &mut counts.misjudged),
        ];
        let left = run(2, |half, counts| counts.unprotected = MANY - u64::from(half));
        assert_eq!((kinds(&left[0]), left[1].len()), (vec![Kind::Operator], 0));
        let unpaid = run(3, |half, counts| {
            (counts.deferred, counts.protected) =
                [(MANY, MANY - 1), (MANY, MANY), (MANY - 1, 0)][half as usize];
        });
        assert_eq!(kinds(&unpaid[0]), [Kind::Deferred]);
        assert_eq!((unpaid[1].len(), unpaid[2].len()), (0, 0), "half of them, and few");
        for (kind, counter) in grow {
            let found = run(60, |half, counts| *counter(counts) += if half < 10 { 100 } else { 0 });
            assert_eq!(kinds(&found[9]), [kind]);
            assert!(found[59].is_empty(), "{kind:?}: {found:?}");
        }
    }
}
