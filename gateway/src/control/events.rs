//! The newest [events](crate::event), for `/events`, the metrics and the log.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::event::What;

/// Events that the ring holds.
pub const KEPT: usize = 10_000;
/// Events in an answer of the API, unless the request asks for another number.
pub const DEFAULT_SHOWN: usize = 256;
/// Lines of the log in a second.
const LINES: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Seconds since 1970.
    time: f64,
    place: Place,
    what: What,
}

impl Entry {
    fn told(&self) -> api::Event {
        let Self { time, place: Place { worker, tunnel }, what } = *self;
        // It is an object with its kind in `event`.
        let fields = match serde_json::to_value(what) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let fields = fields.into_iter().filter(|(name, _)| name != "event").collect();
        let event = What::KINDS[what.kind()].to_owned();
        api::Event { time, worker, tunnel, event, text: what.to_string(), fields }
    }
}

/// Whose event it is; nobody's, if it is one of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// The worker.
    pub worker: Option<usize>,
    /// The tunnel, if there are several.
    pub tunnel: Option<u8>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The oldest first.
    entries: VecDeque<Entry>,
    counts: [u64; What::KINDS.len()],
    log: Lines,
    /// By worker: events for which there was no room.
    missed: Vec<u64>,
}

/// The lines of the log in this second.
#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    count: u32,
    left_out: u32,
}

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    /// So many before it were left out.
    Log {
        left_out: u32,
    },
    LeftOut,
}

impl Lines {
    fn take(&mut self, now: Instant) -> Line {
        if self.began.is_none_or(|began| now.duration_since(began) >= SECOND) {
            (self.began, self.count) = (Some(now), 0);
        }
        self.count += 1;
        if self.count > LINES {
            self.left_out += 1;
            return Line::LeftOut;
        }
        Line::Log { left_out: std::mem::take(&mut self.left_out) }
    }
}

/// All that is remembered of events.
#[derive(Debug, Default)]
pub struct Events(Mutex<Inner>);

impl Events {
    /// Counts, remembers and logs an event.
    pub fn note(&self, place: Place, at: SystemTime, what: What) {
        let mut inner = self.inner();
        inner.counts[what.kind()] += 1;
        if inner.entries.len() == KEPT {
            inner.entries.pop_front();
        }
        let time = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        inner.entries.push_back(Entry { time, place, what });
        let Line::Log { left_out } = inner.log.take(Instant::now()) else { return };
        drop(inner);
        if left_out > 0 {
            tracing::warn!("{left_out} events were not logged; /events has them");
        }
        let tunnel = place.tunnel.map_or(String::new(), |tunnel| format!("tunnel {tunnel}: "));
        if what.is_warning() {
            tracing::warn!("{tunnel}{what}");
        } else {
            tracing::info!("{tunnel}{what}");
        }
    }

    /// So many events of a worker were not noted, since its ring was full.
    pub fn set_missed(&self, worker: usize, count: u64) {
        let missed = &mut self.inner().missed;
        if missed.len() <= worker {
            missed.resize(worker + 1, 0);
        }
        missed[worker] = count;
    }

    /// Events so far, each kind with its name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        What::KINDS.into_iter().zip(self.inner().counts)
    }

    /// Events that were not noted.
    pub fn missed(&self) -> u64 {
        self.inner().missed.iter().sum()
    }

    /// So many of the newest events, the oldest of them first.
    pub fn newest(&self, count: usize) -> api::Events {
        let inner = self.inner();
        let skipped = inner.entries.len().saturating_sub(count);
        let entries: Vec<_> = inner.entries.iter().skip(skipped).copied().collect();
        let missed = inner.missed.iter().sum();
        // Workers' events are noted meanwhile.
        drop(inner);
        api::Events { missed, events: entries.iter().map(Entry::told).collect() }
    }

    fn inner(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    // R-TUN-53
    #[test]
    fn the_newest_events_are_kept_and_all_are_counted() {
        let events = Events::default();
        for n in 0..KEPT as u64 + 44 {
            let place = Place { worker: Some(1), tunnel: None };
            events.note(place, at(n), What::GapGivenUp { lane: 3, numbers: n });
        }
        events.note(Place::default(), at(20_000), What::LinkDown { port: "wan" });
        events.set_missed(1, 7);
        let json = serde_json::to_value(events.newest(usize::MAX)).unwrap();
        let all = json["events"].as_array().unwrap();
        assert_eq!((all.len(), &json["missed"]), (KEPT, &7.into()));
        assert_eq!(all[0]["time"], 45.0);
        let newest = serde_json::json!({
            "time": 20_000.0, "event": "link_down", "text": "port wan is down", "port": "wan"
        });
        assert_eq!(all[KEPT - 1], newest);
        assert_eq!((&all[0]["worker"], &all[0]["numbers"]), (&1.into(), &45.into()));
        let last = events.newest(2);
        assert_eq!((last.events.len(), last.events[1].time), (2, 20_000.0));
        let counts: Vec<_> = events.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [("link_down", 1), ("gap_given_up", KEPT as u64 + 44)]);
        assert_eq!(events.missed(), 7);
    }

    #[test]
    fn many_events_make_few_lines() {
        let (start, mut lines) = (Instant::now(), Lines::default());
        let logged = (0..100).filter(|_| lines.take(start) != Line::LeftOut).count();
        assert_eq!(logged, LINES as usize);
        assert_eq!(lines.take(start + SECOND), Line::Log { left_out: 100 - LINES });
        assert_eq!(lines.take(start + SECOND), Line::Log { left_out: 0 });
    }
}
