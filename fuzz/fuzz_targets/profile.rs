//! Texts of hardware profiles.
#![no_main]

use oriole_fuzz_cases::profile;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    profile::check(case);
});

libfuzzer_sys::fuzz_mutator!(|buffer: &mut [u8], size: usize, most: usize, seed: u32| {
    oriole_fuzz::mutate("profile", buffer, size, most, seed)
});
