//! What the targets share.

/// Every third case is made by libFuzzer's own mutations, the others by those of the target, which leave most cases readable.
pub fn mutate(target: &str, buffer: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    match oriole_fuzz_cases::target(target) {
        Some(target) if !seed.is_multiple_of(3) => oriole_fuzz_cases::damage_in_place(target, buffer, size, most, seed),
        _ => libfuzzer_sys::fuzzer_mutate(buffer, size, most),
    }
}
