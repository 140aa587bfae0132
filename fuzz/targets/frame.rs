//! See `testkit::frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::frames::run(data));
