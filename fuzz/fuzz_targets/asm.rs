//! Listings through the assembler.
#![no_main]

use oriole_fuzz_cases::asm;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    asm::check(case);
});

libfuzzer_sys::fuzz_mutator!(|buffer: &mut [u8], size: usize, most: usize, seed: u32| {
    oriole_fuzz::mutate("asm", buffer, size, most, seed)
});
