//! Three ways to put a region into order, behind one door.
//!
//! A backend gets the graph of a region, a budget of registers and settings, and gives back a permutation with its length and, if asked, the
//! reason of each pick ([`Pick`]). All of them reckon time with the same [`clock`], so their results can be compared; none of them is
//! trusted: [`crate::check`] looks at the order alone.
//!
//! | backend | what it is | file |
//! |---|---|---|
//! | A | list scheduler with eight bits of priority and three modes | [`list`] |
//! | B | forward, then backward, by a weighted sum | [`weighted`] |
//! | C | list scheduler with an ordered tree, scores and several alternatives | [`tree`] |

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
pub use clock::{Length, estimate, least};
pub use knobs::Knobs;
pub use reason::Reason;

/// Who puts instructions into order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Backend {
    /// The list scheduler with eight bits of priority.
    A,
    /// Forward, then backward, by a weighted sum.
    B,
    /// The list scheduler with an ordered tree.
    C,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 3] = [Backend::A, Backend::B, Backend::C];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Backend::A => "a",
            Backend::B => "b",
            Backend::C => "c",
        }
    }

    /// The longest block that it schedules in one piece.
    pub fn longest_block(self) -> usize {
        match self {
            Backend::A => list::LONGEST_BLOCK,
            Backend::B => usize::MAX,
            Backend::C => usize::MAX,
        }
    }

    /// Functions above this size it schedules in chunks.
    pub fn largest_function(self) -> usize {
        match self {
            Backend::A => list::LARGEST_FUNCTION,
            Backend::B => usize::MAX,
            Backend::C => usize::MAX,
        }
    }

    /// Whether it gives back the order of the source where it finds none that is better, so that nobody else need compare.
    pub fn gives_up_for_source(self) -> bool {
        matches!(self, Backend::C)
    }

    /// Whether its schedules tell that they wanted more registers ([`Schedule::wants_registers`]).
    pub fn tells_wishes(self) -> bool {
        !matches!(self, Backend::B)
    }

    /// The backend of this name.
    pub fn parse(name: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

/// What backends keep from region to region of a function.
#[derive(Default)]
pub struct Memory {
    /// What backend C has found.
    pub tree: tree::Solutions,
}

/// Schedules a region with the backend that the settings name. The tracker stands at its start, and afterwards at its end.
pub fn schedule(code: &Code, graph: &Graph, costs: &Costs, settings: &Settings, tracker: &mut Tracker, memory: &mut Memory) -> Schedule {
    match settings.backend {
        Backend::A => list::schedule(code, graph, costs, settings, tracker, None),
        Backend::B => weighted::schedule(code, graph, costs, settings, tracker),
        Backend::C => tree::schedule(code, graph, costs, settings, tracker, &mut memory.tree),
    }
}

/// What a schedule is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Few registers.
    ReduceReg,
    /// Parallel instructions, hidden latencies.
    Ilp,
    /// As [`Mode::Ilp`], with matrix products in batches.
    DynBatch,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::ReduceReg, Mode::Ilp, Mode::DynBatch];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::ReduceReg => "reduce-reg",
            Mode::Ilp => "ilp",
            Mode::DynBatch => "dyn-batch",
        }
    }

    /// The number that the description gives it.
    pub fn code(self) -> u8 {
        match self {
            Mode::ReduceReg => 0x39,
            Mode::Ilp => 0x49,
            Mode::DynBatch => 0x41,
        }
    }

    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Registers of each class that a schedule may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The most that may be live.
    pub registers: Counts,
    /// From here on general registers are scarce: 15/16 of the budget.
    pub reduced: i32,
}

impl Budget {
    /// As many as one likes, for code that has its registers already.
    pub const UNLIMITED: Budget = Budget { registers: [i32::MAX / 2; 4], reduced: i32::MAX / 2 };

    /// The budget of a mode, given the target. Where registers are to be saved it is tighter: by an eighth and three more, or by what is said.
    pub fn new(mode: Mode, target: Counts, committed: i32, knobs: &Knobs) -> Budget {
        let mut general = target[0] - committed;
        if mode == Mode::ReduceReg {
            general -= knobs.tighten_by.unwrap_or(target[0] / 8 + 3);
        }
        let general = general.max(1);
        Budget { registers: [general, target[1], target[2], target[3]], reduced: general - knobs.scarce_by.unwrap_or(general / 16) }
    }
}

/// Whether registers have their places yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Before allocation: order decides how many registers are live.
    Pre,
    /// After it.
    Post,
}

/// How to schedule.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// By whom.
    pub backend: Backend,
    /// What for.
    pub mode: Mode,
    /// When.
    pub stage: Stage,
    /// With how many registers.
    pub budget: Budget,
    /// Figures that can be set.
    pub knobs: Knobs,
    /// Whether to record why each instruction was picked.
    pub trace: bool,
}

/// Why an instruction was picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Its position in the code.
    pub picked: usize,
    /// Who came second; none if nobody else was ready.
    pub runner_up: Option<usize>,
    /// The comparison that decided between the two.
    pub reason: Reason,
    /// The cycle of its issue.
    pub cycle: u32,
}

/// A new order.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// Positions in the code.
    pub order: Vec<usize>,
    /// How long it takes.
    pub length: Length,
    /// How long each unit is used.
    pub usage: ResourceVector,
    /// Whether an order that was tried wanted more registers than the budget leaves without being scarce, even if this one does not.
    pub wants_registers: bool,
    /// The most scoreboards that were wanted at once.
    pub most_scoreboards: usize,
    /// Why, if it was asked for.
    pub picks: Vec<Pick>,
}
