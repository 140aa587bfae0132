//! A run: one scenario, one scheme, one seed.

mod books;
mod ledger;
mod posting;

use std::io;

use common::frame::Frame;
use common::metrics::{self, Metric};
use common::time::Time;
use common::wire::parse;

use self::ledger::Ledger;
use self::posting::Posting;
use crate::capture::{Observer, Sent};
use crate::engine::Agenda;
use crate::net::{Departure, Outbox};
use crate::node::Node;
use crate::results::{HostUse, LongHaulUse, OfferedUse, PoolSample, Pools, RunResult, TunnelUse};
use crate::scenario::{Carriage, Scenario};
use crate::scheme::Scheme;
use crate::schemes;
use crate::topology::{self, Network};
use crate::traffic::{self, FlowSpec};

/// Virtual time at which a run begins: late enough to look back from.
pub(crate) const START: Time = Time::from_nanos(1_000_000_000);

/// Runs `scenario`; the traffic follows from `seed` and is the same
/// for every scheme.
///
/// # Errors
/// If a queue pair cannot be set up as the scenario says, or the scheme is not for it.
pub fn run(scenario: &Scenario, scheme: Scheme, seed: u64) -> Result<RunResult, String> {
    run_flows(scenario, scheme, seed, &traffic::expand(scenario, seed))
}

/// As [`run`], and shows each frame to `observer`.
///
/// # Errors
/// If a queue pair cannot be set up as the scenario says, the scheme is not for it, or the observer fails.
pub fn run_observed(
    scenario: &Scenario,
    scheme: Scheme,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<RunResult, String> {
    play(scenario, scheme, seed, &traffic::expand(scenario, seed), Some(observer))
}

/// Runs `flows`, sorted by their start, over the network of `scenario`.
///
/// # Errors
/// If a queue pair cannot be set up as the scenario says, or the scheme is not for it.
pub fn run_flows(
    scenario: &Scenario,
    scheme: Scheme,
    seed: u64,
    flows: &[FlowSpec],
) -> Result<RunResult, String> {
    play(scenario, scheme, seed, flows, None)
}

fn play<'s>(
    scenario: &'s Scenario,
    scheme: Scheme,
    seed: u64,
    flows: &[FlowSpec],
    mut observer: Option<&'s mut dyn Observer>,
) -> Result<RunResult, String> {
    schemes::model(scheme).fits(scenario)?;
    let network = topology::build(scenario, scheme, seed);
    if let Some(observer) = &mut observer {
        observer.cables(&network.cable_names()).map_err(|error| error.to_string())?;
    }
    let actors = network.nodes.len() + network.cables.len();
    let mut run = Run {
        scenario,
        agenda: Agenda::new(actors),
        posting: Posting::new(scenario, scheme, seed, flows),
        ledger: Ledger::default(),
        outbox: Outbox::default(),
        pools: Vec::new(),
        last_due: last_due(flows),
        network,
        observer,
        failure: None,
        now: START,
        events: 0,
    };
    run.play()?;
    Ok(run.result(scheme, seed))
}

struct Run<'s> {
    scenario: &'s Scenario,
    network: Network,
    agenda: Agenda,
    posting: Posting<'s>,
    ledger: Ledger,
    outbox: Outbox,
    pools: Vec<PoolSample>,
    /// When the last message is due; [`Time::NEVER`] once the links were looked at.
    last_due: Time,
    observer: Option<&'s mut dyn Observer>,
    /// Why the observer failed.
    failure: Option<io::Error>,
    now: Time,
    events: u64,
}

impl Run<'_> {
    fn play(&mut self) -> Result<(), String> {
        self.start_gateways();
        let end = START + self.scenario.limit;
        let mut sample = START;
        while !self.posting.is_done() {
            let (due, actor) = self.agenda.first().unwrap_or((Time::NEVER, usize::MAX));
            let post = self.posting.next();
            let next = due.min(post).min(sample).min(self.last_due);
            if next > end {
                break;
            }
            self.now = next;
            if let Some(error) = self.failure.take() {
                return Err(error.to_string());
            }
            if next == self.last_due {
                self.offered();
            } else if next == sample {
                self.sample();
                sample += self.scenario.sample_every;
            } else if next == post {
                self.post()?;
            } else if actor < self.network.nodes.len() {
                self.serve(actor);
            } else {
                self.arrive(actor - self.network.nodes.len());
            }
        }
        self.sample();
        Ok(())
    }

    /// Where gateways have to agree on something before frames cross, or find out about several paths, they are started
    /// some round trips before the first message.
    fn start_gateways(&mut self) {
        let Scenario { long_haul, gateway, .. } = self.scenario;
        if long_haul.paths.is_empty() && gateway.tunnel == Carriage::Ethernet {
            return;
        }
        let ahead = (long_haul.longest_delay() * 16).min(START.since(Time::ZERO).scale(9, 10));
        self.now = START - ahead;
        for index in 0..self.network.gateways.len() {
            self.serve(self.network.gateways[index]);
        }
    }

    fn post(&mut self) -> Result<(), String> {
        while let Some(host) = self.posting.post(&mut self.network, self.now)? {
            self.serve(host);
        }
        Ok(())
    }

    /// A node receives the frames at the end of a cable.
    fn arrive(&mut self, number: usize) {
        let cable = &mut self.network.cables[number];
        let to = cable.to;
        let node = &mut self.network.nodes[to.node];
        while let Some(pause) = cable.paused(self.now) {
            node.pause(to.port, pause);
        }
        while let Some(frame) = cable.arrived(self.now) {
            self.events += 1;
            if matches!(node, Node::Host(_)) {
                self.ledger.arrived(frame.bytes(), self.now);
            }
            node.receive(to.port, frame, self.now, &mut self.outbox);
        }
        let next = cable.next();
        self.agenda.set(self.network.nodes.len() + number, next);
        self.serve(to.node);
    }

    /// A node runs its due timers.
    fn serve(&mut self, number: usize) {
        let node = &mut self.network.nodes[number];
        node.serve(self.now, &mut self.outbox);
        if let Node::Host(host) = node {
            while let Some(completion) = host.completed() {
                self.posting.completed(&completion);
            }
            while let Some(comm) = host.cm.made() {
                self.posting.connected(comm, self.now);
            }
        }
        self.agenda.set(number, node.next());
        self.flush(number);
    }

    /// Puts a node's frames on the cables.
    fn flush(&mut self, number: usize) {
        let nodes = self.network.nodes.len();
        let leaving = &self.network.leaving[number];
        for (port, pause) in self.outbox.pauses.drain(..) {
            let cable = leaving[port];
            self.network.cables[cable].send_pause(pause, self.now);
            self.agenda.set(nodes + cable, self.network.cables[cable].next());
        }
        self.events += self.outbox.frames.len() as u64;
        for Departure { port, frame, sent } in self.outbox.frames.drain(..) {
            let number = leaving[port];
            let cable = &mut self.network.cables[number];
            let seen = self.observer.is_some().then(|| frame.clone());
            let is_lost;
            if cable.long_haul.is_some() {
                let roce = parse(link::within(frame.bytes()))
                    .ok()
                    .filter(|roce| roce.opcode.kind().is_request());
                let len = frame.bytes().len();
                is_lost = cable.send(frame, sent).is_some();
                if let Some(roce) = roce {
                    self.ledger.sent(&roce, len, is_lost, sent);
                }
            } else {
                is_lost = cable.send(frame, sent).is_some();
            }
            if let (Some(frame), Some(observer)) = (seen, &mut self.observer) {
                let sent =
                    Sent { at: reported(sent), cable: number, is_lost, frame: frame.bytes() };
                self.failure = self.failure.take().or(observer.sent(&sent).err());
            }
            self.agenda.set(nodes + number, cable.next());
        }
    }

    /// Looks at the long-haul links while load is offered.
    fn offered(&mut self) {
        let LongHaulUse { data_bytes, .. } = self.long_haul();
        self.ledger.long_haul.offered = Some(OfferedUse {
            until: reported(self.now),
            data_bytes,
            repeated_bytes: self.ledger.long_haul.repeated_bytes,
        });
        self.last_due = Time::NEVER;
    }

    /// The traffic of the long-haul links so far.
    fn long_haul(&self) -> LongHaulUse {
        let mut long_haul = self.ledger.long_haul;
        for cable in &self.network.cables {
            let Some(rate) = cable.long_haul else { continue };
            let (data, other) = cable.bytes();
            long_haul.data_bytes += data;
            long_haul.other_bytes += other;
            long_haul.rate += rate;
        }
        long_haul.rate /= 2;
        long_haul
    }

    /// The most bytes in the fullest gateway since the sample before.
    fn sample(&mut self) {
        let at = Time::ZERO + self.now.since(START);
        let mut held = Pools::default();
        for &number in &self.network.gateways {
            let Node::Gateway(gateway) = &mut self.network.nodes[number] else { continue };
            gateway.housekeeping(self.now);
            held = held.max(gateway.most_held());
        }
        self.pools.push(PoolSample { at, held });
        for index in 0..self.network.gateways.len() {
            self.serve(self.network.gateways[index]);
        }
    }

    fn result(self, scheme: Scheme, seed: u64) -> RunResult {
        books::check(&self.network);
        let mut long_haul = self.long_haul();
        let (mut hosts, mut tunnel) = (HostUse::default(), TunnelUse::default());
        for node in &self.network.nodes {
            match node {
                Node::Host(host) => {
                    let (totals, corrupt_bytes) = host.totals();
                    assert_eq!(corrupt_bytes, 0, "{} delivered wrong bytes", scheme.name());
                    hosts += &totals;
                }
                Node::Switch(switch) => long_haul.queue_drops += switch.drops,
                Node::Gateway(gateway) => {
                    long_haul.queue_drops += gateway.drops();
                    tunnel += gateway.tunnel();
                }
            }
        }
        hosts.failed_qps = self.posting.failed();
        RunResult {
            scheme,
            seed,
            end: Time::ZERO + self.now.since(START),
            packet_events: self.events,
            counters: counters(&self.network),
            tunnel,
            flows: self.posting.into_results(),
            long_haul,
            hosts,
            pools: self.pools,
            recoveries: self.ledger.recoveries,
        }
    }
}

/// The counters of all gateways, added up.
fn counters(network: &Network) -> Vec<(String, u64)> {
    let gateways = network.gateways.iter().filter_map(|number| match &network.nodes[*number] {
        Node::Gateway(gateway) => gateway.counters(),
        _ => None,
    });
    let all: Vec<_> = gateways.collect();
    let sums = Metric::ALL.iter().map(|metric| {
        let desc = metric.desc();
        let labels: Vec<String> =
            desc.labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
        let name = match labels.is_empty() {
            true => desc.name.to_owned(),
            false => format!("{}{{{}}}", desc.name, labels.join(",")),
        };
        (name, desc.kind, all.iter().map(|counters| counters.get(*metric)).sum())
    });
    sums.filter(|(_, kind, sum)| *kind == metrics::MetricKind::Counter && *sum > 0)
        .map(|(name, _, sum)| (name, sum))
        .collect()
}

/// When the last of `flows` is due. [`Time::NEVER`] if all are at the beginning, or some
/// wait for the end of others.
fn last_due(flows: &[FlowSpec]) -> Time {
    let is_known = flows.iter().all(|flow| flow.round == 0);
    let last = flows.iter().map(|flow| flow.start).max().filter(|last| *last > Time::ZERO);
    last.filter(|_| is_known).map_or(Time::NEVER, in_run)
}

/// A point in time as it is reported: from the beginning of the run.
pub(crate) fn reported(at: Time) -> Time {
    Time::ZERO + at.since(START)
}

/// A point in time of the run, from one that is reported.
pub(crate) fn in_run(at: Time) -> Time {
    START + at.since(Time::ZERO)
}
