//! See `fuzz::switch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::switch::run(data));
