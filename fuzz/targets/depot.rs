//! See `fuzz::depot`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::depot::run(data));
