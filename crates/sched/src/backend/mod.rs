//! Scheduling strategies, which order the items of a region. All implement one interface ([`Strategy`]).
//!
//! Input: the dependency graph of a region, the register budget and other [`Settings`]. Output: a [`Schedule`]: a permutation of the
//! region's items, its length in cycles and, on request, the reason for each decision ([`ScheduleDecision`]). All strategies use the same
//! cost model of issue and units ([`clock`]), so their results can be compared. [`crate::check`] validates an order independently of them.
//!
//! | backend | algorithm | module |
//! |---|---|---|
//! | A | list scheduling with an eight-bit priority and three modes | [`list`] |
//! | B | a forward and a backward list scheduling pass; the priority is a weighted sum | [`weighted`] |
//! | C | several list schedules with ordered trees as ready lists; the best score wins | [`tree`] |
//!
//! | strategy | algorithm | module |
//! |---|---|---|
//! | `permutation` | branch and bound: the shortest order of small regions, with proof | [`permutation`] |
//! | `backtracking` | list scheduling that takes back decisions that lead to a stall | [`backtracking`] |
//! | `critical-path`, `latency`, `scoreboard`, `tensor` | list scheduling by other priorities ([`engine`]) | one module each |
//! | `depth-first`, `pressure` | orders with few live registers | [`depth_first`], [`pressure`] |
//! | `near-source` | few live registers, in an order near the original one | [`near_source`] |
//! | `loop-aware` | fewest cycles per iteration | [`loop_aware`] |
//! | `combined` | the best of several for each region | [`combined`] |
//! | `global`, `software-pipelining`, `barrier-coalescence`, `prefetch` | change the function first ([`rearrange`]), then order as B | one module each |
//! | `dual-issue`, `pairing` | pairs for machines with dual issue | [`dual_issue`] |
//! | `busy-unit` | starts the slowest unit early and keeps it busy | [`busy_unit`] |
//! | `warp-schedule` | as B, with yields tuned by a model of several warps | [`warp_schedule`] |
//!
//! Most of them follow the schedulers in a published description of ptxas; their modules list where they depart from that description.
//! [`registry`] is the table of all strategies; `docs/contributing.md` has a checklist for new ones.

mod backtracking;
mod barrier_coalescence;
mod budget;
mod busy_unit;
mod clock;
mod combined;
mod critical_path;
mod depth_first;
mod dual_issue;
mod engine;
mod global;
mod knobs;
mod latency;
mod list;
mod loop_aware;
mod near_source;
mod permutation;
mod ports;
mod prefetch;
mod pressure;
mod rearrange;
mod reason;
mod registry;
mod schedule;
mod scoreboard;
mod settings;
mod software_pipelining;
mod strategy;
mod tensor;
mod tree;
mod warp_schedule;
mod weighted;
mod weighted_variant;

pub(crate) use clock::lower_bound;
pub use clock::{Length, estimate};
pub use knobs::Knobs;
pub(crate) use ports::measure_allocated_region;
pub(crate) use rearrange::has_late_register_accesses;
pub use rearrange::{ChangeReason, CodeChange, RearrangeContext};
pub use reason::Reason;
pub use registry::Backend;
pub use schedule::{Schedule, ScheduleDecision, SearchOutcome};
pub use settings::{AllocationStage, Budget, ScheduleMode, Settings};
pub use strategy::{CarriedEdge, Region, RegionScheduler, Strategy};
