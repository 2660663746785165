//! Tensor cores: `mma.sync` and `wgmma`.

mod expand;
mod mma;
mod wgmma;

pub(crate) use mma::multiply;
pub(crate) use wgmma::{arrive, commit_products, multiply_in_group, wait_for_products};
