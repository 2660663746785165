//! Three list schedulers for a region, with one common interface ([`schedule`]).
//!
//! Input: the dependency graph of a region, the register budget and other [`Settings`]. Output: a [`Schedule`]: a permutation of the
//! region's items, its length in cycles and, on request, the reason for each decision ([`Pick`]). All backends use the same cost model of
//! issue and units ([`clock`]), so their results can be compared. [`crate::check`] validates an order independently of the backends.
//!
//! | backend | algorithm | module |
//! |---|---|---|
//! | A | list scheduling with an eight-bit priority and three modes | [`list`] |
//! | B | a forward and a backward list scheduling pass; the priority is a weighted sum | [`weighted`] |
//! | C | several list schedules with ordered trees as ready lists; the best score wins | [`tree`] |
//!
//! The three follow the schedulers in a published description of ptxas. Each module lists where it departs from that description.

pub mod clock;
pub mod knobs;
pub mod list;
mod reason;
pub mod tree;
pub mod weighted;

use crate::code::Code;
use crate::graph::Graph;
use crate::pressure::{Counts, Tracker};
use crate::resource::{Costs, ResourceVector};
pub use clock::{Length, estimate, lower_bound};
pub use knobs::Knobs;
pub use reason::Reason;

/// A scheduling algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Backend {
    /// List scheduling with an eight-bit priority ([`list`]).
    A,
    /// Forward and backward list scheduling by a weighted sum ([`weighted`]).
    B,
    /// List scheduling with ordered trees, several attempts per region ([`tree`]).
    C,
}

impl Backend {
    /// All backends.
    pub const ALL: [Backend; 3] = [Backend::A, Backend::B, Backend::C];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Backend::A => "a",
            Backend::B => "b",
            Backend::C => "c",
        }
    }

    /// Returns the maximum number of instructions in a region. Longer runs of instructions are split into several regions.
    pub fn longest_block(self) -> usize {
        match self {
            Backend::A => list::LONGEST_BLOCK,
            Backend::B => usize::MAX,
            Backend::C => usize::MAX,
        }
    }

    /// Returns the number of instructions above which a function is scheduled in chunks of whole blocks.
    pub fn largest_function(self) -> usize {
        match self {
            Backend::A => list::LARGEST_FUNCTION,
            Backend::B => usize::MAX,
            Backend::C => usize::MAX,
        }
    }

    /// Returns whether the backend itself falls back to the original order where it finds no better one. The caller then need not compare.
    pub fn falls_back_to_original(self) -> bool {
        matches!(self, Backend::C)
    }

    /// Returns whether the caller must run the backend before register allocation even where the original order is already at its lower
    /// bound, to learn whether it wants more registers ([`Schedule::exceeded_scarcity`]).
    pub fn reports_register_demand(self) -> bool {
        !matches!(self, Backend::B)
    }

    /// Returns the backend with this name on the command line.
    pub fn parse(name: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

/// State that backends keep between the regions of a function.
#[derive(Default)]
pub struct BackendState {
    /// Solutions of regions that backend C has scheduled already.
    pub tree: tree::Solutions,
}

/// Schedules a region with the backend named in the settings.
///
/// The tracker must be at the start of the region; on return it is at the end of the region, in the new order.
pub fn schedule(
    code: &Code,
    graph: &Graph,
    costs: &Costs,
    settings: &Settings,
    tracker: &mut Tracker,
    state: &mut BackendState,
) -> Schedule {
    match settings.backend {
        Backend::A => list::schedule(code, graph, costs, settings, tracker, None),
        Backend::B => weighted::schedule(code, graph, costs, settings, tracker),
        Backend::C => tree::schedule(code, graph, costs, settings, tracker, &mut state.tree),
    }
}

/// The optimization goal of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Minimizes the number of live registers.
    ReduceReg,
    /// Minimizes cycles by instruction-level parallelism, within the register budget.
    Ilp,
    /// As [`Mode::Ilp`], and issues matrix products consecutively, in batches.
    DynBatch,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::ReduceReg, Mode::Ilp, Mode::DynBatch];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::ReduceReg => "reduce-reg",
            Mode::Ilp => "ilp",
            Mode::DynBatch => "dyn-batch",
        }
    }

    /// Returns the mode byte in the description of ptxas.
    pub fn code(self) -> u8 {
        match self {
            Mode::ReduceReg => 0x39,
            Mode::Ilp => 0x49,
            Mode::DynBatch => 0x41,
        }
    }

    /// Returns the mode with this name on the command line.
    pub fn parse(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Register budget of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Maximum number of live registers of each class.
    pub registers: Counts,
    /// Scarcity threshold: with more live general registers than this, backends prefer candidates that free registers. By default 15/16
    /// of the budget of general registers.
    pub scarce_above: i32,
}

impl Budget {
    /// No limit, for code on physical registers.
    pub const UNLIMITED: Budget = Budget { registers: [i32::MAX / 2; 4], scarce_above: i32::MAX / 2 };

    /// Returns the budget of a mode.
    ///
    /// `target` is the maximum number of live registers of each class; `committed` general registers of it are not available.
    /// [`Mode::ReduceReg`] lowers the general budget by the knob `tighten-by`, by default one eighth of the target plus three.
    pub fn new(mode: Mode, target: Counts, committed: i32, knobs: &Knobs) -> Budget {
        let mut general = target[0] - committed;
        if mode == Mode::ReduceReg {
            general -= knobs.tighten_by.unwrap_or(target[0] / 8 + 3);
        }
        let general = general.max(1);
        Budget { registers: [general, target[1], target[2], target[3]], scarce_above: general - knobs.scarce_by.unwrap_or(general / 16) }
    }
}

/// Whether scheduling runs before or after register allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Before register allocation: the order decides how many registers are live.
    Pre,
    /// After register allocation: the order decides about register bank conflicts and operand reuse.
    Post,
}

/// Settings of a scheduling run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The scheduling algorithm.
    pub backend: Backend,
    /// The optimization goal.
    pub mode: Mode,
    /// Before or after register allocation.
    pub stage: Stage,
    /// The register budget.
    pub budget: Budget,
    /// Numeric parameters of the backends.
    pub knobs: Knobs,
    /// Whether to record the reason for each decision in [`Schedule::picks`].
    pub trace: bool,
}

/// One decision of a scheduler, with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Position in the code of the item that was scheduled.
    pub picked: usize,
    /// Position in the code of the second-best candidate; `None` if there was no other candidate or it is not known.
    pub runner_up: Option<usize>,
    /// The comparison that decided between the two.
    pub reason: Reason,
    /// Issue cycle of the scheduled item, from the start of the region.
    pub cycle: u32,
}

/// A new order of a region.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// Positions in the code, in the new order.
    pub order: Vec<usize>,
    /// Length in cycles.
    pub length: Length,
    /// Cycles for which each unit is occupied.
    pub usage: ResourceVector,
    /// Whether some order that was tried exceeded the scarcity threshold [`Budget::scarce_above`], even if this order does not. Only
    /// backend C sets this flag.
    pub exceeded_scarcity: bool,
    /// Maximum number of results in flight at once that need a scoreboard.
    pub max_in_flight: usize,
    /// One decision per item, in the new order; empty unless [`Settings::trace`] is set.
    pub picks: Vec<Pick>,
}
