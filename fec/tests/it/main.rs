//! Both ends of a lane, and what is lost in between.

mod allocations;
mod lane;
mod patterns;
mod plans;
mod shares;
