//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod analysis;
mod common;
mod compact;
mod frequency;
mod ssa;
mod template;
mod text;
mod uniformity;
