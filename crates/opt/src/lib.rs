//! Optimization and legalization passes over Ori in SSA form.
//!
//! Each pass is one file with one entry point, `run`. The driver runs the passes in this order:
//!
//! 1. [`uniform_handles`] removes loops over operands that are uniform; [`straighten`] merges straight-line blocks; [`simplify`]
//!    removes arithmetic on words that are known at compile time; [`contract`] and [`fuse`] form multiply-adds, which may not be encodable
//!    yet; [`split_index`] adds the constant parts of array indices to the addresses instead.
//! 2. [`legalize`] rewrites every instruction into one that the target can encode.
//! 3. [`tie_loads`], [`forward`], [`narrow`], [`hoist`], [`merge`], [`share_products`], [`unroll`], [`contract`] and [`simplify`] again, [`fold`],
//!    [`join_phis`], [`combine`], [`forward_stores`], [`vector_loads`], [`forward`] again, [`constant_handles`], [`halves`], [`dead`],
//!    [`share_tuples`], [`uniform`], [`if_convert`] and [`guard_sums`] optimize; [`reduce`] and [`aggregate`] make atomic operations
//!    cheaper; [`uniform_numbers`] keeps doubles in uniform registers, [`share_constants`] loads the constants of a loop before the
//!    loop, [`gather_stores`] moves stores to the same sector next to each other, and [`peel_waits`] tests a barrier before the loop that
//!    waits for it. These passes keep instructions legal: before a change
//!    they check that the target has an encoding form for the result ([`oriole_ir::machine::is_encodable`]).
//! 4. [`converge`] inserts convergence barriers and splits blocks that must stay separate; [`sync_diverged`] makes synchronizations
//!    of some threads conditional; [`insert_yields`] inserts `YIELD` into loops
//!    that may wait for other threads; [`stagger_products`] divides groups of warpgroup products, so that they overlap with arithmetic.
//! 5. [`balance`] runs late because it replaces some additions by instructions that the other passes do not recognize as additions.
//!    [`constant_phis`] is the last pass on SSA values: it removes the registers of constants that only phis and packs read.
//! 6. [`drop_copies`] deletes repeated moves after register allocation; [`guard_copies`], [`settle_products`] and [`idle_instructions`] are
//!    for code with physical registers, after scheduling.
//!
//! Correct code needs [`legalize`], [`converge`], [`insert_yields`], [`guard_copies`], [`settle_products`] and [`idle_instructions`]; all
//! others are optional. [`remarks`] records, on request, which transformations passes made, and why they did not make others;
//! [`alternatives`] records the forms of instructions that they rejected.

pub mod aggregate;
pub mod alternatives;
pub mod balance;
pub mod combine;
pub mod constant_handles;
pub mod constant_phis;
pub mod contract;
pub mod converge;
pub mod dead;
mod definitions;
pub mod drop_copies;
pub mod drop_divergence_tests;
pub mod fold;
pub mod forward;
pub mod forward_stores;
pub mod fuse;
pub mod gather_stores;
pub mod guard_copies;
pub mod guard_elected;
pub mod guard_sums;
pub mod halves;
pub mod hoist;
pub mod idle_instructions;
pub mod if_convert;
pub mod insert_yields;
pub mod join_phis;
mod known;
pub mod legalize;
mod loop_analyses;
pub mod merge;
pub mod narrow;
pub mod peel_waits;
mod redirect_edges;
pub mod reduce;
pub mod remarks;
mod rewrite;
pub mod settle_products;
pub mod share_constants;
pub mod share_products;
pub mod share_tuples;
pub mod simplify;
pub mod split_index;
pub mod stagger_products;
pub mod straighten;
pub mod sync_diverged;
pub mod tie_loads;
pub mod uniform;
pub mod uniform_handles;
pub mod uniform_numbers;
mod unknown_facts;
pub mod unroll;
pub mod vector_loads;
