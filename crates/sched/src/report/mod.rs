//! The scheduler's account of itself: what it did, why, and what it is worth.
//!
//! | what | file |
//! |---|---|
//! | figures of a function, one gathering for both formats | [`statistics`] |
//! | the lines of a published description of ptxas, before and after allocation | [`lines`] |
//! | which instruction counts for which field of these lines | [`fields`] |
//! | cycles of blocks and how often they are executed | [`timeline`] |
//! | how far apart producers and consumers are | [`latency`] |
//! | `SCHEDULING GUIDANCE:` with its levels | [`guidance`] |
//! | the target of registers, and how it came | [`target`] |
//! | every pick with its reason | [`trace`] |
//!
//! All of it reads finished code and changes nothing; it runs only if somebody asks. `docs/scheduling-output.md` says what each figure means.

pub mod fields;
pub mod guidance;
pub mod latency;
pub mod lines;
pub mod statistics;
pub mod target;
pub mod timeline;
pub mod trace;
