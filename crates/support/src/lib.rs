//! Small containers that all other crates use, and the names of targets.
//!
//! Compiler data is kept in dense arrays and refers to other data by typed 32-bit indices: half the size of pointers, cheap to copy, and
//! checked by the type system. [`define_index!`] defines an index type, [`IndexVec`] is a vector indexed by one. [`Interner`] maps names
//! to such indices, so that a name is hashed once and then compared as a number. [`BitSet`], [`SparseSet`] and [`Groups`] are sets of
//! indices and maps from indices to lists. [`strongly_connected`] orders call graphs; [`closest`] finds spelling suggestions; [`run_jobs`]
//! runs independent jobs on several threads.
//!
//! [`Target`] is a GPU target such as `sm_90a`, and the only type for one in the workspace.
#![deny(missing_docs)]

mod components;
mod groups;
mod index;
mod intern;
mod jobs;
mod set;
mod suggest;
mod target;

pub use components::strongly_connected;
pub use groups::Groups;
pub use index::{Index, IndexVec};
pub use intern::{Interner, Name};
pub use jobs::{SMALL_TEXT_BYTES, available_threads, drop_on_pool, run_jobs, run_jobs_on_pool};
pub use set::{BitSet, SparseSet};
pub use suggest::closest;
pub use target::{Architecture, Family, PtxVersion, Suffix, Target};
