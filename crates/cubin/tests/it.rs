//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod common;
mod containers;
mod damage;
mod edit;
mod linkage;
mod listing;
mod rebuild;
mod round_trip;
