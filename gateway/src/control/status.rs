//! What the API tells of the box, its ports, pools and lanes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{
    Build, Lane, Lanes, Pair, Pairs, Path, Paths, Pool, Pools, Port, Ports, Recovery, Status,
    Worker,
};
use common::metrics::Metric;
use dpdk_sys_wrapper::PortStats;

use super::{State, conditions, health, reason};
use crate::config::{self, Config, RECOVERIES, TUNNELS, word};
use crate::port::PortId;
use crate::telemetry::{IoCounters, LaneIo, PortIo, TunnelIo};

/// What follows from the configuration.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    node: u32,
    recovery: &'static str,
    tunnel: &'static str,
    /// Device and MTU of each port, by [`PortId::index`].
    ports: Vec<(String, u16)>,
    /// Mbufs, and frames in the reordering pool, the resend cache and the backup pool.
    limits: [u64; 4],
    /// Time in which a box answers, at the longest.
    pub patience: Duration,
}

impl Facts {
    /// Those of a configuration, of a box that has reserved these mbufs.
    pub fn of(config: &Config, reserved: &config::Pool) -> Self {
        let pools = config.pool_frames();
        Self {
            node: config.peer.node.0,
            recovery: word(RECOVERIES, &config.recovery.mode),
            tunnel: word(TUNNELS, &config.tunnel.mode),
            ports: config.ports().map(|(_, port)| (port.device.clone(), port.mtu)).collect(),
            limits: [
                reserved.mbufs.into(),
                pools.reorder_pool,
                pools.resend_cache,
                pools.backup_pool,
            ],
            patience: conditions::patience(config),
        }
    }

    /// What flows are, where they are not all of the traffic.
    pub fn note_on_flows(&self) -> Option<&'static str> {
        if !matches!(self.tunnel, "" | "off") {
            return Some(
                "the tunnel carries all frames on its lanes (/lanes); these are flows of the repair of the LANs",
            );
        }
        (self.recovery == "off")
            .then_some("recovery.mode is off: frames cross as on a wire, and no flow is known")
    }
}

/// The box, and whether it does its job.
pub fn status(state: &State) -> Status {
    let sample = state.sample();
    let standing = health::check(state, Instant::now());
    let facts = state.facts();
    let each = sample.iter().flat_map(|sample| sample.workers.iter().enumerate());
    let sum = |metric| state.workers.iter().map(|worker| worker.switch(metric)).sum();
    Status {
        pair: state.pair().map(str::to_owned),
        node: facts.node,
        boot: state.boot.get().copied(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started: state.start_time,
        uptime: state.started.elapsed().as_secs_f64(),
        role: state.role.into(),
        recovery: facts.recovery.into(),
        tunnel: facts.tunnel.into(),
        health: reason::word(&standing).name().into(),
        reasons: standing.iter().map(ToString::to_string).collect(),
        workers: each
            .map(|(n, it)| Worker { worker: n, busy: it.busy_ratio, stalled: it.stalled })
            .collect(),
        flows: sum(Metric::FlowsAll),
        flows_protected: sum(Metric::FlowsProtected),
        log_level: state.actions.log.level().into(),
    }
}

/// The pairs of ports.
pub fn pairs(states: &[Arc<State>]) -> Pairs {
    let pair = |state: &Arc<State>| {
        let Status { node, recovery, tunnel, health, reasons, workers, .. } = status(state);
        let (pair, ports) = (state.name().to_owned(), ports(state).ports);
        Pair { pair, node, recovery, tunnel, health, reasons, workers, ports }
    };
    Pairs { pairs: states.iter().map(pair).collect() }
}

/// The ports.
pub fn ports(state: &State) -> Ports {
    let sample = state.sample();
    let mut io = IoCounters::default();
    state.workers.iter().for_each(|worker| io.join(&worker.io()));
    let facts = state.facts();
    let each = PortId::all(u8::MAX).zip(&facts.ports);
    let port = |(id, (device, mtu)): (PortId, &(String, u16))| {
        let stats = sample.as_ref().and_then(|sample| sample.ports.get(id.index()));
        let PortStats { rx_missed, rx_errors, tx_errors, rx_no_mbuf, .. } =
            stats.copied().unwrap_or_default();
        let sum = |all: &[PortIo]| all.iter().map(|what| io.port(id, *what)).sum();
        Port {
            port: id.name().into(),
            device: device.clone(),
            mtu: *mtu,
            up: sample.as_ref().and_then(|sample| sample.up.get(id.index()).copied()),
            received: sum(&[PortIo::RxFrames]),
            received_bytes: sum(&[PortIo::RxBytes]),
            transmitted: sum(&[PortIo::TxFrames]),
            transmitted_bytes: sum(&[PortIo::TxBytes]),
            queued: sum(&[PortIo::Queued]),
            missed: rx_missed,
            dropped: sum(&[
                PortIo::RxTooLong,
                PortIo::RxNoMbuf,
                PortIo::DropHandoff,
                PortIo::DropFull,
                PortIo::DropStalled,
                PortIo::DropEnd,
            ]),
            errors: rx_errors + tx_errors,
            no_mbuf: rx_no_mbuf,
        }
    };
    Ports { ports: each.map(port).collect() }
}

/// What the repair of flows has done.
pub fn recovery(state: &State) -> Recovery {
    let each = |metric| state.workers.iter().map(move |worker| worker.switch(metric));
    let sum = |all: &[Metric]| all.iter().map(|metric| each(*metric).sum::<u64>()).sum();
    let round_trip = each(Metric::PathRtt).max().filter(|nanos| *nanos > 0);
    Recovery {
        gaps: sum(&[Metric::GapsSeen, Metric::ReadGapsSeen]),
        filled: sum(&[Metric::GapsFilled, Metric::ReadGapsFilled]),
        given_up: sum(&[Metric::GapsGivenUp, Metric::ReadGapsGivenUp, Metric::ReadGapsAbsent]),
        resent: sum(&[Metric::SentryResent, Metric::ResponseResent]),
        not_cached: sum(&[Metric::SentryUncached, Metric::ResponseUncached]),
        resent_to_lan: sum(&[Metric::LocalNak, Metric::LocalTimeout]),
        needless: sum(&[Metric::DepotMisjudged]),
        naks: sum(&[Metric::NakSynthesised, Metric::NakSourceLan, Metric::NakRepeated]),
        round_trip: round_trip.map(|nanos| Metric::PathRtt.scaled(nanos)),
    }
}

/// The pools.
pub fn pools(state: &State) -> Pools {
    let switches = |metric| state.workers.iter().map(|worker| worker.switch(metric)).sum::<u64>();
    let tunnels = |what| state.tunnels().map(|tunnel| tunnel.get(what)).sum::<u64>();
    let in_use = state.sample().map_or(0, |it| it.mbufs.saturating_sub(it.mbufs_free));
    let frames = [
        in_use.into(),
        switches(Metric::HeldReorder) + tunnels(TunnelIo::Held),
        switches(Metric::HeldCache) + tunnels(TunnelIo::Kept),
        switches(Metric::HeldBackup),
    ];
    let names = ["mbufs", "reorder_pool", "resend_cache", "backup_pool"];
    let each = names.into_iter().zip(frames).zip(state.facts().limits);
    let pool = |((name, frames), limit)| Pool { pool: Cow::Borrowed(name), frames, limit };
    Pools { pools: each.map(pool).collect() }
}

/// The lanes of all tunnels.
pub fn lanes(state: &State) -> Lanes {
    let mut lanes = Vec::new();
    for (of, published) in (0..).zip(state.tunnels()) {
        for (n, lane) in (0..).zip(published.lanes()) {
            let port = tunnel::Lane::new(n).map(|lane| PortId::wan(lane.port(state.wans)));
            let get = |what| lane.get(what);
            let seconds = |what: LaneIo| what.scaled(lane.get(what));
            let states = [
                (LaneIo::StateUp, "up"),
                (LaneIo::StateSuspect, "suspect"),
                (LaneIo::StateProbing, "probing"),
            ];
            let found = states.into_iter().find(|(what, _)| get(*what) > 0);
            lanes.push(Lane {
                tunnel: of,
                lane: n,
                port: port.map_or("", PortId::name).into(),
                state: found.map_or("down", |(_, word)| word).into(),
                round_trip: seconds(LaneIo::RttNanos),
                delay_variation: seconds(LaneIo::DeviationNanos),
                queue: seconds(LaneIo::QueueNanos),
                later: seconds(LaneIo::LaterNanos),
                report_age: seconds(LaneIo::ReportAgeNanos),
                sent: get(LaneIo::First),
                resent: get(LaneIo::Resent),
                lost: get(LaneIo::Lost),
                skipped: LaneIo::SKIPPED.map(get).iter().sum(),
                moved: get(LaneIo::Moved),
                marked: get(LaneIo::Marked),
                delivered: [LaneIo::Ordered, LaneIo::Overtook, LaneIo::Late, LaneIo::Unordered]
                    .into_iter()
                    .map(get)
                    .sum(),
                waited: get(LaneIo::Waited),
                duplicate: get(LaneIo::Duplicate),
                given_up: get(LaneIo::GivenUp) + get(LaneIo::PeerSkipped),
                misjudged: get(LaneIo::Misjudged),
                tolerated_numbers: get(LaneIo::ToleratedDepth),
                tolerated: seconds(LaneIo::ToleratedNanos),
            });
        }
    }
    Lanes { lanes }
}

/// The paths behind the WAN ports.
pub fn paths(state: &State) -> Paths {
    let (Some(expected), Some(all)) = (&state.tunnel, state.all_tunnels()) else {
        return Paths::default();
    };
    let sample = state.sample();
    let path = |port: PortId| {
        let path = all.path(port.wan_port());
        let of_port = usize::from(port.wan_port().get());
        let way = sample.as_ref().and_then(|sample| sample.ways.get(of_port));
        let nanos = path.rtt.as_nanos();
        Path {
            port: port.name().into(),
            peer: way.map(|way| way.peer.to_string()),
            frame_bytes: path.longest,
            shortest_lane_bytes: path.shortest,
            needed_bytes: expected.needed,
            round_trip: (nanos > 0).then_some(nanos as f64 / 1e9),
            probes: path.checks,
            lost: path.lost,
        }
    };
    Paths { paths: PortId::all(state.wans).skip(1).map(path).collect() }
}

/// What runs here.
pub fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        dpdk: dpdk_sys_wrapper::version(),
        profile: if cfg!(debug_assertions) { "debug" } else { "optimised" }.into(),
        target: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS).into(),
        message_version: common::control::VERSION,
        tunnel_version: tunnel::shim::VERSION,
    }
}

#[cfg(test)]
mod tests {
    use common::frame::Side;
    use common::metrics::Counters;

    use super::*;
    use crate::config::tests::{good, lab};
    use crate::control::tunnel::Expected;
    use crate::control::{Sample, WorkerHealth};

    fn state(text: &str) -> State {
        let config = good(text);
        let mut expected = Expected::of(&config);
        expected.iter_mut().for_each(|it| it.ports = 2);
        State::new("both", 2, expected).of(&config)
    }

    #[test]
    fn numbers_of_all_workers_are_summed() {
        let state = state(&lab(""));
        assert_eq!(status(&state).health, "down");
        assert_eq!((status(&state).tunnel, status(&state).recovery), ("off".into(), "auto".into()));
        assert!(ports(&state).ports.iter().all(|port| port.up.is_none()));
        let (mut io, mut switch) = (IoCounters::default(), Counters::default());
        io.add(Side::Wan.into(), PortIo::DropFull, 3);
        io.add(Side::Wan.into(), PortIo::RxFrames, 5);
        switch.set(Metric::HeldReorder, 4);
        switch.set(Metric::FlowsAll, 2);
        switch.set(Metric::ResponseResent, 3);
        switch.set(Metric::PathRtt, 20_000_000);
        state.workers.iter().for_each(|worker| worker.store(&switch, &io));
        state.put(Sample {
            ports: vec![PortStats::default(), PortStats { rx_missed: 9, ..PortStats::default() }],
            up: vec![true, true],
            mbufs_free: 60,
            mbufs: 100,
            workers: vec![WorkerHealth { busy_ratio: 0.5, stalled: false }; 2],
            stopping: false,
            ways: Vec::new(),
        });
        let status = status(&state);
        assert_eq!((&*status.health, status.workers.len(), status.flows), ("ok", 2, 4));
        let ports = ports(&state).ports;
        let wan = &ports[1];
        assert_eq!((wan.received, wan.dropped, wan.missed), (10, 6, 9));
        assert_eq!((wan.up, &*wan.port, &*wan.device), (Some(true), "wan", "net_null1"));
        let recovery = recovery(&state);
        assert_eq!((recovery.resent, recovery.round_trip), (6, Some(0.02)));
        let pools = pools(&state).pools;
        assert_eq!((&*pools[0].pool, pools[0].frames), ("mbufs", 40));
        assert_eq!((&*pools[1].pool, pools[1].frames), ("reorder_pool", 8));
        assert!(pools.iter().all(|pool| pool.limit > pool.frames), "{pools:?}");
    }
}
