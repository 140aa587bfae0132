//! The configuration: one TOML file, read and checked whole.
//!
//! [`load`] gives a typed [`Config`] for each pair of ports, in which every default has been filled
//! in, or a [`Report`] of everything that is wrong at once. They
//! print ([`std::fmt::Display`]) as a TOML file with the same meaning.
//!
//! `keys` is the table of keys, and `row` is all that can be done with a row of it. The steps, a file each: `port_pairs` divides
//! the file into pairs of ports, `read` reads the keys, `pairs` those of queue pairs, `secret` the files of keys, `udp` checks the
//! addresses of a tunnel, `check` finds settings that contradict each other or cannot work, `capacity` computes the mbufs and the
//! memory that it takes and states them, `machine` reads the memory, hugepages and CPUs of a machine, `fit` compares the two,
//! `values` prints a configuration, lists its values for the API and compares two. `reference` compares `docs/configuration.md`
//! with the table. Reading a file with positions is the crate `settings`.

mod capacity;
mod check;
mod fit;
mod keys;
mod machine;
mod pairs;
mod port_pairs;
mod read;
#[cfg(test)]
mod reference;
mod row;
mod secret;
#[cfg(test)]
pub(crate) mod tests;
mod udp;
pub(crate) mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{fmt, iter};

use common::control::NodeId;
use common::time::Span;
use common::verdict::Mode;
pub use common::wire::Spread;

pub use capacity::{BACKLOG, HANDOFF, Statement};
pub use machine::{Machine, Node, Pages};
pub use port_pairs::{Beside, Pair, Pairs};
pub(crate) use read::{BURST_MAX, WORKERS};
pub use row::Applied;
pub use secret::{Keying, Secret};
pub use settings::sizing::FRAME_OVERHEAD;
pub use settings::{Problem, Report, word};
pub use switch::{End, IpNet, Pools, QueuePair, Recovery, Role, Tuning};
use tunnel::Lane;
use tunnel::spray::Policy;
pub use values::{Difference, differences, is_settable, keep_requested, parameters, with};

/// The words for [`Role`], in the file and on the command line.
pub const ROLES: &[(&str, Role)] =
    &[("sentry", Role::Sentry), ("depot", Role::Depot), ("both", Role::Both)];

/// The words for whether sources are told of congestion on their destination's LAN: `auto`, where
/// they are known.
pub const NOTIFIES: &[(&str, bool)] = &[("auto", true), ("off", false)];

/// The words for [`Recovery`].
pub const RECOVERIES: &[(&str, Recovery)] = &[
    ("off", Recovery::Off),
    ("lr2", Recovery::Lr2),
    ("cached", Recovery::Cached),
    ("auto", Recovery::Auto),
];

/// How a worker waits when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Poll on: lowest latency, one whole core.
    Busy,
    /// Pause, then sleep in growing steps: for shared cores and trials.
    Adaptive,
}

/// The words for [`Idle`].
pub const IDLES: &[(&str, Idle)] = &[("busy", Idle::Busy), ("adaptive", Idle::Adaptive)];

/// Whether DPDK's memory comes from hugepages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// If enough are free.
    Auto,
    /// No.
    Never,
    /// Yes, or don't start.
    Require,
}

/// The words for [`HugePages`].
pub const HUGE_PAGES: &[(&str, HugePages)] =
    &[("auto", HugePages::Auto), ("never", HugePages::Never), ("require", HugePages::Require)];

/// Which ports follow the link of their counterpart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkForward {
    /// None.
    Off,
    /// The LAN port: it is taken down while no WAN port has a link.
    Lan,
    /// All: the WAN ports are also taken down while the LAN port has no link.
    On,
}

/// The words for [`LinkForward`].
pub const LINK_FORWARDS: &[(&str, LinkForward)] =
    &[("off", LinkForward::Off), ("lan", LinkForward::Lan), ("on", LinkForward::On)];

/// Link-loss forwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkLossSettings {
    /// Which ports follow.
    pub forward: LinkForward,
    /// How long a link has to be up again before the ports that followed it are released.
    pub hold_down: Span,
}

/// One port.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Port {
    /// A DPDK vdev with its arguments, or a PCI address.
    pub device: String,
    /// Largest Ethernet payload, bytes (VLAN tags not included).
    pub mtu: u16,
    /// Descriptors of the receive queue.
    pub rx_desc: u16,
    /// Descriptors of the transmit queue.
    pub tx_desc: u16,
    /// Receive frames for any MAC address. A wire needs it.
    pub promiscuous: bool,
}

impl Port {
    /// Whether the device is a PCI function and not a vdev.
    pub fn is_pci(&self) -> bool {
        !settings::device::is_virtual(&self.device)
    }
}

/// A port towards the long-haul link.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wan {
    /// Its section of the file: `wan`, or `wan[1]` for the first of several.
    pub section: String,
    /// The port.
    pub port: Port,
    /// The rate of the long-haul link in one direction, bit/s, if the file has it.
    pub link_rate: Option<u64>,
    /// With [`TunnelMode::Udp`]: the port's own address, with the prefix of its link.
    pub address: Option<IpNet>,
    /// With [`TunnelMode::Udp`]: the router towards a peer outside the prefix.
    pub gateway: Option<IpAddr>,
    /// With [`TunnelMode::Udp`]: the peer's address, of the same family.
    pub peer: Option<IpAddr>,
    /// DSCP of the outer header, 0 to 63; `None`: that of the frame within.
    pub dscp: Option<u8>,
    /// VLAN of the port's link; `None`: frames have no tag.
    pub vlan: Option<u16>,
}

impl Wan {
    /// With [`TunnelMode::Udp`]: the way to the peer.
    pub fn udp(&self) -> Option<UdpSettings> {
        let &Self { address, gateway, peer, dscp, vlan, .. } = self;
        Some(UdpSettings { address: address?, gateway, peer: peer?, dscp, vlan })
    }
}

/// How frames cross the WAN.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TunnelMode {
    /// As they came.
    #[default]
    Off,
    /// Numbered, behind a shim with an EtherType of its own.
    Ethernet,
    /// Numbered, in UDP between addresses of the two WAN ports.
    Udp,
}

/// The words for [`TunnelMode`].
pub const TUNNELS: &[(&str, TunnelMode)] =
    &[("off", TunnelMode::Off), ("ethernet", TunnelMode::Ethernet), ("udp", TunnelMode::Udp)];

/// Whether losses on the LANs are repaired beside the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanMode {
    /// No: the RNICs recover from them.
    Off,
    /// Those of all RoCE.
    On,
    /// Those between two hosts, from a NAK for a lost packet on until there was none for a minute.
    Auto,
}

/// The words for when a missing packet counts as lost.
pub const TOLERANCES: &[(&str, Mode)] =
    &[("auto", Mode::Auto), ("off", Mode::Off), ("fixed", Mode::Fixed)];

/// The words for [`LanMode`].
pub const LANS: &[(&str, LanMode)] =
    &[("off", LanMode::Off), ("on", LanMode::On), ("auto", LanMode::Auto)];

/// The tunnel to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TunnelSettings {
    /// Whether there is one, and its encapsulation.
    pub mode: TunnelMode,
    /// EtherType of its frames.
    pub ethertype: u16,
    /// UDP port of its datagrams, at both boxes.
    pub port: u16,
    /// How many there are: a power of two, at least one for each worker.
    pub tunnels: u8,
    /// Lanes of each WAN port, of each tunnel; by default 8 with [`TunnelMode::Udp`], else 1.
    pub lanes: u8,
    /// How a frame's lane is chosen.
    pub spray: Policy,
    /// Transmissions of a lost frame while much is lost, 1 or 2.
    pub resend_copies: u8,
    /// Whether its headers are those of IPv6.
    pub is_v6: bool,
}

/// The numbers of tunnels that there may be.
pub const TUNNEL_COUNTS: &[u32] = &[1, 2, 4, 8, 16, 32, 64];

/// The words for [`Policy`].
pub const SPRAYS: &[(&str, Policy)] = &[
    ("earliest", Policy::Earliest),
    ("pinned", Policy::Pinned),
    ("oblivious", Policy::Oblivious),
    ("reps", Policy::Reps),
    ("strack", Policy::Strack),
];

impl TunnelSettings {
    /// Bytes by which the headers of the tunnel make a frame longer, a retransmission's.
    pub const fn headers(&self) -> u16 {
        let shim = tunnel::shim::RESENT_LEN as u16;
        match self.mode {
            TunnelMode::Ethernet => 2 + shim,
            // An Ethernet header, IP, UDP.
            TunnelMode::Udp if self.is_v6 => 14 + 40 + 8 + shim,
            TunnelMode::Udp => 14 + 20 + 8 + shim,
            TunnelMode::Off => 0,
        }
    }
}

/// The WAN port's address, and the way to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSettings {
    /// The port's own address, with the prefix of its link.
    pub address: IpNet,
    /// The router towards a peer outside the prefix.
    pub gateway: Option<IpAddr>,
    /// The peer's address, of the same family.
    pub peer: IpAddr,
    /// DSCP of the outer header, 0 to 63; `None`: that of the frame within.
    pub dscp: Option<u8>,
    /// VLAN of the port's link; `None`: frames have no tag.
    pub vlan: Option<u16>,
}

/// DPDK's environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Eal {
    /// Use of hugepages.
    pub huge_pages: HugePages,
    /// Memory for mbufs, rings and DPDK itself, bytes, a multiple of 1 MiB.
    pub memory: u64,
    /// Tells the DPDK processes of one machine apart.
    pub file_prefix: String,
    /// The workers' CPUs in order, or empty to let them float.
    pub cores: Vec<u32>,
    /// Further EAL arguments.
    pub extra: Vec<String>,
}

/// The words for [`Spread`].
pub const SPREADS: &[(&str, Spread)] = &[("rss", Spread::Rss), ("mixed", Spread::Mixed)];

/// The workers that poll the two ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worker {
    /// How many there are; each has a queue of each port.
    pub count: u16,
    /// How pairs of hosts are divided among them.
    pub spread: Spread,
    /// How a worker waits when there is nothing to do.
    pub idle: Idle,
    /// Largest number of frames taken from a port at once.
    pub burst: u8,
    /// Flows that are looked after by all of them, in equal parts; those beyond
    /// pass as they are.
    pub max_flows: u32,
}

/// The box's identity, and how it talks to its peer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Peer {
    /// The file with the secret of new messages.
    pub key_file: Option<PathBuf>,
    /// The file with the second accepted secret while keys are being rotated.
    pub previous_key_file: Option<PathBuf>,
    /// There is no secret: for labs.
    pub lab_unkeyed: bool,
    /// The secrets that the files have.
    pub keying: Keying,
    /// BTH opcode of control messages, in the manufacturer range.
    pub control_opcode: u8,
    /// Which box this is, among all on the path. Not zero.
    pub node: NodeId,
    /// Where flows lead that are announced to a peer. Empty: everywhere.
    pub remote_prefixes: Vec<IpNet>,
    /// Where the boot id is kept.
    pub boot_file: PathBuf,
}

/// Measures against congestion behind the Depot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Congestion {
    /// Whether sources are sent CNPs.
    pub cnp: bool,
    /// Shortest time between two CNPs for a queue pair.
    pub cnp_interval: Span,
}

/// Repair of losses.
#[derive(Clone, Debug)]
pub struct RecoverySettings {
    /// How, without a tunnel.
    pub mode: Recovery,
    /// Repair of the LANs beside the tunnel; [`LanMode::Off`] where there is no tunnel.
    pub lan: LanMode,
    /// Bytes of frames that each pool may hold.
    pub pools: Pools,
    /// How often the Depot resends a frame of its backup pool.
    pub local_retries: u8,
    /// Whether packets held behind a gap are delivered at the pace at which they came,
    /// rather than in one burst.
    pub pacing: bool,
    /// Timers.
    pub tuning: Tuning,
}

/// The mempool of all frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pool {
    /// Number of mbufs.
    pub mbufs: u32,
    /// Largest frame that fits into one, bytes.
    pub data_room: u16,
    /// How many of them rings, queues and caches may tie up; the rest is
    /// for held frames.
    pub in_flight: u32,
}

impl Pool {
    /// The most frames that recovery may hold at a time.
    pub fn holdable(&self) -> u32 {
        self.mbufs.saturating_sub(self.in_flight)
    }
}

/// The effective configuration of a pair of ports. What several pairs have in common is the same in the
/// configuration of each.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read from.
    pub file: PathBuf,
    /// Which of several pairs it is.
    pub pair: Pair,
    /// The memory and workers of the pairs that stand before this one in the file.
    pub beside: Beside,
    /// Which half of the job this process does.
    pub role: Role,
    /// Towards the hosts.
    pub lan: Port,
    /// Towards the long-haul link: one port, or with a tunnel several.
    pub wan: Vec<Wan>,
    /// The tunnel over the long-haul link.
    pub tunnel: TunnelSettings,
    /// What happens to a port whose counterpart has lost its link.
    pub link_loss: LinkLossSettings,
    /// DPDK's environment.
    pub eal: Eal,
    /// The workers.
    pub worker: Worker,
    /// The peer and control messages.
    pub peer: Peer,
    /// Repair of losses.
    pub recovery: RecoverySettings,
    /// Measures against congestion.
    pub congestion: Congestion,
    /// Queue pairs that the operator names, for hosts whose connections are
    /// not made by rdma_cm.
    pub queue_pairs: Vec<QueuePair>,
    /// The mbuf pool.
    pub pool: Pool,
    /// Where the operator's API is served.
    pub listen: SocketAddr,
    /// The socket for requests that change something, if there is one.
    pub socket: Option<PathBuf>,
    /// The group whose members may open it as well.
    pub group: Option<String>,
    /// Records of the flight recorder of each worker, or tunnel.
    pub records: u32,
    /// How long frames still held may take to leave at the end.
    pub drain_timeout: Span,
    /// Settings that work but are probably mistakes; one line each.
    pub warnings: Vec<String>,
}

impl Config {
    /// Lanes of each tunnel in each direction.
    pub fn lanes(&self) -> u8 {
        u8::try_from(usize::from(self.tunnel.lanes) * self.wan.len()).unwrap_or(Lane::COUNT_MAX)
    }

    /// Parts into which pools and flows are divided: tunnels, or workers where there is no tunnel.
    pub fn parts(&self) -> u16 {
        match self.tunnel.mode {
            TunnelMode::Off => self.worker.count,
            TunnelMode::Ethernet | TunnelMode::Udp => self.tunnel.tunnels.into(),
        }
    }

    /// The MTU of all WAN ports: that of the one with the smallest.
    pub fn wan_mtu(&self) -> u16 {
        self.wan.iter().map(|wan| wan.port.mtu).min().unwrap_or_default()
    }

    /// All ports, each with its section of the file, the LAN port first.
    pub fn ports(&self) -> impl Iterator<Item = (&str, &Port)> {
        let wan = self.wan.iter().map(|wan| (&*wan.section, &wan.port));
        iter::once(("lan", &self.lan)).chain(wan)
    }
}

/// Why a file is not taken.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The problems.
    pub report: Report,
    /// The configuration, if it is right and this machine lacks resources for it.
    pub unfit: Option<Pairs>,
}

impl From<Report> for Refusal {
    fn from(report: Report) -> Self {
        Self { report, unfit: None }
    }
}

/// Reads and checks `file`. `role` overrides the file's. With a `machine`,
/// whether it can work there as well.
///
/// # Errors
/// All problems at once: an unreadable file, bad syntax, unknown keys, values of the wrong type or
/// out of range, settings that contradict each other or cannot work together; in a right file,
/// more memory, hugepages or CPUs than there are.
pub fn load(file: &Path, role: Option<Role>, machine: Option<&Machine>) -> Result<Pairs, Refusal> {
    parse(file, &settings::read(file)?, role, machine)
}

/// Like [`load`], of a text already in memory. Key files are still read.
///
/// # Errors
/// As [`load`].
pub fn parse(
    file: &Path,
    text: &str,
    role: Option<Role>,
    machine: Option<&Machine>,
) -> Result<Pairs, Refusal> {
    port_pairs::read(file, text, role, machine)
}

/// The same, of a file with a single pair of ports.
#[cfg(test)]
pub(crate) fn alone(
    file: &Path,
    text: &str,
    role: Option<Role>,
    machine: Option<&Machine>,
) -> Result<Config, Refusal> {
    parse(file, text, role, machine).map(|pairs| pairs.first().clone())
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        values::print(self, f)
    }
}
