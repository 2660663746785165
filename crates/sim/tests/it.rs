//! The integration tests of this crate in one program, which is linked once. `cargo test --test it NAME::` runs those of one file.

mod asynchronous;
mod clusters;
mod execution_model;
mod hazard_faults;
mod matrices;
mod ptx_coverage;
mod threads;
mod undefined_behaviour;
