//! Reports about scheduling: which decisions were made, for which reason, and their estimated effect.
//!
//! | report | module |
//! |---|---|
//! | counts and estimates of a function, gathered once for the reports before and after register allocation | [`statistics`] |
//! | statistics lines in the format of the published description of ptxas, before and after register allocation | [`lines`] |
//! | which field of these lines counts each instruction | [`fields`] |
//! | issue cycles of blocks, and execution frequencies of blocks | [`timeline`] |
//! | distances between producers and consumers | [`latency_hiding`] |
//! | the text after `SCHEDULING GUIDANCE:`, for each level of detail | [`guidance`] |
//! | the register target and how it is derived | [`target`] |
//! | each scheduling decision with its reason | [`trace`] |
//!
//! Reports read finished code and never change it. They are computed only on request. `docs/scheduling-output.md` defines each figure.

pub mod fields;
pub mod guidance;
pub mod latency_hiding;
pub mod lines;
pub mod statistics;
pub mod target;
pub mod timeline;
pub mod trace;
