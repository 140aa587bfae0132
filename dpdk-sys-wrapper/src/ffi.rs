//! The raw bindings, as bindgen writes them. Nothing outside this crate sees
//! them, and only [`crate::mbuf`] reads fields of `rte_mbuf`, whose layout
//! differs between DPDK releases.
#![allow(
    // Generated: DPDK's names, and no comments of its own.
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unused_qualifications,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
