//! Tensor cores: `mma.sync`, `wmma`, `wgmma`, `tcgen05` and the instructions that go with them.

mod allocation;
mod expand;
mod fragment;
mod groups;
mod half_results;
mod memory;
mod memory_use;
mod mma;
mod product;
mod products;
mod quad;
mod quad_fragments;
mod scaled;
mod sparse;
mod tensor_memory;
mod tile;
mod wgmma;
mod wmma;

pub use allocation::TENSOR_MEMORY_RECORD;
pub(crate) use memory::{load_fragment, store_fragment};
pub use memory_use::TensorMemoryUse;
pub(crate) use mma::multiply;
pub(crate) use tensor_memory::tensor_memory;
pub(crate) use wgmma::{arrive, commit_products, multiply_in_group, wait_for_products};
pub(crate) use wmma::multiply_fragments;
