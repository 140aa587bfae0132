//! What a configuration takes of a machine, and how far its pools reach.
//!
//! Computed from the configuration alone, with the sizes that the code has;
//! docs/sizing.md explains the figures and works an example through.

use common::budget::Budget;
use common::time::Span;
use settings::sizing::{self, mbuf_size};
use settings::units::{show_duration, show_rate, show_size};
use switch::Footprint;

use super::holdable::holdable_shares;
use super::sizing::{AtWork, BACKLOG};
use super::{Config, Recovery, Role};

/// Queues of frames before the ports: two ports, two classes.
const EGRESS_QUEUES: u64 = 4;

/// Ethernet, IPv4, UDP, BTH and ICRC, bytes: what a frame has besides payload.
const HEADERS: u64 = 14 + 20 + 8 + 12 + 4;

/// FCS, preamble and gap, bytes: what a frame takes of a link besides itself.
const BETWEEN: u64 = 4 + 8 + 12;

/// What a configuration takes.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Mbufs that are tied up whatever happens.
    pub at_work: AtWork,
    /// The resend cache, the reordering pool and the backup pool, in this
    /// order; those that the role and the mode use.
    pub pools: Vec<Pool>,
    /// Packets in flight that all workers know of at the Sentry, at most, held or not.
    pub sentry_slots: u64,
    /// Mbufs for nothing of these.
    pub spare: u32,
    /// All mbufs.
    pub mbufs: u32,
    /// Largest frame that fits into one, bytes.
    pub data_room: u16,
    /// The largest path MTU within the ports' MTU, bytes.
    pub payload: u64,
    /// Bytes of one mbuf with all that belongs to it.
    pub mbuf_size: u64,
    /// Sizes of what is kept of flows and packets.
    pub footprint: Footprint,
    /// Entries that the flow table may have.
    pub max_flows: u64,
    /// What the box does for each queue pair.
    pub role: Role,
    /// Egress queues of all workers.
    pub egress_queues: u64,
    /// Frames that fit into one of them.
    pub egress_limit: u64,
}

/// One of the pools of held frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its key, which is its name.
    pub key: &'static str,
    /// Bytes of frames that it may hold.
    pub bytes: u64,
    /// Frames that it may hold.
    pub frames: u64,
    /// What is kept per frame beside it, bytes at most; 0 for the resend cache, where the
    /// [slots](Demand::sentry_slots) have a limit of their own.
    pub slot: u64,
    /// Round trip whose packets it holds: that of the long-haul link. `None`:
    /// that to the hosts, of which the configuration says nothing.
    pub rtt: Option<Span>,
}

impl Pool {
    /// Packets of `payload` bytes that it holds.
    pub fn packets(&self, payload: u64) -> u64 {
        self.frames.min(self.bytes / (payload + HEADERS))
    }

    /// The bytes of the link that these take.
    pub fn holds(&self, payload: u64) -> u64 {
        self.packets(payload) * (payload + HEADERS + BETWEEN)
    }

    /// The rate in bit/s of which it holds `span`, in packets of `payload`
    /// bytes.
    pub fn rate(&self, payload: u64, span: Span) -> f64 {
        self.holds(payload) as f64 * 8e9 / span.as_nanos().max(1) as f64
    }
}

impl Demand {
    /// Of `config`.
    pub fn of(config: &Config) -> Self {
        let footprint = Footprint::of_handles();
        let workers = u64::from(config.worker.count);
        let (role, recovery) = (config.role, &config.recovery);
        let frames = holdable_shares(config);
        let rtt = Some(recovery.rtt_guess);
        let slot = |bytes| 2 * bytes as u64;
        let cache = Pool {
            key: "resend_cache",
            bytes: recovery.resend_cache,
            frames: frames.resend_cache,
            slot: 0,
            rtt,
        };
        let reorder = Pool {
            key: "reorder_pool",
            bytes: recovery.reorder_pool,
            frames: frames.reorder_pool,
            slot: slot(footprint.depot_slot),
            rtt,
        };
        let backup = Pool {
            key: "backup_pool",
            bytes: recovery.backup_pool,
            frames: frames.backup_pool,
            slot: slot(footprint.backup_slot),
            rtt: None,
        };
        let pools =
            [(role.is_sentry(), cache), (role.is_depot(), reorder), (role.is_depot(), backup)];
        let used = |(used, pool)| (used && recovery.mode != Recovery::Off).then_some(pool);
        let pools: Vec<Pool> = pools.into_iter().filter_map(used).collect();
        let holdable = config.pool.holdable();
        let held: u64 = pools.iter().map(|pool| pool.frames).sum();
        let knows = role.is_sentry() && recovery.mode != Recovery::Off;
        let per_worker = Budget::slots_for(frames.resend_cache / workers);
        Self {
            sentry_slots: if knows { workers * per_worker } else { 0 },
            at_work: AtWork::of([&config.lan, &config.wan], &config.worker),
            spare: holdable - u32::try_from(held).unwrap_or(holdable).min(holdable),
            pools,
            mbufs: config.pool.mbufs,
            data_room: config.pool.data_room,
            payload: sizing::pmtu(config.lan.mtu.max(config.wan.mtu)),
            mbuf_size: mbuf_size(config.pool.data_room),
            footprint,
            max_flows: config.worker.max_flows.into(),
            role,
            egress_queues: workers * EGRESS_QUEUES,
            egress_limit: u64::from(holdable) / workers + u64::from(BACKLOG),
        }
    }

    /// Memory of DPDK in pages of `page` bytes.
    pub fn dpdk(&self, page: u64) -> u64 {
        let pool = sizing::pool_memory(self.mbufs.into(), self.data_room, page);
        pool.saturating_add(sizing::DPDK_OVERHEAD)
    }

    /// Memory of the flow table when it is full, bytes.
    pub fn table(&self) -> u64 {
        self.footprint.table(self.max_flows)
    }

    /// A queue pair with nothing in flight, its part of the table included,
    /// bytes at most.
    pub fn idle_qp(&self) -> u64 {
        self.footprint.idle()
    }

    /// State of all queue pairs that fit into the table, without that, bytes
    /// at most.
    pub fn flows(&self) -> u64 {
        (self.footprint.awake(self.role) - self.footprint.idle()) * self.max_flows.div_ceil(2)
    }

    /// What is kept of as many connections, if rdma_cm makes them, bytes at most.
    pub fn connections(&self) -> u64 {
        self.footprint.connection as u64 * self.max_flows.div_ceil(2)
    }

    /// What is kept of the packets that wait or are not acknowledged at the Depot, while its
    /// pools are full, bytes at most.
    pub fn slots(&self) -> u64 {
        self.pools.iter().map(|pool| pool.frames * pool.slot).sum()
    }

    /// What is kept of the packets in flight at the Sentry, bytes at most.
    pub fn in_flight(&self) -> u64 {
        self.sentry_slots * self.footprint.sentry_slot as u64
    }

    /// Memory of the egress queues, bytes.
    pub fn egress(&self) -> u64 {
        self.egress_queues * self.egress_limit * self.footprint.packet as u64
    }

    /// Memory besides DPDK's, in ordinary pages, bytes at most.
    pub fn process(&self) -> u64 {
        let flows = self.table() + self.flows() + self.connections();
        flows + self.slots() + self.in_flight() + self.egress()
    }

    /// Pools that hold less than one bandwidth-delay product of a link of
    /// `rate` bit/s, a line each. Packets are taken to be as large as the port
    /// allows; small ones need more mbufs.
    pub fn too_small_for(&self, rate: u64) -> Vec<String> {
        let payload = self.payload;
        let short = self.pools.iter().filter_map(|pool| {
            let rtt = pool.rtt?;
            let in_flight = bdp(rate, rtt).div_ceil(payload + HEADERS + BETWEEN);
            let holds = pool.packets(payload);
            (holds < in_flight).then(|| {
                format!(
                    "recovery.{}: {} and {} mbufs hold {holds} of the {in_flight} packets of \
                     {payload} bytes that are in flight at {} with rtt_guess = {}; losses among \
                     the others are left to the RNICs. {} and as many mbufs as packets hold them \
                     all (docs/sizing.md)",
                    pool.key,
                    show_size(pool.bytes),
                    pool.frames,
                    show_rate(rate),
                    show_duration(rtt),
                    show_size((in_flight * (payload + HEADERS)).next_multiple_of(1 << 20)),
                )
            })
        });
        short.collect()
    }
}

/// Bytes in flight on a link of `rate` bit/s with the round trip `rtt`.
pub fn bdp(rate: u64, rtt: Span) -> u64 {
    let bytes = u128::from(rate) * u128::from(rtt.as_nanos()) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
