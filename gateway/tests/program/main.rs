//! Tests of the real program, on ports that need no NIC.

mod process;
mod support;
mod workers;
