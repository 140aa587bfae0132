//! Flows of the packets that pass: their table, and what is noted of each.

pub(crate) mod coarse_time;
pub(crate) mod entry;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod psn_range;
pub(crate) mod table;
pub(crate) mod timer_wheel;
