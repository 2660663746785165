//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod common;
mod forms;
mod library;
mod machine;
mod meaning;
mod memory;
mod targets;
mod tensor_maps;
mod variables;
