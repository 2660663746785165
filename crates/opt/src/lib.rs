//! Passes over Ori in SSA form.
//!
//! One pass is one file with one entry point, `run`. [`legalize`] makes every instruction one that the target can encode; the
//! passes after it keep that: whatever they change they ask the contest of forms about first ([`machine::fits`]).

pub mod converge;
pub mod dead;
mod definitions;
pub mod fold;
pub mod forward;
pub mod legalize;
pub mod machine;
mod meet;
pub mod merge;
mod rewrite;
mod uniform;
