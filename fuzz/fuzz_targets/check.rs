//! Bytes through the front end.
#![no_main]

#[path = "../check_case.rs"]
mod check_case;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    check_case::check_case(text);
});
