//! See `testkit::operations::sentry`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::operations::sentry::run(data));
