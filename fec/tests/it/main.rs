//! Both ends of a lane that loses frames.

mod allocations;
mod lane;
mod patterns;
mod plans;
mod shares;
