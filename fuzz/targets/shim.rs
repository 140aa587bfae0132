//! See `fuzz::tunnel::shim`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tunnel::shim::run(data));
