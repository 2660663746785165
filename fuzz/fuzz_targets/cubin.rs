//! Bytes as a file with machine code.
#![no_main]

use oriole_fuzz_cases::cubin;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    cubin::check(case);
});

libfuzzer_sys::fuzz_mutator!(|buffer: &mut [u8], size: usize, most: usize, seed: u32| {
    oriole_fuzz::mutate("cubin", buffer, size, most, seed)
});
