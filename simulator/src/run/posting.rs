//! Posts messages when their time has come, on queue pairs that are kept and
//! used again, as applications do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::psn::Psn;
use common::time::Time;
use common::wire::Qpn;
use common::wire::cm::CommId;
use hashbrown::HashMap;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::{Completion, QpConfig, QpId, Region, Status, WorkKind, WorkRequest};

use super::{in_run, reported};
use crate::node::{End, Host, Node};
use crate::path::Path;
use crate::results::FlowResult;
use crate::scenario::{Connections, Scenario};
use crate::scheme::Scheme;
use crate::schemes;
use crate::topology::{Network, host_ip, host_mac};
use crate::traffic::FlowSpec;

/// A message that is longer is posted in parts.
const LONGEST: u64 = 1 << 30;
/// The number of the first queue pair: 0 and 1 are special.
const FIRST_QPN: Qpn = Qpn::new(16);

/// The id of the first connection, without the number of its queue pair.
const FIRST_COMM: CommId = 0x4c52_0000;

/// The state of a message.
struct Flow {
    result: FlowResult,
    /// Queue pair at the sender, once there is one.
    qp: Option<QpId>,
    /// Parts that are not done.
    left: u64,
    failed: bool,
}

/// Messages of one traffic that belong to the same round.
type Round = (u16, u32);

/// Posts messages and keeps book of them.
pub(super) struct Posting<'s> {
    scenario: &'s Scenario,
    scheme: Scheme,
    flows: Vec<Flow>,
    /// Messages to be posted, with their times.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    /// Messages of later rounds.
    rounds: HashMap<Round, Vec<usize>, foldhash::fast::FixedState>,
    /// Messages of each round that are not done.
    open: HashMap<Round, usize, foldhash::fast::FixedState>,
    unfinished: usize,
    /// Queue pairs that wait for work, by their ends.
    idle: HashMap<(u32, u32), Vec<QpId>, foldhash::fast::FixedState>,
    /// Messages that wait for a connection, by its name at the sender.
    connecting: HashMap<CommId, usize, foldhash::fast::FixedState>,
    next_qpn: Qpn,
    dice: ChaCha8Rng,
}

impl<'s> Posting<'s> {
    pub(super) fn new(
        scenario: &'s Scenario,
        scheme: Scheme,
        seed: u64,
        specs: &[FlowSpec],
    ) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        dice.set_stream(1 << 33);
        let mut posting = Self {
            scenario,
            scheme,
            flows: Vec::with_capacity(specs.len()),
            due: BinaryHeap::new(),
            rounds: HashMap::default(),
            open: HashMap::default(),
            unfinished: specs.len(),
            idle: HashMap::default(),
            connecting: HashMap::default(),
            next_qpn: FIRST_QPN,
            dice,
        };
        let paths = [false, true].map(|long_haul| Path::longest(scenario, long_haul));
        let per_site = scenario.topology.hosts_per_site();
        for (number, spec) in specs.iter().enumerate() {
            let is_long_haul = (spec.src < per_site) != (spec.dst < per_site);
            let path = paths[usize::from(is_long_haul)];
            let result = FlowResult {
                spec: *spec,
                due: Time::NEVER,
                posted: Time::NEVER,
                completed: None,
                ideal: path.ideal(spec.bytes, scenario.nic.pmtu),
                is_long_haul,
            };
            posting.flows.push(Flow { result, qp: None, left: 0, failed: false });
            let round = (spec.traffic, spec.round);
            *posting.open.entry(round).or_default() += 1;
            if spec.round == 0 {
                posting.due.push(Reverse((in_run(spec.start), number)));
            } else {
                posting.rounds.entry(round).or_default().push(number);
            }
        }
        posting
    }

    /// Whether all messages are done, for good or for bad.
    pub(super) fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// When something is to be posted next.
    pub(super) fn next(&self) -> Time {
        self.due.peek().map_or(Time::NEVER, |Reverse((at, _))| *at)
    }

    /// Posts one message that is due, or queues it until its connection is ready; returns its
    /// host.
    pub(super) fn post(
        &mut self,
        network: &mut Network,
        now: Time,
    ) -> Result<Option<usize>, String> {
        let Some(&Reverse((at, number))) = self.due.peek() else { return Ok(None) };
        if at > now {
            return Ok(None);
        }
        self.due.pop();
        let result = &mut self.flows[number].result;
        result.due = result.due.min(reported(at));
        let FlowSpec { src, dst, bytes, .. } = self.flows[number].result.spec;
        let known = self.flows[number].qp;
        let qp = match known.or_else(|| self.idle.entry((src, dst)).or_default().pop()) {
            Some(qp) => qp,
            None => {
                let (qp, comm) = self.connect(network, src, dst, now)?;
                self.flows[number].qp = Some(qp);
                if let Some(comm) = comm {
                    self.connecting.insert(comm, number);
                    return Ok(Some(src as usize));
                }
                qp
            }
        };
        let flow = &mut self.flows[number];
        flow.result.posted = reported(now);
        flow.qp = Some(qp);
        flow.left = bytes.div_ceil(LONGEST).max(1);
        let mut left = bytes;
        let host = host(network, src);
        for _ in 0..flow.left {
            let len = left.min(LONGEST);
            left -= len;
            let work = WorkRequest { kind: WorkKind::Write, len: len as u32, id: number as u64 };
            host.post(qp, work, now).map_err(|e| e.to_string())?;
        }
        Ok(Some(src as usize))
    }

    /// Sets up a queue pair between two hosts. If they are to be connected first,
    /// the name of that connection.
    fn connect(
        &mut self,
        network: &mut Network,
        src: u32,
        dst: u32,
        now: Time,
    ) -> Result<(QpId, Option<CommId>), String> {
        let qpns = [self.next_qpn, self.next_qpn.offset(1)];
        self.next_qpn = self.next_qpn.offset(2);
        let psns = [(); 2].map(|()| Psn::new(self.dice.random()));
        let hosts = [src, dst];
        let ends = [0, 1].map(|me| End {
            mac: host_mac(hosts[me]),
            ip: host_ip(hosts[me]),
            comm: FIRST_COMM + qpns[me].get(),
            qpn: qpns[me],
            recv_psn: psns[1 - me],
        });
        let mut ids = [QpId::default(); 2];
        for me in [0, 1] {
            let (here, there) = (ends[me], ends[1 - me]);
            let region = Region { len: 1 << 40, ..Region::DEFAULT };
            let base = QpConfig {
                send_psn: there.recv_psn,
                recv_psn: here.recv_psn,
                local_region: region,
                remote_region: region,
                ..QpConfig::new(here.qpn, there.qpn, there.mac, there.ip)
            };
            let config = schemes::queue_pair(self.scenario, self.scheme, base);
            ids[me] = host(network, hosts[me]).connect(config).map_err(|e| e.to_string())?;
        }
        let [here, there] = ends;
        if self.scenario.nic.connections == Connections::Known {
            return Ok((ids[0], None));
        }
        // At most 4096; a simulated one of 1000 counts as 1024.
        let pmtu = self.scenario.nic.pmtu.next_power_of_two() as u16;
        host(network, dst).cm.expect(there, here, pmtu);
        host(network, src).cm.ask(here, there, pmtu, now);
        Ok((ids[0], Some(here.comm)))
    }

    /// A connection has been made: the message that waits for it is due.
    pub(super) fn connected(&mut self, comm: CommId, now: Time) {
        if let Some(number) = self.connecting.remove(&comm) {
            self.due.push(Reverse((now, number)));
        }
    }

    /// A part of a message has ended.
    pub(super) fn completed(&mut self, completion: &Completion) {
        let number = completion.work.id as usize;
        let flow = &mut self.flows[number];
        flow.failed |= completion.status != Status::Ok;
        flow.left -= 1;
        if flow.left > 0 {
            return;
        }
        let FlowSpec { src, dst, round, traffic, .. } = flow.result.spec;
        if !flow.failed {
            flow.result.completed = Some(reported(completion.completed_at));
            self.idle.entry((src, dst)).or_default().extend(flow.qp);
        }
        self.unfinished -= 1;
        let open = self.open.entry((traffic, round)).or_default();
        *open -= 1;
        if *open == 0
            && let Some(next) = self.rounds.remove(&(traffic, round + 1))
        {
            for number in next {
                let gap = self.flows[number].result.spec.start.since(Time::ZERO);
                self.due.push(Reverse((completion.completed_at + gap, number)));
            }
        }
    }

    /// Messages that ended in error.
    pub(super) fn failed(&self) -> u64 {
        self.flows.iter().filter(|flow| flow.failed).count() as u64
    }

    /// The results of the messages.
    pub(super) fn into_results(self) -> Vec<FlowResult> {
        self.flows.into_iter().map(|flow| flow.result).collect()
    }
}

fn host(network: &mut Network, number: u32) -> &mut Host {
    let Node::Host(host) = &mut network.nodes[number as usize] else {
        unreachable!("hosts come first")
    };
    host
}
