//! Passes over Ori in SSA form.
//!
//! One pass is one file with one entry point, `run`. Their order:
//!
//! 1. [`straighten`] joins blocks, [`fuse`] makes multiply-adds, legal or not;
//! 2. [`legalize`] makes every instruction one that the target can encode;
//! 3. [`forward`], [`merge`], [`fold`], [`forward`], [`dead`] clean up. They keep instructions legal: whatever they change, they ask
//!    the contest of forms first ([`machine::fits`]);
//! 4. [`converge`] inserts convergence barriers and cuts blocks that must stay apart, [`give_way`] lets waiting threads yield;
//! 5. [`balance`] comes last: it looks at how much each unit has to do in a block, and nobody looks for sums any more.
//!
//! Only legalization is needed for code to be right.

pub mod balance;
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
pub mod straighten;
