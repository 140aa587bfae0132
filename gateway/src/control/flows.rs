//! Pages of the flows that the workers know: for `/flows`. However many flows there are, no more than the best
//! few thousand are kept, and a worker tells of a few in each round ([`worker::flows`](crate::worker::flows)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use api::{Flow, Order};
use common::frame::Side;
use switch::{FlowName, FlowStage, FlowSummary, Standing};

use super::listing::{Listing, Take};

/// Most flows of a page.
pub const PAGE_MAX: usize = 1_000;
/// Most flows before a page: one who wants others filters.
pub const OFFSET_MAX: usize = 9_000;
/// Flows of a page if nobody asks for another number.
pub const PAGE: usize = 100;

/// Which flows are wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// One of the hosts.
    pub address: Option<IpAddr>,
    /// One of the queue pairs.
    pub qpn: Option<u32>,
    /// The state, by its word.
    pub state: Option<&'static str>,
    /// The flows with the most of it come first.
    pub order: Order,
    /// Matching flows to leave out.
    pub offset: usize,
    /// Most flows of the page.
    pub limit: usize,
}

impl Wanted {
    fn has(&self, flow: &FlowSummary) -> bool {
        let is_of =
            |address: IpAddr| flow.source.to_ip() == address || flow.destination.to_ip() == address;
        let is_to = |qpn: u32| {
            flow.destination_qpn.get() == qpn || flow.source_qpn.is_some_and(|it| it.get() == qpn)
        };
        self.address.is_none_or(is_of)
            && self.qpn.is_none_or(is_to)
            && self.state.is_none_or(|wanted| wanted == state(flow).0)
    }

    fn rank(&self, flow: &FlowSummary) -> u64 {
        match self.order {
            Order::Lost => flow.recovery.lost.into(),
            Order::Resent => flow.recovery.resent.into(),
            Order::Held => flow.recovery.held,
        }
    }
}

/// The words for states.
pub const STATES: [&str; 4] = ["protected", "unprotected", "resting", "responses"];

/// The state of a flow, and why it is not protected.
fn state(flow: &FlowSummary) -> (&'static str, Option<&'static str>) {
    let why = match flow.stage {
        FlowStage::Responses => return ("responses", None),
        FlowStage::Resting => return ("resting", None),
        FlowStage::Sentry(Standing::Protected) | FlowStage::Depot { is_synced: true } => {
            return ("protected", None);
        }
        FlowStage::Unprotected => "operator: until lr2ctl protect",
        FlowStage::Awaited => "operator: it is protected from its next packet on",
        FlowStage::Depot { is_synced: false } => "no Sentry has announced it",
        FlowStage::Sentry(standing) => match standing {
            Standing::Protected => "",
            Standing::Seeking => "announced, and no Depot has answered yet",
            Standing::Absent => "no Depot answers: is there a peer, and with the same key?",
            Standing::Deferred => "its hosts send too little to pay for control messages",
            Standing::Left => "left to the RNICs",
            Standing::PathMtuUnknown => "the path MTU is not known yet: READs and atomics need it",
            Standing::Crowded => "its source's LAN loses packets: left to the RNICs for a while",
            Standing::CacheFull => "the resend cache is full: recovery.resend_cache",
            Standing::NextIncarnation => "left to the RNICs until its queue pair begins anew",
            Standing::SelectiveRepeat => {
                "its RNIC repeats single packets (selective repeat), which lr2 is not for: recovery.mode = \"auto\""
            }
        },
    };
    ("unprotected", Some(why))
}

/// A flow and its rank. The lowest comes first out of a heap.
struct Ranked {
    /// By the order, and the sooner told the higher.
    rank: (u64, Reverse<u64>),
    worker: usize,
    flow: FlowSummary,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.rank.cmp(&self.rank)
    }
}

/// The best flows so far.
struct Best {
    wanted: Wanted,
    heap: BinaryHeap<Ranked>,
    total: u64,
    matched: u64,
}

impl Best {
    fn new(wanted: Wanted) -> Self {
        Self { wanted, heap: BinaryHeap::new(), total: 0, matched: 0 }
    }

    fn add(&mut self, worker: usize, flow: FlowSummary) {
        self.total += 1;
        if !self.wanted.has(&flow) {
            return;
        }
        self.matched += 1;
        let ranked =
            Ranked { rank: (self.wanted.rank(&flow), Reverse(self.matched)), worker, flow };
        if self.heap.len() < self.wanted.offset + self.wanted.limit {
            self.heap.push(ranked);
        } else if let Some(mut lowest) = self.heap.peek_mut()
            && lowest.rank < ranked.rank
        {
            *lowest = ranked;
        }
    }

    fn page(self) -> api::Flows {
        let Self { wanted, heap, total, matched } = self;
        let sorted = heap.into_sorted_vec();
        let page = sorted.iter().skip(wanted.offset).map(|it| shown(it.worker, &it.flow));
        api::Flows { total, matched, offset: wanted.offset, flows: page.collect(), note: None }
    }
}

/// A flow as the API shows it.
fn shown(worker: usize, flow: &FlowSummary) -> Flow {
    let (state, why) = state(flow);
    Flow {
        worker,
        role: match flow.side {
            Side::Lan => "sentry",
            Side::Wan => "depot",
        }
        .into(),
        source: flow.source.to_ip().to_string(),
        destination: flow.destination.to_ip().to_string(),
        destination_qpn: flow.destination_qpn.get(),
        source_qpn: flow.source_qpn.map(|qpn| qpn.get()),
        vlans: flow.vlans.ids().collect(),
        state: state.into(),
        why: why.map(Into::into),
        path_mtu: flow.recovery.path_mtu,
        round_trip: flow.recovery.round_trip.map(|span| span.as_nanos() as f64 / 1e9),
        held: flow.recovery.held,
        lost: flow.recovery.lost.into(),
        resent: flow.recovery.resent.into(),
        idle: flow.idle.as_nanos() as f64 / 1e9,
    }
}

/// A page of the flows of all workers.
///
/// # Errors
/// In one sentence: a worker does not answer, or others ask as well.
pub async fn page(workers: &Flows, wanted: &Wanted) -> Result<api::Flows, String> {
    let keeps = wanted.offset + wanted.limit;
    Ok(workers.list((), keeps, Best::new(wanted.clone())).await?.page())
}

impl Take<FlowSummary> for Best {
    fn take(&mut self, worker: usize, flow: &FlowSummary) {
        self.add(worker, *flow);
    }
}

/// The flows to a queue pair, with a page of them.
///
/// # Errors
/// As of [`page`].
pub async fn to(
    workers: &Flows,
    destination: IpAddr,
    qpn: u32,
    source: Option<IpAddr>,
) -> Result<(Vec<FlowName>, api::Flows), String> {
    let to = To { destination, qpn, source, names: Vec::new(), page: api::Flows::default() };
    let To { names, mut page, .. } = workers.list((), PAGE_MAX, to).await?;
    page.matched = names.len() as u64;
    Ok((names, page))
}

/// The flows to a queue pair so far.
struct To {
    destination: IpAddr,
    qpn: u32,
    source: Option<IpAddr>,
    names: Vec<FlowName>,
    page: api::Flows,
}

impl Take<FlowSummary> for To {
    fn take(&mut self, worker: usize, flow: &FlowSummary) {
        self.page.total += 1;
        let is_one = flow.destination.to_ip() == self.destination
            && flow.destination_qpn.get() == self.qpn
            && self.source.is_none_or(|source| flow.source.to_ip() == source);
        if is_one && self.names.len() < PAGE_MAX {
            self.names.push(flow.name());
            self.page.flows.push(shown(worker, flow));
        }
    }
}

/// The ways to the workers.
pub type Flows = Listing<(), FlowSummary>;

#[cfg(test)]
mod tests {
    use common::summary::Summary;
    use common::time::Span;
    use common::wire::{Qpn, Vlans};

    use super::*;

    const ALL: Wanted = Wanted {
        address: None,
        qpn: None,
        state: None,
        order: Order::Lost,
        offset: 0,
        limit: PAGE,
    };

    fn flow(n: u32) -> FlowSummary {
        FlowSummary {
            side: Side::Lan,
            source: IpAddr::from([10, 1, (n >> 8) as u8, n as u8]).into(),
            destination: IpAddr::from([10, 2, 0, 1]).into(),
            vlans: Vlans::NONE,
            destination_qpn: Qpn::new(n),
            source_qpn: None,
            stage: match n % 3 {
                0 => FlowStage::Responses,
                1 => FlowStage::Sentry(Standing::Absent),
                _ => FlowStage::Sentry(Standing::Protected),
            },
            // The flows are not sorted by any of these.
            recovery: Summary {
                lost: n.wrapping_mul(2_654_435_761) >> 8,
                resent: n,
                ..Summary::default()
            },
            idle: Span::ZERO,
        }
    }

    /// Against sorting all of them.
    #[test]
    fn pages_follow_each_other_as_in_one_sorted_list() {
        let all: Vec<_> = (0..5_000).map(flow).collect();
        for order in Order::ALL {
            let mut sorted = all.clone();
            let whole = Wanted { order, ..ALL };
            // Stable: those of one rank stay in the order in which they were told.
            sorted.sort_by_key(|flow| Reverse(whole.rank(flow)));
            for (offset, limit) in [(0, 10), (10, 10), (4_990, 100), (6_000, 5), (0, 1_000)] {
                let wanted = Wanted { order, offset, limit, ..ALL };
                let mut best = Best::new(wanted.clone());
                all.iter().for_each(|flow| best.add(0, *flow));
                let page = best.page();
                let expected: Vec<_> =
                    sorted.iter().skip(offset).take(limit).map(|flow| shown(0, flow)).collect();
                assert_eq!(page.flows, expected, "{order} {offset} {limit}");
                assert_eq!((page.total, page.matched), (5_000, 5_000));
            }
        }
    }

    #[test]
    fn a_filter_lets_through_what_it_names() {
        let matching = |wanted: Wanted| {
            let mut best = Best::new(wanted.clone());
            (0..300).for_each(|n| best.add(0, flow(n)));
            let page = best.page();
            assert_eq!(page.total, 300);
            (page.matched, page.flows)
        };
        assert_eq!(matching(Wanted { qpn: Some(7), ..ALL }).0, 1);
        assert_eq!(matching(Wanted { address: Some([10, 1, 1, 0].into()), ..ALL }).0, 1);
        assert_eq!(matching(Wanted { address: Some([10, 2, 0, 1].into()), ..ALL }).0, 300);
        let (count, flows) = matching(Wanted { state: Some("unprotected"), ..ALL });
        assert_eq!(count, 100);
        assert!(
            flows.iter().all(|flow| flow.why.as_ref().is_some_and(|why| why.contains("no Depot")))
        );
        assert!(STATES.iter().all(|state| matching(Wanted { state: Some(state), ..ALL }).0 <= 100));
    }

    /// A million flows take the memory of one page.
    #[test]
    fn of_a_million_flows_a_page_is_kept() {
        let wanted = Wanted { offset: OFFSET_MAX, limit: PAGE_MAX, ..ALL };
        let mut best = Best::new(wanted.clone());
        for n in 0..1_000_000 {
            best.add(0, flow(n));
            assert!(best.heap.len() <= OFFSET_MAX + PAGE_MAX);
        }
        assert!(best.heap.capacity() <= 2 * (OFFSET_MAX + PAGE_MAX));
        let page = best.page();
        assert_eq!((page.total, page.flows.len()), (1_000_000, PAGE_MAX));
    }
}
