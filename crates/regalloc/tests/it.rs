//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod cases;
mod every_fault;
mod faults;
mod generate;
mod large;
mod random;
