//! Textures and surfaces: `tex`, `tld4`, `txq`, `suld`, `sust`, `sured`, `suq`.
//!
//! A texture or surface is named by a reference ([`references`]) or by a 64-bit handle, of which the machine uses the lower 32 bits: the
//! number of the texture header in the lower 20 bits and the number of the sampler above. [`handle`] brings the handle to the registers in
//! which the target wants it, [`operands`] arranges coordinates, offsets and the rest, [`fetch`], [`gradient`], [`query`] and [`surface`]
//! select the instructions.
//!
//! The arrangement of the operands was found in the code of ptxas 13.0.88 for each form of the instructions.

mod fetch;
mod fetch_results;
mod gradient;
mod handle;
mod image_words;
mod invariant;
mod operands;
mod query;
mod references;
mod surface;

pub(crate) use fetch::fetch;
pub(crate) use gradient::driver_stack_bytes;
pub use gradient::{GradientHelp, QuadFetch, gradient_help, is_driver_gradient};
pub use image_words::{ImageWord, ImageWords};
pub(crate) use invariant::Invariants;
pub(crate) use query::query;
pub(crate) use surface::{load, reduce, store};
