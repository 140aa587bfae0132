//! The network between hosts and gateways: cables, and switches with queues.

mod cable;
mod marking;
mod outbox;
mod port;
mod spread;
mod switch;

pub use cable::{Cable, PathConfig, Pause, Plug};
pub(crate) use marking::{Marking, mark_ip};
pub use outbox::Outbox;
pub use port::{Departure, Port, Priority};
pub(crate) use spread::path_of;
pub use switch::{Route, Switch, SwitchConfig};
