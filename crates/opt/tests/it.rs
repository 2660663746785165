//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod combine_rules;
mod converge;
mod legalize;
mod proofs;
mod simplify_rules;
mod stagger_products;
mod unroll;
