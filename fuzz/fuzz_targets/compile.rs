//! Text through the whole compiler.
#![no_main]

use oriole_fuzz_cases::compile;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    compile::check(case);
});

libfuzzer_sys::fuzz_mutator!(|buffer: &mut [u8], size: usize, most: usize, seed: u32| {
    oriole_fuzz::mutate("compile", buffer, size, most, seed)
});
