//! Two RNICs, two switches and the network between them, on virtual time:
//!
//! ```text
//! nic 0 ── LAN 0 ── switch 0 ══ WAN ══ switch 1 ── LAN 1 ── nic 1
//! ```
//!
//! A run follows from its seed. [`World::run`] checks
//! after every step that no switch lost or invented a frame; the tests state
//! the requirements for the end of a run.

mod compare;
mod end;
mod fates;
mod host;
mod link;
mod lives;
mod order;
mod out;
mod scenario;
mod script;
mod sweep;
mod trace;
mod tunnel;
mod underlay;
mod workers;
mod world;

pub use compare::Comparison;
pub use datapath::Which;
pub use fates::Fates;
pub use host::SlowHost;
pub use link::{Fate, Impairment, Link};
pub use order::Ordered;
pub use scenario::{NextPsns, Scenario};
pub use script::{Loss, Script, Segment, Victim};
pub use sweep::{Findings, Plain, number, seeds, sweep};
pub use trace::nonzero;
pub use tunnel::Tunnelling;
pub use underlay::{Carried, SecondPath, Underlay};
pub use world::{Outcome, QpFate, Silenced, World};
