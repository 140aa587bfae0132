//! The network between hosts and gateways: cables, and switches with queues.

mod cable;
mod marking;
mod outbox;
mod port;
mod spread;
mod switch;

pub use cable::{Cable, PathConfig, Pause, Plug};
pub use outbox::Outbox;
pub use port::{Departure, Port, Priority};
pub use switch::{Route, Switch, SwitchConfig};
