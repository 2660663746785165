//! Tensor cores: `mma.sync`, `wmma` and the instructions that go with them.

mod expand;
mod fragment;
mod memory;
mod mma;
mod wmma;

pub(crate) use memory::{load_fragment, store_fragment};
pub(crate) use mma::multiply;
pub(crate) use wmma::multiply_fragments;
