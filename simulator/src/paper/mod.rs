//! The evaluation: what is simulated against what is known otherwise.

pub mod forms;
