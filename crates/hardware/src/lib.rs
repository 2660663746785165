//! The hardware model: what each GPU needs between two instructions, which units it has, and how much fits on it.
//!
//! Everything that schedules, waits, verifies or estimates time asks this crate. The figures stand in `data/`, each with its source. The
//! build script reads and checks them and makes constants of them (`built_in`), so that asking costs nothing when a program starts; the
//! only text that is read at run time is that of a profile file ([`file`]).

#[macro_use]
mod facts;

mod built_in;
pub mod class;
pub mod control;
pub mod costs;
pub mod file;
pub mod machine;
pub mod model;
pub mod occupancy;
pub mod rate;
mod sheet;
mod summary;
pub mod tables;
pub mod units;

/// The readers of `data/` are the build script's; tests read everything again and compare.
#[cfg(test)]
#[path = "../build/notation/mod.rs"]
mod notation;

pub use class::{Class, Classes, Port};
pub use control::ControlRules;
pub use file::{Profile, ProfileError};
pub use model::{Kind, Model, Need, Time, Waits};
pub use rate::ThroughputClass;
