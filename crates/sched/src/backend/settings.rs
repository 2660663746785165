//! Settings of a scheduling run: the optimization goal, the register budget, the stage of compilation.

use super::knobs::Knobs;
use crate::pressure::PressureCounts;

/// The optimization goal of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScheduleMode {
    /// Minimizes the number of live registers.
    ReduceReg,
    /// Minimizes cycles by instruction-level parallelism, within the register budget.
    Ilp,
    /// Minimizes cycles like [`ScheduleMode::Ilp`], and issues matrix products consecutively, in batches.
    DynBatch,
}

impl ScheduleMode {
    /// All modes.
    pub const ALL: [ScheduleMode; 3] = [ScheduleMode::ReduceReg, ScheduleMode::Ilp, ScheduleMode::DynBatch];

    /// Returns the name of the mode on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleMode::ReduceReg => "reduce-reg",
            ScheduleMode::Ilp => "ilp",
            ScheduleMode::DynBatch => "dyn-batch",
        }
    }

    /// Returns the code of the mode in the published description of ptxas.
    pub fn code(self) -> u8 {
        match self {
            ScheduleMode::ReduceReg => 0x39,
            ScheduleMode::Ilp => 0x49,
            ScheduleMode::DynBatch => 0x41,
        }
    }

    /// Returns the mode with this name on the command line; `None` if there is none.
    pub fn parse(name: &str) -> Option<ScheduleMode> {
        ScheduleMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Register budget of a schedule: how many registers may be live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Maximum number of live registers of each class.
    pub registers: PressureCounts,
    /// Scarcity threshold: with more live general registers than this, backends prefer candidates that free registers. By default 15/16
    /// of the budget of general registers.
    pub scarce_above: i32,
}

impl Budget {
    /// No limit; used for code on physical registers.
    pub const UNLIMITED: Budget = Budget { registers: [i32::MAX / 2; 4], scarce_above: i32::MAX / 2 };

    /// Returns the register budget for a mode.
    ///
    /// `target` is the maximum number of live registers of each class. `committed` is a number of general registers by which the budget is
    /// smaller than that; it is not 0 if an order with the whole budget needed too many registers. [`ScheduleMode::ReduceReg`] also
    /// subtracts the value of the knob `tighten-by`, by default one eighth of the target plus three.
    pub fn new(mode: ScheduleMode, target: PressureCounts, committed: i32, knobs: &Knobs) -> Budget {
        let mut general = target[0] - committed;
        if mode == ScheduleMode::ReduceReg {
            general -= knobs.tighten_by.unwrap_or(target[0] / 8 + 3);
        }
        let general = general.max(1);
        Budget { registers: [general, target[1], target[2], target[3]], scarce_above: general - knobs.scarce_by.unwrap_or(general / 16) }
    }
}

/// Whether scheduling runs before or after register allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocationStage {
    /// Before register allocation: the order determines the register pressure.
    Pre,
    /// After register allocation: the order determines register bank conflicts and operand reuse.
    Post,
}

/// Settings of a scheduling run, which apply to all regions of a block.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The optimization goal.
    pub mode: ScheduleMode,
    /// Whether the run is before or after register allocation.
    pub stage: AllocationStage,
    /// Limits on the number of live registers.
    pub budget: Budget,
    /// Numeric parameters of the backends.
    pub knobs: Knobs,
    /// Number of warps that share a hardware scheduler and execute the region at nearly the same time, for example the warps of a thread
    /// block that synchronize at barriers; 1 if unknown.
    pub warps_in_step: u32,
    /// Whether to record the reason for each decision in [`Schedule::picks`].
    pub trace: bool,
}
