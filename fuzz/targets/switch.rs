//! See `testkit::operations::switch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::operations::switch::run(data));
