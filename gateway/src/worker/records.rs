//! The flight recorders of a worker, as the control thread may ask for them.

use std::net::IpAddr;

use common::psn::Psn;
use common::recorder::{Record, Recorder};

use super::listing::{self, Ask, Source};

/// Which records are wanted: those that have all that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Query {
    /// Of a stream from or to this host.
    pub host: Option<IpAddr>,
    /// Of a stream to this queue pair.
    pub qpn: Option<u32>,
    /// About a packet with this PSN.
    pub psn: Option<Psn>,
}

impl Query {
    /// Whether a record is wanted.
    pub fn has(&self, record: &Record) -> bool {
        let stream = record.stream.as_ref();
        let is_of = |host: IpAddr| {
            stream.is_some_and(|it| it.source.to_ip() == host || it.destination.to_ip() == host)
        };
        self.host.is_none_or(is_of)
            && self.qpn.is_none_or(|qpn| stream.is_some_and(|it| it.qpn.get() == qpn))
            && self.psn.is_none_or(|psn| record.has(psn))
    }
}

impl Ask for Query {
    fn joined(&self, other: &Self) -> Self {
        fn common<T: PartialEq + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.filter(|one| other == Some(*one))
        }
        Self {
            host: common(self.host, other.host),
            qpn: common(self.qpn, other.qpn),
            psn: common(self.psn, other.psn),
        }
    }
}

/// The worker's end.
pub type Lister = listing::Lister<Query, Record>;
/// The control thread's end.
pub type ControlEnd = listing::ControlEnd<Query, Record>;

impl Source for &Recorder {
    type Query = Query;
    type Item = Record;

    const SLICE: u64 = 128;

    fn span(&self) -> (u64, u64) {
        (self.start(), self.end())
    }

    fn item(&self, number: u64, query: &Query) -> Option<Record> {
        self.get(number).filter(|record| query.has(record))
    }
}
