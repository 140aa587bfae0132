//! See `fuzz::control`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::control::run(data));
