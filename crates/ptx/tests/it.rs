//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod constants;
mod diagnostics;
mod fuzz_smoke;
mod labels;
mod modules;
mod robustness;
mod round_trip;
mod split;
