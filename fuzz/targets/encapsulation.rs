//! See `fuzz::tunnel::encapsulation`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tunnel::encapsulation::run(data));
