//! Small containers that every other crate uses.
//!
//! Compiler data lives in dense arrays and refers to itself by typed 32-bit indices: half the size of
//! pointers, trivially copied, and impossible to mix up. [`define_index!`] makes an index type,
//! [`IndexVec`] is a vector that is indexed by one. [`Interner`] turns names into such indices, so that a
//! name is hashed once and compared as a number from then on.
#![deny(missing_docs)]

mod index;
mod intern;
mod suggest;

pub use index::{Index, IndexVec};
pub use intern::{Interner, Name};
pub use suggest::closest;
