//! Reads a scenario from a TOML file, which `docs/simulator.md` describes.
//!
//! A file each: `file` reads the top level, `network`, `wan`, `nic` and `flows` the sections; `check`
//! finds contradictions; `vary` overrides values of the file.

mod check;
mod file;
mod flows;
mod network;
mod nic;
mod vary;
mod wan;

pub use file::{load, parse};
pub use vary::{Varied, override_key};
