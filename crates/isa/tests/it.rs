//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod corpus;
mod footprint;
mod nvdisasm;
mod properties;
mod random_words;
mod select;
mod support;
mod targets;
