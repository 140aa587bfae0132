//! See `fuzz::sentry`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::sentry::run(data));
