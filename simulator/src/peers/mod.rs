//! Models of other boxes, to compare the product with.
//!
//! The papers' own code is not used. The module of each model, and
//! `docs/simulator.md`, say which properties of the original it keeps and leaves out.

pub mod irn;
mod marks;
pub mod netrt;
pub mod paper;
pub mod selective;
pub mod slr;
pub mod uet;

use common::wire::{Addr, Qpn, Roce};

/// Direction of a queue pair: who it goes to, and to which QPN.
type Key = (Addr, Qpn);

/// Hashes the same on every run.
type Map<V> = hashbrown::HashMap<Key, V, foldhash::fast::FixedState>;

/// The flow of a request.
const fn flow(roce: &Roce) -> Key {
    (roce.dst, roce.dest_qpn)
}

/// The flow whose requests a response speaks of. The simulator numbers the two
/// ends of a queue pair 2n and 2n + 1, so that these models need not be told
/// which belong together: how their originals find out is not known.
const fn answered(roce: &Roce) -> Key {
    (roce.src, partner(roce.dest_qpn))
}

/// The other end's number of a queue pair.
const fn partner(qpn: Qpn) -> Qpn {
    Qpn::new(qpn.get() ^ 1)
}
