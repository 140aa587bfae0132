//! See `fuzz::fec`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fec::run(data));
