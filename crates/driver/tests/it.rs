//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod addresses;
mod attributes;
mod bisect;
mod calls;
mod debug_registers;
mod hardware_profile;
mod parameters;
mod passes;
mod private_symbols;
mod quad_products;
mod references;
mod remote_copies;
mod scheduling;
mod scheduling_report;
mod targets;
mod tensor_memory;
mod texture_counts;
mod textures;
mod video_of_ptxas;
mod volta_products;
