//! Passes over Ori in SSA form.
//!
//! One pass is one file with one entry point, `run`. Their order:
//!
//! 1. [`fuse`] makes multiply-adds, legal or not;
//! 2. [`legalize`] makes every instruction one that the target can encode;
//! 3. [`forward`], [`merge`], [`fold`], [`forward`], [`dead`] clean up. They keep instructions legal: whatever they change, they ask
//!    the contest of forms first ([`machine::fits`]);
//! 4. [`converge`] inserts convergence barriers and comes last, because it cuts blocks that must stay apart.
//!
//! Only legalization is needed for code to be right.

pub mod converge;
pub mod dead;
mod definitions;
pub mod fold;
pub mod forward;
pub mod fuse;
pub mod give_way;
pub mod legalize;
pub mod machine;
mod meet;
pub mod merge;
mod rewrite;
