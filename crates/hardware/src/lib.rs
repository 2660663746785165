//! The hardware model: latencies between instructions, functional units and their rates, and limits of each GPU.
//!
//! Schedulers, the control-word pass, the hazard checker and the timing estimates all take their figures from this crate. The figures are
//! in `data/`, each with its source. The build script reads and checks the tables and turns them into constants (`built_in`), so a program
//! that starts parses nothing. The only text read at run time is a profile file given by the user ([`file`]).

#[macro_use]
mod facts;

mod built_in;
pub mod class;
pub mod control;
pub mod costs;
pub mod file;
mod hardware;
pub mod machine;
pub mod model;
pub mod occupancy;
pub mod rate;
mod sheet;
mod summary;
pub mod tables;
pub mod units;

/// The parsers of the tables in `data/` belong to the build script. Tests parse all tables again and compare them with the constants.
#[cfg(test)]
#[path = "../build/notation/mod.rs"]
mod notation;

pub use class::{Classes, Port, SchedClass};
pub use control::ControlRules;
pub use file::{Profile, ProfileError};
pub use hardware::Hardware;
pub use model::{DependenceKind, LatencyRequirement, Model, VariableLatency, Waits};
pub use rate::ThroughputClass;

/// Size in bytes of a sector, the unit in which the level-one caches of all targets forward stores. The traffic that was measured on an H200
/// (`crates/sched/src/graph/store_clusters.rs`) is counted in these units.
pub const SECTOR_BYTES: i64 = 32;
