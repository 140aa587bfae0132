//! The crate's tests from outside, in one program: each links the crate only once.

mod adaptive;
mod allocations;
mod conformity;
mod dcqcn;
mod delivery;
mod fetch;
mod goodput;
mod receive_queue;
mod responder;
mod robustness;
mod support;
mod switch_nak;
mod turns;
