//! Small containers that every other crate uses.
//!
//! Compiler data lives in dense arrays and refers to itself by typed 32-bit indices: half the size of
//! pointers, trivially copied, and impossible to mix up. [`define_index!`] makes an index type,
//! [`IndexVec`] is a vector that is indexed by one. [`Interner`] turns names into such indices, so that a
//! name is hashed once and compared as a number from then on. [`BitSet`], [`SparseSet`] and [`Groups`] are the
//! sets and maps to several items that analyses keep about them. [`strongly_connected`] orders call graphs.
#![deny(missing_docs)]

mod components;
mod groups;
mod index;
mod intern;
mod set;
mod suggest;

pub use components::strongly_connected;
pub use groups::Groups;
pub use index::{Index, IndexVec};
pub use intern::{Interner, Name};
pub use set::{BitSet, SparseSet};
pub use suggest::closest;
