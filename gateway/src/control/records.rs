//! Records of the workers' flight recorders, for `/records`.

use std::collections::VecDeque;

use common::psn::Psn;
use common::recorder::{Record, What};

use super::listing::{Listing, Take};
use super::wall::Wall;
pub use crate::worker::records::Query;

/// Records of an answer if nobody asks for another number.
pub const LAST: usize = 100;
/// The most that can be asked for.
pub const LAST_MAX: usize = 10_000;

/// The ways to the workers.
pub type Records = Listing<Query, Record>;

/// The newest `last` records that are wanted, the oldest of them first.
///
/// # Errors
/// In one sentence: a worker does not answer, or others ask as well.
pub async fn newest(
    workers: &Records,
    query: &Query,
    last: usize,
    wall: &Wall,
) -> Result<api::Records, String> {
    Ok(workers.list(*query, last, Newest::new(*query, last)).await?.shown(wall))
}

impl Take<Record> for Newest {
    fn take(&mut self, worker: usize, record: &Record) {
        // It may match the query of another request only.
        if self.query.has(record) {
            self.add(worker, *record);
        }
    }
}

/// The newest records so far.
struct Newest {
    query: Query,
    /// By worker. A worker tells the records of each of its recorders in the order of time.
    of: Vec<VecDeque<Record>>,
    last: usize,
    matched: u64,
}

impl Newest {
    fn new(query: Query, last: usize) -> Self {
        Self { query, of: Vec::new(), last, matched: 0 }
    }

    fn add(&mut self, worker: usize, record: Record) {
        self.matched += 1;
        self.of.resize_with(self.of.len().max(worker + 1), VecDeque::new);
        let of = &mut self.of[worker];
        // Those of a further recorder of the worker are sorted in.
        let at = of.partition_point(|it| it.first <= record.first);
        of.insert(at, record);
        if of.len() > self.last {
            of.pop_front();
        }
    }

    fn shown(self, wall: &Wall) -> api::Records {
        let of = self.of.into_iter().enumerate();
        let mut all: Vec<_> =
            of.flat_map(|(n, of)| of.into_iter().map(move |record| (n, record))).collect();
        all.sort_by_key(|(_, record)| record.first);
        let skipped = all.len().saturating_sub(self.last);
        let records = all.drain(skipped..).map(|(n, record)| shown(n, &record, wall)).collect();
        api::Records { matched: self.matched, records }
    }
}

/// A record as the API shows it.
fn shown(worker: usize, record: &Record, wall: &Wall) -> api::Record {
    let (what, meaning, lane, number) = match record.what {
        What::Counted(metric) => {
            let desc = metric.desc();
            (desc.short_name(), desc.help, None, None)
        }
        What::OnLane(event, lane, number) => {
            (event.name().to_owned(), event.help(), Some(lane), Some(number))
        }
    };
    let stream = record.stream;
    api::Record {
        time: wall.time_of(record.first).as_secs_f64(),
        until: wall.time_of(record.last).as_secs_f64(),
        worker,
        source: stream.map(|it| it.source.to_ip().to_string()),
        destination: stream.map(|it| it.destination.to_ip().to_string()),
        destination_qpn: stream.map(|it| it.qpn.get()),
        psn: record.psn.map(Psn::get),
        packets: record.packets,
        lane,
        number,
        what,
        meaning: meaning.into(),
    }
}

#[cfg(test)]
mod tests {
    use common::metrics::Metric;
    use common::recorder::{LaneEvent, Stream};
    use common::time::Time;
    use common::wire::{Addr, Qpn};

    use super::*;
    use crate::worker::listing::Ask;

    fn record(at: u64, psn: u32, what: What) -> Record {
        let (first, psn) = (Time::from_nanos(at), Some(Psn::new(psn)));
        let [source, destination] = [1, 2].map(|n| Addr::from_v4([10, n, 0, 1]));
        let stream = Some(Stream { source, destination, qpn: Qpn::new(17) });
        Record { first, last: first, stream, psn, packets: 2, what }
    }

    #[test]
    fn the_newest_of_all_workers_come_in_the_order_of_time() {
        let held = What::Counted(Metric::DepotHeld);
        let mut newest = Newest::new(Query::default(), 3);
        // The second recorder of a worker begins anew.
        for (worker, at) in [(0, 10), (1, 15), (0, 30), (0, 20), (1, 25), (0, 5)] {
            newest.add(worker, record(at, at as u32, held));
        }
        let shown = newest.shown(&Wall::default());
        let psns: Vec<_> = shown.records.iter().map(|record| record.psn).collect();
        assert_eq!((shown.matched, psns), (6, vec![Some(20), Some(25), Some(30)]));
    }

    /// Requests at the same time share the records of one joined query, and each keeps those that match its own.
    #[test]
    fn queries_are_joined_and_each_gets_its_own_records() {
        let held = What::Counted(Metric::DepotHeld);
        let all = [record(1, 7, held), record(2, 8, held)];
        let query = |qpn, psn: Option<u32>| Query { host: None, qpn, psn: psn.map(Psn::new) };
        let joined = query(Some(17), Some(7)).joined(&query(Some(17), Some(8)));
        assert_eq!(joined, query(Some(17), None));
        assert_eq!(joined.joined(&query(None, Some(7))), Query::default());
        assert!(all.iter().all(|record| joined.has(record)));
        let mut newest = Newest::new(query(Some(17), Some(8)), 3);
        all.iter().for_each(|record| newest.take(0, record));
        let shown = newest.shown(&Wall::default());
        // A record is of two packets.
        assert_eq!((shown.matched, shown.records[0].psn), (2, Some(7)));
        let mut newest = Newest::new(query(Some(18), None), 3);
        all.iter().for_each(|record| newest.take(0, record));
        assert_eq!(newest.shown(&Wall::default()).matched, 0);
    }

    #[test]
    fn a_query_finds_what_has_all_that_it_names() {
        let of_lane = What::OnLane(LaneEvent::Resent, 3, 99);
        let it = record(1, 0xff_ffff, of_lane);
        let query = Query::default();
        let psn = |psn| Query { psn: Some(Psn::new(psn)), ..query };
        assert!(query.has(&it) && psn(0xff_ffff).has(&it) && psn(0).has(&it) && !psn(1).has(&it));
        let host = |host: [u8; 4]| Query { host: Some(host.into()), ..query };
        assert!(host([10, 2, 0, 1]).has(&it) && !host([10, 3, 0, 1]).has(&it));
        let qpn = |qpn| Query { qpn: Some(qpn), ..query };
        assert!(qpn(17).has(&it) && !qpn(18).has(&it));
        let unknown = Record { stream: None, psn: None, ..it };
        assert!(query.has(&unknown) && !qpn(17).has(&unknown) && !psn(0).has(&unknown));
        let shown = shown(0, &it, &Wall::default());
        assert_eq!(
            (shown.lane, shown.number, &*shown.what),
            (Some(3), Some(99), "tunnel_frames resent")
        );
    }
}
