//! The evaluation: everything that stands in `docs/evaluation.md`.

pub mod forms;
