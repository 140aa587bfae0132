//! The crate's tests from outside, in one program: each links the crate only once.

mod any_bytes;
mod captures;
mod copies;
mod encapsulated;
mod files;
mod gobackn;
mod odd;
mod short;
mod support;
