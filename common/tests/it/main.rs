//! The crate's tests from outside, in one program: each links the crate only once.

mod any_bytes;
mod captures;
mod cm;
mod frames;
mod support;
