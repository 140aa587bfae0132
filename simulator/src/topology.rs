//! Who is joined to whom: from a scenario to nodes and cables.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use common::wire::Addr;
use link::{DirectionConfig, LossModel};
use rnic::NicConfig;

use crate::net::{Cable, Marking, PathConfig, Plug, Route, Switch, SwitchConfig};
use crate::node::{Agent, Gateway, Host, LAN, Node, WAN};
use crate::path::{packet_wire_bytes, timeout};
use crate::run::START;
use crate::scenario::{LossIn, Scenario, Topology, WanPath};
use crate::scheme::Scheme;
use crate::schemes::{Place, SchemeModel, model};

/// The random streams of marks at WAN ports, above those of cables.
const PORT_STREAMS: u64 = 1 << 53;

/// The first host's address is the next one.
const NETWORK: u32 = 0x0a80_0000;

/// A network that can be run.
pub struct Network {
    /// Hosts, switches, gateways.
    pub nodes: Vec<Node>,
    /// Both directions of everything that joins them.
    pub cables: Vec<Cable>,
    /// For each node, for each port: the cable that leaves it.
    pub leaving: Vec<Vec<usize>>,
    /// Hosts per site; they are the first nodes, site 0 first.
    pub hosts_per_site: u32,
    /// Which nodes are gateways.
    pub gateways: Vec<usize>,
}

impl Network {
    /// For each cable, the names of the nodes at its ends: "host 3", "switch 0",
    /// "gateway 1"; each kind is numbered through both sites.
    pub fn cable_names(&self) -> Vec<(String, String)> {
        let mut count = [0; 3];
        let name = |node: &Node| {
            let (kind, word) = match node {
                Node::Host(_) => (0, "host"),
                Node::Switch(_) => (1, "switch"),
                Node::Gateway(_) => (2, "gateway"),
            };
            count[kind] += 1;
            format!("{word} {}", count[kind] - 1)
        };
        let nodes: Vec<String> = self.nodes.iter().map(name).collect();
        let mut from = vec![0; self.cables.len()];
        for (node, cables) in self.leaving.iter().enumerate() {
            for cable in cables {
                from[*cable] = node;
            }
        }
        let ends = from.iter().zip(&self.cables);
        ends.map(|(from, cable)| (nodes[*from].clone(), nodes[cable.to.node].clone())).collect()
    }
}

/// The address of a host.
pub fn host_ip(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(NETWORK + 1 + host))
}

/// The MAC address of a host.
pub fn host_mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = host.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// The host with that address.
fn host_of(addr: Addr) -> u32 {
    match addr.to_ip() {
        IpAddr::V4(ip) => ip.to_bits().wrapping_sub(NETWORK + 1),
        IpAddr::V6(_) => u32::MAX,
    }
}

struct Builder<'s> {
    scenario: &'s Scenario,
    model: &'static dyn SchemeModel,
    seed: u64,
    /// The site that is being built.
    site: usize,
    network: Network,
}

impl Builder<'_> {
    fn add(&mut self, node: Node, ports: usize) -> usize {
        self.network.nodes.push(node);
        self.network.leaving.push(vec![usize::MAX; ports]);
        self.network.nodes.len() - 1
    }

    fn add_switch(&mut self, rates: &[u64], route: Route) -> usize {
        let site = &self.scenario.site;
        let config = SwitchConfig {
            buffer: site.buffer,
            shared: site.shared_buffer,
            ecn: site.ecn,
            pfc: site.pfc,
        };
        let number = self.network.nodes.len() as u64;
        let switch = Switch::new(config, rates, route, self.seed, number);
        self.add(Node::Switch(Box::new(switch)), rates.len())
    }

    fn add_gateway(&mut self, lan_rate: u64) -> usize {
        let number = self.network.gateways.len() as u32;
        let rates = [lan_rate, self.scenario.long_haul.rate];
        let place = Place { scenario: self.scenario, number, rates };
        let inside = self.model.gateway(&place);
        let model = &self.scenario.gateway;
        let haul = &self.scenario.long_haul;
        let wan: Vec<_> = if haul.has_own_ports {
            let port = |(n, path): (usize, &WanPath)| {
                let stream = PORT_STREAMS + (u64::from(number) << 6) + n as u64;
                (path.rate.unwrap_or(haul.rate), Marking::new(path.ecn, self.seed, stream))
            };
            haul.paths.iter().enumerate().map(port).collect()
        } else {
            vec![(haul.rate, Marking::new(None, self.seed, 0))]
        };
        let ports = 1 + wan.len();
        let gateway = Gateway::new(inside, lan_rate, wan, model.lan_queue, model.queue);
        let node = self.add(Node::Gateway(Box::new(gateway)), ports);
        self.network.gateways.push(node);
        node
    }

    /// The rate of a switch's port towards a gateway: it is shaped to what the long haul
    /// carries behind the gateway's headers, so that a queue for the long haul builds up
    /// where the site marks and pauses.
    fn border_rate(&self) -> u64 {
        let packet = packet_wire_bytes(self.scenario.nic.pmtu.into());
        let behind = packet + self.model.headers(self.scenario);
        (u128::from(self.scenario.long_haul.rate) * u128::from(packet) / u128::from(behind)) as u64
    }

    /// Joins two ports by a cable of the site.
    fn join(&mut self, a: (usize, usize), b: (usize, usize)) {
        let site = &self.scenario.site;
        let is_here = match site.loss_in {
            LossIn::Both => true,
            LossIn::Source => self.site == 0,
            LossIn::Destination => self.site == 1,
        };
        let is_ideal = !is_here || site.loss == 0.0 || self.model.is_lossless();
        let loss = if is_ideal { LossModel::None } else { LossModel::Bernoulli(site.loss) };
        let direction = DirectionConfig { delay: site.delay, loss, ..DirectionConfig::default() };
        let config = PathConfig { direction, ..PathConfig::default() };
        self.cable(a, b, std::slice::from_ref(&config), None);
        self.cable(b, a, &[config], None);
    }

    /// Joins two gateways.
    fn join_sites(&mut self, near: usize, far: usize) {
        let all = self.scenario.long_haul.all_paths();
        let is_ideal = self.model.is_lossless();
        for (from, to) in [(near, far), (far, near)] {
            let has_own_ports = self.scenario.long_haul.has_own_ports;
            let path = |path: &WanPath| PathConfig {
                direction: DirectionConfig {
                    rate: path.rate.filter(|_| !has_own_ports),
                    queue: if is_ideal { u64::MAX } else { path.queue },
                    delay: path.delay,
                    jitter: path.jitter,
                    loss: match if from == near { path.loss } else { path.loss_back } {
                        _ if is_ideal => LossModel::None,
                        loss => loss,
                    },
                    outage: path.outage.filter(|_| !is_ideal),
                    reordering: path.reordering.filter(|_| !is_ideal).unwrap_or_default(),
                    ..DirectionConfig::default()
                },
                ecn: path.ecn.filter(|_| !has_own_ports),
            };
            let paths: Vec<_> = all.iter().map(path).collect();
            if !has_own_ports {
                let rate = Some(self.scenario.long_haul.rate);
                self.cable((from, WAN), (to, WAN), &paths, rate);
                continue;
            }
            for (n, path) in paths.iter().enumerate() {
                let ends = ((from, WAN + n), (to, WAN + n));
                self.cable(ends.0, ends.1, std::slice::from_ref(path), all[n].rate);
            }
        }
    }

    fn cable(
        &mut self,
        from: (usize, usize),
        to: (usize, usize),
        paths: &[PathConfig],
        long_haul: Option<u64>,
    ) {
        let number = self.network.cables.len();
        let to = Plug { node: to.0, port: to.1 };
        let cable = Cable::new(paths, to, long_haul, START, [self.seed, number as u64]);
        self.network.leaving[from.0][from.1] = number;
        self.network.cables.push(cable);
    }

    /// A switch for all hosts of a site, and a gateway.
    ///
    /// A gateway sends into its site at the fabric's rate, the switch to the gateway at
    /// [`border_rate`](Self::border_rate).
    fn dumbbell_site(&mut self, hosts: Range<u32>) -> usize {
        let (host_rate, border_rate) = (self.scenario.site.host_rate, self.border_rate());
        let count = hosts.len();
        let mut rates = vec![host_rate; count];
        rates.push(border_rate);
        let local = hosts.clone();
        let switch = self.add_switch(
            &rates,
            Box::new(move |addr| match host_of(addr) {
                host if local.contains(&host) => one((host - local.start) as usize),
                _ => one(count),
            }),
        );
        for (port, host) in hosts.enumerate() {
            self.join((host as usize, 0), (switch, port));
        }
        let gateway = self.add_gateway(self.scenario.site.fabric_rate);
        self.join((switch, count), (gateway, LAN));
        gateway
    }

    /// Leaves, spines, a border switch; a gateway for each long-haul link, at the
    /// rates of [`dumbbell_site`](Self::dumbbell_site).
    fn leaf_spine_site(
        &mut self,
        hosts: Range<u32>,
        [leaves, spines, hosts_per_leaf, long_hauls]: [usize; 4],
    ) -> Vec<usize> {
        let site = &self.scenario.site;
        let (host_rate, fabric_rate) = (site.host_rate, site.fabric_rate);
        let border_rate = self.border_rate();
        let first = hosts.start;
        let leaf_of = move |host: u32| (host - first) as usize / hosts_per_leaf;

        let leaf_nodes: Vec<usize> = (0..leaves)
            .map(|leaf| {
                let mut rates = vec![host_rate; hosts_per_leaf];
                rates.extend(vec![fabric_rate; spines]);
                let hosts = hosts.clone();
                let node = self.add_switch(
                    &rates,
                    Box::new(move |addr| match host_of(addr) {
                        host if hosts.contains(&host) && leaf_of(host) == leaf => {
                            one((host - first) as usize % hosts_per_leaf)
                        }
                        _ => hosts_per_leaf..hosts_per_leaf + spines,
                    }),
                );
                for port in 0..hosts_per_leaf {
                    let host = first as usize + leaf * hosts_per_leaf + port;
                    self.join((host, 0), (node, port));
                }
                node
            })
            .collect();
        let mut rates = vec![fabric_rate; spines];
        rates.extend(vec![border_rate; long_hauls]);
        let local = hosts.clone();
        let border = self.add_switch(
            &rates,
            Box::new(move |addr| match local.contains(&host_of(addr)) {
                true => 0..spines,
                false => spines..spines + long_hauls,
            }),
        );
        for spine in 0..spines {
            let hosts = hosts.clone();
            let node = self.add_switch(
                &vec![fabric_rate; leaves + 1],
                Box::new(move |addr| match host_of(addr) {
                    host if hosts.contains(&host) => one(leaf_of(host)),
                    _ => one(leaves),
                }),
            );
            for (leaf, &leaf_node) in leaf_nodes.iter().enumerate() {
                self.join((leaf_node, hosts_per_leaf + spine), (node, leaf));
            }
            self.join((node, leaves), (border, spine));
        }
        (0..long_hauls)
            .map(|haul| {
                let gateway = self.add_gateway(fabric_rate);
                self.join((border, spines + haul), (gateway, LAN));
                gateway
            })
            .collect()
    }
}

/// One port.
const fn one(port: usize) -> Range<usize> {
    port..port + 1
}

/// The network of `scenario` under `scheme`.
pub fn build(scenario: &Scenario, scheme: Scheme, seed: u64) -> Network {
    let (model, hosts_per_site) = (model(scheme), scenario.topology.hosts_per_site());
    let network = Network {
        nodes: Vec::new(),
        cables: Vec::new(),
        leaving: Vec::new(),
        hosts_per_site,
        gateways: Vec::new(),
    };
    let mut builder = Builder { scenario, model, seed, site: 0, network };
    let rate = scenario.site.host_rate;
    for host in 0..2 * hosts_per_site {
        let config =
            NicConfig { rate: Some(rate), ..NicConfig::new(host_mac(host), host_ip(host)) };
        let rnic = model.rnic(scenario, config);
        let cm = Agent::new(timeout(scenario));
        builder.add(Node::Host(Box::new(Host::new(rnic, cm, rate))), 1);
    }
    let sites = [0..hosts_per_site, hosts_per_site..2 * hosts_per_site];
    let gateways = [0, 1].map(|site| {
        builder.site = site;
        let hosts = sites[site].clone();
        match scenario.topology {
            Topology::Pair => {
                let gateway = builder.add_gateway(rate);
                builder.join((hosts.start as usize, 0), (gateway, LAN));
                vec![gateway]
            }
            Topology::Dumbbell { .. } => vec![builder.dumbbell_site(hosts)],
            Topology::LeafSpine { leaves, spines, hosts_per_leaf, long_hauls } => {
                let sizes = [leaves, spines, hosts_per_leaf, long_hauls].map(|n| n as usize);
                builder.leaf_spine_site(hosts, sizes)
            }
        }
    });
    for (near, far) in gateways[0].iter().zip(&gateways[1]) {
        builder.join_sites(*near, *far);
    }
    builder.network
}
