//! See `testkit::operations::depot`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::operations::depot::run(data));
