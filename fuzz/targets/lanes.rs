//! See `fuzz::tunnel::lanes`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tunnel::lanes::run(data));
