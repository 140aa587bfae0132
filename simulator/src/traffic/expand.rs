//! Expands a scenario's traffic to single messages.

use std::ops::Range;

use common::time::Time;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{FlowSpec, PACKET_OVERHEAD};
use crate::scenario::{Scenario, Scope, SizeDistribution, Topology, Traffic};

/// The upper half of the numbers of the traffic's random streams, which no other part of the
/// simulation uses with the same seed.
const STREAMS: u64 = 0x7472_6166_6669_6300;

/// The messages of `scenario`, sorted by start.
///
/// They follow from the scenario and `seed` alone, and each entry of
/// [`Scenario::traffic`] has a random stream of its own: an entry more leaves
/// the messages of those before it as they were. Every scheme gets the same.
///
/// Later rounds of [`Traffic::Rounds`] start when the round before has ended;
/// they stand in the list by the time between the two.
///
/// # Panics
/// If there is no host to send to ([`Scope::Within`] with one host per site), or there are
/// more than 65,536 entries. [`crate::input`] refuses both.
pub fn expand(scenario: &Scenario, seed: u64) -> Vec<FlowSpec> {
    let mut flows = Vec::new();
    for (i, traffic) in scenario.traffic.iter().enumerate() {
        let number = u16::try_from(i).expect("no scenario has more than 65,536 kinds of traffic");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(STREAMS + u64::from(number));
        let first = flows.len();
        match traffic {
            Traffic::Long { bytes, flows: count } => long(scenario, *bytes, *count, &mut flows),
            Traffic::Poisson { sizes, load, flows: count, scope } => {
                let mean_gap = mean_gap(scenario, sizes, *load, *scope);
                let pairs = Pairs::new(scenario.topology, *scope);
                poisson(sizes, mean_gap, *count, pairs, &mut rng, &mut flows);
            }
            Traffic::Rounds { flows: count, bytes, rounds, gap } => {
                let later = Time::ZERO + *gap;
                let pairs = distinct_pairs(scenario, *count, &mut rng);
                for round in 0..*rounds {
                    let start = if round == 0 { Time::ZERO } else { later };
                    let message = |&(src, dst)| message(start, src, dst, *bytes, round);
                    flows.extend(pairs.iter().map(message));
                }
            }
            Traffic::Incast { flows: count, bytes, spread } => {
                let sources = (0..scenario.topology.hosts_per_site()).cycle();
                let target = scenario.topology.hosts_per_site();
                flows.extend(sources.take(*count as usize).map(|src| {
                    let start = Time::from_nanos(rng.random_range(0..=spread.as_nanos()));
                    message(start, src, target, *bytes, 0)
                }));
            }
            Traffic::Trace(list) => flows.extend_from_slice(list),
        }
        for flow in &mut flows[first..] {
            flow.traffic = number;
        }
    }
    // Stable: flows that start at once stay in the order of the scenario.
    flows.sort_by_key(|flow| flow.start);
    flows
}

/// Mean time between two messages of a Poisson entry in nanoseconds, over all
/// the hosts that it uses: as long as its mean message takes, payload and
/// headers, at the offered load.
fn mean_gap(scenario: &Scenario, sizes: &SizeDistribution, load: f64, scope: Scope) -> f64 {
    let links = |count: u32, rate: u64| f64::from(count) * rate as f64;
    let capacity = match scope {
        Scope::Forward => links(long_hauls(scenario.topology), scenario.long_haul.rate),
        Scope::Between => links(2 * long_hauls(scenario.topology), scenario.long_haul.rate),
        Scope::Within => links(2 * scenario.topology.hosts_per_site(), scenario.site.host_rate),
    };
    let packets = sizes.mean_packets(scenario.nic.pmtu);
    let bits = 8.0 * (sizes.mean() + packets * PACKET_OVERHEAD as f64);
    1e9 * bits / (load * capacity)
}

const fn long_hauls(topology: Topology) -> u32 {
    match topology {
        Topology::Pair | Topology::Dumbbell { .. } => 1,
        Topology::LeafSpine { long_hauls, .. } => long_hauls,
    }
}

const fn message(start: Time, src: u32, dst: u32, bytes: u64, round: u32) -> FlowSpec {
    FlowSpec { start, src, dst, bytes, round, traffic: 0 }
}

fn long(scenario: &Scenario, bytes: u64, count: u32, flows: &mut Vec<FlowSpec>) {
    let hosts = scenario.topology.hosts_per_site();
    let pair = |i: u32| (i % hosts, hosts + i % hosts);
    flows.extend((0..count).map(pair).map(|(src, dst)| message(Time::ZERO, src, dst, bytes, 0)));
}

fn poisson(
    sizes: &SizeDistribution,
    mean_gap: f64,
    count: u32,
    pairs: Pairs,
    rng: &mut ChaCha8Rng,
    flows: &mut Vec<FlowSpec>,
) {
    let mut at = 0.0_f64;
    for _ in 0..count {
        // By inversion; 1 − u is never 0. Not the logarithm of the C library,
        // whose last digit depends on the machine.
        at -= mean_gap * libm::log(1.0 - rng.random::<f64>());
        let bytes = sizes.sample(rng.random::<f64>());
        let (src, dst) = pairs.pick(rng);
        flows.push(message(Time::from_nanos(at as u64), src, dst, bytes, 0));
    }
}

/// Between which hosts random messages go.
struct Pairs {
    hosts: u32,
    scope: Scope,
}

impl Pairs {
    fn new(topology: Topology, scope: Scope) -> Self {
        let hosts = topology.hosts_per_site();
        let enough = if scope == Scope::Within { 2 } else { 1 };
        assert!(hosts >= enough, "{hosts} hosts per site, at least {enough} needed for {scope:?}");
        Self { hosts, scope }
    }

    fn site(&self, number: u32) -> Range<u32> {
        number * self.hosts..(number + 1) * self.hosts
    }

    fn pick(&self, rng: &mut ChaCha8Rng) -> (u32, u32) {
        match self.scope {
            Scope::Forward => (rng.random_range(self.site(0)), rng.random_range(self.site(1))),
            Scope::Between => {
                let from = rng.random_range(0..2);
                (rng.random_range(self.site(from)), rng.random_range(self.site(1 - from)))
            }
            Scope::Within => {
                let site = self.site(rng.random_range(0..2));
                let src = rng.random_range(site.clone());
                // One of the others: the last stands in for the source.
                let dst = rng.random_range(site.start..site.end - 1);
                (src, if dst == src { site.end - 1 } else { dst })
            }
        }
    }
}

/// `count` pairs of hosts of site 0 and site 1, the same in each round; no host
/// is used again before all of its site are in use.
fn distinct_pairs(scenario: &Scenario, count: u32, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
    let hosts = scenario.topology.hosts_per_site();
    let mut from: Vec<u32> = (0..hosts).collect();
    let mut to: Vec<u32> = (hosts..2 * hosts).collect();
    from.shuffle(rng);
    to.shuffle(rng);
    from.into_iter().zip(to).cycle().take(count as usize).collect()
}
