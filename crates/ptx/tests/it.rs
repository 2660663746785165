//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod constants;
mod diagnostics;
mod enumerate;
mod fuzz_smoke;
mod labels;
mod lexer;
mod modules;
mod robustness;
mod round_trip;
mod scopes;
mod split;
mod table;
