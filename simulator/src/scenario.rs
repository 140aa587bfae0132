//! A simulated scenario: the network, its hosts, their load.
//!
//! Everything here is plain data. [`input`](crate::input) reads it from a file and checks
//! it. A value that a scenario leaves open (`None`) follows from the rest when it is run.

use common::time::Span;
use link::LossModel;
pub use rnic::Dcqcn;
pub use tunnel::spray::Policy;

use crate::scheme::Scheme;
use crate::traffic::FlowSpec;

/// A simulation, to be run once per scheme and seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// A word for it, in tables and file names.
    pub name: String,
    /// A sentence on it, for the report.
    pub about: String,
    /// The schemes to compare.
    pub schemes: Vec<Scheme>,
    /// Seeds of the runs; at least one. Figures are over all of them.
    pub seeds: Vec<u64>,
    /// Virtual time at which a run ends, done or not.
    pub limit: Span,
    /// How often pools are looked at.
    pub sample_every: Span,
    /// Who is connected with whom.
    pub topology: Topology,
    /// The link between the two sites.
    pub long_haul: LongHaul,
    /// The network within a site.
    pub site: Site,
    /// The hosts' RNICs.
    pub nic: NicModel,
    /// The gateways, and the switches of the peers.
    pub gateway: GatewayModel,
    /// The hosts' load, all of it at the same time.
    pub traffic: Vec<Traffic>,
}

/// Who is connected with whom. There are two sites; hosts are numbered through,
/// site 0 first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A host at each end, its NIC plugged into the gateway.
    Pair,
    /// So many hosts at each end, behind one switch.
    Dumbbell {
        /// Hosts per site, at least 1.
        hosts: u32,
    },
    /// Two leaf–spine fabrics. The spines of a site are joined to its border
    /// switch, which has one gateway per long-haul link.
    LeafSpine {
        /// Leaf switches per site, at least 1.
        leaves: u32,
        /// Spine switches per site, at least 1.
        spines: u32,
        /// Hosts per leaf switch, at least 1.
        hosts_per_leaf: u32,
        /// Long-haul links between the sites, at least 1; a flow stays on one.
        long_hauls: u32,
    },
}

impl Topology {
    /// Hosts per site.
    pub const fn hosts_per_site(self) -> u32 {
        match self {
            Self::Pair => 1,
            Self::Dumbbell { hosts } => hosts,
            Self::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
        }
    }
}

/// The link between two gateways; the same in both directions but for the loss.
#[derive(Clone, PartialEq, Debug)]
pub struct LongHaul {
    /// bit/s on the wire, of the gateways' WAN ports: all paths together have no less.
    pub rate: u64,
    /// Propagation delay, one way; of several paths, that of the shortest.
    pub delay: Span,
    /// Further delay per frame, uniform from zero; frames keep their order.
    pub jitter: Span,
    /// From site 0 to site 1.
    pub loss: LossModel,
    /// From site 1 to site 0.
    pub loss_back: LossModel,
    /// Both directions are dead for a time.
    pub outage: Option<link::Outage>,
    /// Frames that take a detour and may be overtaken, in both directions.
    pub reordering: Option<link::Reordering>,
    /// Several paths that begin and end at the same two ports, each with properties of its own in place of
    /// those above; empty: one path, with those.
    pub paths: Vec<WanPath>,
    /// Whether each path begins at WAN ports of its own, rather than behind one.
    pub has_own_ports: bool,
}

/// One of several paths between two gateways.
#[derive(Clone, PartialEq, Debug)]
pub struct WanPath {
    /// bit/s on the wire of the path's own line, in each direction; `None`: that of the WAN port is the only one.
    pub rate: Option<u64>,
    /// Bytes on the wire that may wait for that line; a frame beyond is lost.
    pub queue: u64,
    /// Marking of frames that join that queue; `None`: no marks.
    pub ecn: Option<Ecn>,
    /// Propagation delay, one way.
    pub delay: Span,
    /// Further delay per frame, uniform from zero; frames keep their order.
    pub jitter: Span,
    /// From site 0 to site 1.
    pub loss: LossModel,
    /// From site 1 to site 0.
    pub loss_back: LossModel,
    /// Both directions are dead for a time.
    pub outage: Option<link::Outage>,
    /// Frames that take a detour and may be overtaken, in both directions.
    pub reordering: Option<link::Reordering>,
}

impl LongHaul {
    /// The paths between two gateways, at least one.
    pub fn all_paths(&self) -> Vec<WanPath> {
        if !self.paths.is_empty() {
            return self.paths.clone();
        }
        vec![WanPath {
            rate: None,
            queue: u64::MAX,
            ecn: None,
            delay: self.delay,
            jitter: self.jitter,
            loss: self.loss,
            loss_back: self.loss_back,
            outage: self.outage,
            reordering: self.reordering,
        }]
    }

    /// Round trip on this link alone: there and back on the shortest path.
    pub const fn rtt(&self) -> Span {
        self.delay.scale(2, 1)
    }

    /// One-way delay of the longest path.
    pub fn longest_delay(&self) -> Span {
        self.paths.iter().map(|path| path.delay).max().unwrap_or(self.delay)
    }

    /// Bandwidth-delay product of a round trip, bytes on the wire.
    pub const fn bdp(&self) -> u64 {
        self.rtt().scale(self.rate, 8_000_000_000).as_nanos()
    }
}

/// Switches and cables within a site.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// bit/s of the cable between a host and its switch.
    pub host_rate: u64,
    /// bit/s between the switches of a site, and from a gateway to its switch.
    pub fabric_rate: u64,
    /// Propagation delay of each cable.
    pub delay: Span,
    /// Random loss on each cable.
    pub loss: f64,
    /// On whose cables.
    pub loss_in: LossIn,
    /// Buffer of a switch in bytes.
    pub buffer: u64,
    /// Whether all ports of a switch share that buffer, or each has its part.
    pub shared_buffer: bool,
    /// Marking of the data queues; `None`: no marks.
    pub ecn: Option<Ecn>,
    /// Priority flow control; `None`: a full queue drops.
    pub pfc: Option<Pfc>,
}

/// The sites whose cables lose packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossIn {
    /// Both.
    Both,
    /// Site 0.
    Source,
    /// Site 1.
    Destination,
}

/// ECN marking by the length of the queue a frame joins (RED as in DCQCN's
/// paper): never below `kmin`, always from `kmax` on, and with a probability
/// that rises to `pmax` in between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ecn {
    /// Bytes.
    pub kmin: u64,
    /// Bytes, not less than `kmin`.
    pub kmax: u64,
    /// 0 to 1.
    pub pmax: f64,
}

/// Priority flow control, per ingress port (IEEE 802.1Qbb).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pfc {
    /// Bytes buffered from one port at which it is paused.
    pub xoff: u64,
    /// Bytes at which it is resumed; less than `xoff`.
    pub xon: u64,
}

/// The hosts' RNICs.
#[derive(Clone, PartialEq, Debug)]
pub struct NicModel {
    /// Path MTU in bytes of payload: 256, 512, 1024, 2048 or 4096.
    pub pmtu: u32,
    /// Packets a queue pair may have unacknowledged; `None`: three bandwidth-delay
    /// products of the longest path.
    pub window: Option<u32>,
    /// An ACK is requested at least every so many packets, at least 1.
    pub ack_req_every: u32,
    /// Retransmission timeout; `None`: four round trips, at least 16.8 ms
    /// (exponent 12).
    pub timeout: Option<Span>,
    /// Tries without progress before a queue pair fails; `None`: without end.
    pub retries: Option<u8>,
    /// How often [`Scheme::GBN_RENAK`] repeats a NAK.
    pub re_nak: Span,
    /// Congestion control; `None`: each NIC sends at its line rate.
    pub dcqcn: Option<Dcqcn>,
    /// Whether each NAK counts as a CNP too.
    pub cnp_with_nak: bool,
    /// Most packets that [`Scheme::IRN`] may have in flight and its bitmap
    /// covers; `None`: as [`window`](Self::window). The paper has one bandwidth-delay
    /// product.
    pub irn_cap: Option<u32>,
    /// Whether messages have content that is checked at the far end; without, a
    /// run gives the same results sooner.
    pub content: bool,
    /// How queue pairs are connected.
    pub connections: Connections,
}

/// How two hosts exchange the numbers of their queue pairs. In every case the next message
/// between the same hosts uses the queue pair again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connections {
    /// By connection management over the same network, as rdma_cm does it: a
    /// message that finds no idle queue pair waits for one to be connected, and is
    /// posted then.
    Managed,
    /// In another way, at once and unseen by the gateways, as NCCL and perftest do
    /// over TCP.
    Known,
}

/// The boxes at the ends of the long-haul link.
#[derive(Clone, PartialEq, Debug)]
pub struct GatewayModel {
    /// Memory for packets in each gateway, bytes: the same for every scheme, which
    /// divides it among its pools.
    pub budget: u64,
    /// Reordering pools of a gateway of the product, bytes; `None`: its part of
    /// the budget.
    pub reorder: Option<u64>,
    /// Backup pools, likewise.
    pub backup: Option<u64>,
    /// Resend caches, likewise.
    pub cache: Option<u64>,
    /// Reordering pool of [`Scheme::LR2_PAPER`], bytes; `None`: the budget
    /// without the backup pool.
    pub paper_reorder: Option<u64>,
    /// Backup pool of [`Scheme::LR2_PAPER`], bytes; `None`: the bandwidth-delay product
    /// of a site, at least 50 kB.
    pub paper_backup: Option<u64>,
    /// Buffer of each switch of [`Scheme::NETRT`], bytes; `None`: the budget.
    pub netrt_buffer: Option<u64>,
    /// Limit of a queue at a gateway's port, bytes.
    pub queue: u64,
    /// Whether the product's Depot delivers held packets at the pace at which they
    /// came.
    pub pacing: bool,
    /// Whether the product's Depot sends CNPs for congestion behind it.
    pub cnp: bool,
    /// How data frames wait at the port towards the hosts.
    pub lan_queue: LanQueue,
    /// How [`Scheme::TUNNEL`] carries frames.
    pub tunnel: Carriage,
    /// Lanes of [`Scheme::TUNNEL`], at least 1.
    pub lanes: u8,
    /// How [`Scheme::TUNNEL`] chooses the lane of a frame.
    pub spray: Policy,
    /// Whether the boxes of [`Scheme::TUNNEL`] repair the losses of their LANs too.
    pub lan: LanRepair,
}

/// Which packets the repair of the LANs looks at, beside the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanRepair {
    /// None.
    Off,
    /// Those of two hosts from a NAK between them on.
    Auto,
    /// All.
    On,
}

/// How the tunnel's frames look on the long haul.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carriage {
    /// Behind an EtherType. Lane k is joined to path k, modulo their number.
    Ethernet,
    /// In UDP over IPv4, a source port for each lane; routers choose the path by addresses and ports.
    Udp,
}

/// The order in which data frames leave a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanQueue {
    /// As they came.
    Fifo,
    /// Deficit round robin between flows, as in the product.
    Fair,
}

/// A load.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// One message at time zero, from each of so many hosts of site 0 to its
    /// counterpart in site 1.
    Long {
        /// Bytes of each.
        bytes: u64,
        /// How many of them; more than there are hosts share the hosts.
        flows: u32,
    },
    /// Messages of random size at random times.
    Poisson {
        /// Their sizes.
        sizes: SizeDistribution,
        /// Offered load. Between the sites: as a share of all long-haul links,
        /// each direction that is used; within a site: of each host's link.
        load: f64,
        /// How many messages in all.
        flows: u32,
        /// Where they go.
        scope: Scope,
    },
    /// A synchronised collective: `flows` messages at once from
    /// different hosts of site 0 to different hosts of site 1, and the next
    /// round `gap` after the last has ended.
    Rounds {
        /// Messages per round.
        flows: u32,
        /// Bytes of each.
        bytes: u64,
        /// How many rounds.
        rounds: u32,
        /// Time between the end of a round and the next.
        gap: Span,
    },
    /// Many to one: `flows` messages from the hosts of site 0 in turn to the
    /// first host of site 1, each at a random time within `spread`.
    Incast {
        /// How many messages; more than there are hosts share the hosts.
        flows: u32,
        /// Bytes of each.
        bytes: u64,
        /// From the first possible start to the last.
        spread: Span,
    },
    /// A list of messages.
    Trace(Vec<FlowSpec>),
}

/// Between which hosts random messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// From site 0 to site 1.
    Forward,
    /// Between the sites, either way.
    Between,
    /// Within each of the sites.
    Within,
}

/// Message sizes: a cumulative distribution, linear between its points.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeDistribution {
    /// A word for it.
    pub name: String,
    /// (bytes, cumulative share from 0 to 1), both rising, the last share 1.
    pub points: Vec<(f64, f64)>,
}
