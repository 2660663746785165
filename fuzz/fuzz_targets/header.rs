//! Kernel tests: headers, and small ones in the interpreter.
#![no_main]

use oriole_fuzz_cases::header;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    header::check(case);
});

libfuzzer_sys::fuzz_mutator!(|buffer: &mut [u8], size: usize, most: usize, seed: u32| {
    oriole_fuzz::mutate("header", buffer, size, most, seed)
});
