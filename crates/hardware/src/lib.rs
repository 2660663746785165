//! The hardware model: what each GPU needs between two instructions, which units it has, and how much fits on it.
//!
//! Everything that schedules, waits, verifies or estimates time asks this crate. The figures stand in `data/`, each with its source.

#[macro_use]
mod facts;

pub mod class;
pub mod control;
pub mod costs;
pub mod file;
pub mod machine;
pub mod model;
pub mod occupancy;
pub mod rate;
mod sheet;
pub mod tables;
pub mod units;

pub use class::{Class, Classes, Port};
pub use control::ControlRules;
pub use file::{Profile, ProfileError};
pub use model::{Kind, Model, Need, Time, Waits};
pub use rate::ThroughputClass;
