//! Tensor cores: `mma.sync` and the instructions that go with it.

mod expand;
mod mma;

pub(crate) use mma::multiply;
