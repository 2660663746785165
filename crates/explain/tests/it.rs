//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod changes;
mod invariants;
mod measured;
mod out_of_line;
mod page;
mod robustness;
