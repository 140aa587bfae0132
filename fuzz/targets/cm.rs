//! See `fuzz::cm`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::cm::run(data));
