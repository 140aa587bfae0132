//! Tests of the real program, on ports that need no NIC.

mod api;
mod cables;
mod kernel_ports;
mod link_loss;
mod pages;
mod pairs;
mod peers;
mod process;
mod protection;
mod reload;
mod support;
mod tunnel;
mod workers;
