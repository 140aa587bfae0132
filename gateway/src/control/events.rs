//! The newest [events](crate::event), for `/events`, the metrics and the log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::event::What;

/// Events that are remembered.
const KEPT: usize = 256;
/// Lines of the log in a second.
const LINES: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Serialize)]
struct Entry {
    /// Seconds since 1970.
    time: f64,
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    what: What,
}

/// Whose event it is; nobody's, if it is one of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Place {
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// The tunnel, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// The body of `/events`.
#[derive(Serialize)]
struct Body<'a> {
    missed: u64,
    events: &'a VecDeque<Entry>,
}

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
            tracing::warn!("{left_out} events were not logged; /events has the newest {KEPT}");
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

    /// The newest events as JSON, the oldest of them first.
    ///
    /// # Errors
    /// Never: everything in them has a form in JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        let inner = self.inner();
        let missed = inner.missed.iter().sum();
        serde_json::to_string(&Body { missed, events: &inner.entries })
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        for n in 0..300 {
            let place = Place { worker: Some(1), tunnel: None };
            events.note(place, at(n), What::GapGivenUp { lane: 3, numbers: n });
        }
        events.note(Place::default(), at(300), What::LinkDown { port: "wan" });
        events.set_missed(1, 7);
        let json: serde_json::Value = serde_json::from_str(&events.json().unwrap()).unwrap();
        let all = json["events"].as_array().unwrap();
        assert_eq!((all.len(), &json["missed"]), (KEPT, &7.into()));
        assert_eq!(all[0]["time"], 45.0);
        let newest = serde_json::json!({"time": 300.0, "event": "link_down", "port": "wan"});
        assert_eq!(all[KEPT - 1], newest);
        assert_eq!((&all[0]["worker"], &all[0]["numbers"]), (&1.into(), &45.into()));
        let counts: Vec<_> = events.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [("link_down", 1), ("gap_given_up", 300)]);
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
