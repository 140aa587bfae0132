//! The crate's tests from outside, in one program: each links the crate only once.

mod connections;
mod control;
mod due;
mod incarnations;
mod leaving;
mod memory;
mod operator;
mod pairing;
mod pass;
mod peers;
mod quota;
mod rest;
mod retune;
mod sparse;
mod support;
mod twins;
mod unprotected;
