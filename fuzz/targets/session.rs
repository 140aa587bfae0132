//! See `fuzz::tunnel::session`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tunnel::session::run(data));
