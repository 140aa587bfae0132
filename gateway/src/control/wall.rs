//! The workers' clock and that of people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::time::Time;
use parking_lot::Mutex;

/// A time of the workers' clock, and what it was for people.
#[derive(Debug, Default)]
pub struct Wall(Mutex<Option<(Time, SystemTime)>>);

impl Wall {
    /// A time of the workers' clock, now.
    pub fn set(&self, now: Time, wall: SystemTime) {
        *self.0.lock() = Some((now, wall));
    }

    /// What a time of the workers' clock is for people, since 1970.
    pub fn time_of(&self, at: Time) -> Duration {
        let known = *self.0.lock();
        let Some((now, wall)) = known else { return Duration::from_nanos(at.as_nanos()) };
        let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = Duration::from_nanos(now.since(at).as_nanos());
        let later = Duration::from_nanos(at.since(now).as_nanos());
        (since_epoch + later).saturating_sub(ago)
    }
}
