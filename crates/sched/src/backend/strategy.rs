//! The interface that every scheduling strategy implements.
//!
//! A *strategy* is an algorithm that orders the items of one region. It gets the region with its dependency graph, the cost model and the
//! settings ([`Region`]), and a tracker of live registers; it returns a [`Schedule`]. Everything around it is common to all strategies:
//! splitting functions into regions, the register budget, the decision whether the new order is used, the checker, traces and options.
//!
//! A new strategy is a module with a type that implements [`Strategy`], and one line in the table of [`super::registry`]. The checklist is
//! in `docs/contributing.md`, "Add a scheduling strategy".

use oriole_ir::Function;

use super::rearrange::{CodeChange, RearrangeContext};
use super::reason::Reason;
use super::schedule::Schedule;
use super::settings::Settings;
use crate::code::SchedCode;
use crate::graph::Graph;
use crate::pressure::PressureTracker;
use crate::resource::ResourceCosts;

/// A region to be scheduled, with everything that the choice of an order may depend on.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    /// The items of the block. The items of the region are at the positions [`Graph::region`].
    pub code: &'a SchedCode,
    /// The dependency graph of the region.
    pub graph: &'a Graph,
    /// For each instruction class, its functional unit and the cycles for which an instruction occupies the unit.
    pub costs: &'a ResourceCosts,
    /// Optimization goal, stage (before or after register allocation), register budget and numeric parameters.
    pub settings: &'a Settings,
    /// Dependences on the previous iteration, if the region is the whole body of a loop; empty otherwise.
    pub carried: &'a [CarriedEdge],
}

/// A dependence between two consecutive iterations of a loop whose body is the region: an item reads a register that an item of the
/// previous iteration writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedEdge {
    /// Node of the item that writes a register.
    pub from: u32,
    /// Node of the item that reads the register in the next iteration.
    pub to: u32,
    /// Minimum number of cycles from the issue of `from` to the issue of `to`.
    pub latency: u32,
}

/// A function that schedules one region per call. It may keep data about earlier regions of the same program function, such as their
/// orders.
///
/// The tracker of live registers must be at the start of the region; on return it is at the end of the region, in the new order.
pub type RegionScheduler = Box<dyn FnMut(&Region<'_>, &mut PressureTracker) -> Schedule>;

/// A scheduling algorithm for regions, with the properties that its callers must know.
pub trait Strategy {
    /// Returns the name for `--sched-strategy` and `--sched-backend`, for reports and for profiles.
    fn name(&self) -> &'static str;

    /// Returns a description of one line, for help texts.
    fn description(&self) -> &'static str;

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason];

    /// Returns a function that schedules the regions of one program function. All regions must have the same [`Settings::knobs`].
    fn scheduler(&self) -> RegionScheduler;

    /// Returns the maximum number of instructions in a region. Longer runs of instructions are split into several regions.
    fn max_region_instructions(&self) -> usize {
        usize::MAX
    }

    /// Returns the number of instructions above which a function is scheduled in chunks of whole blocks, to bound memory.
    fn chunk_threshold_instructions(&self) -> usize {
        usize::MAX
    }

    /// Returns whether the strategy itself returns the original order where it finds no better one. The caller then need not compare.
    fn falls_back_to_original(&self) -> bool {
        false
    }

    /// Returns whether the caller must run the strategy before register allocation even on a region in which no order can be faster than
    /// the original one. Such a run only shows whether more registers would help ([`Schedule::exceeded_scarcity`]).
    fn reports_register_demand(&self) -> bool {
        true
    }

    /// Returns whether `--sched-backend auto` and `oriole rescore --schedule` try the strategy on every function. Each strategy that they
    /// try costs a whole compilation, so this set must stay small.
    fn is_tried_by_auto(&self) -> bool {
        false
    }

    /// Returns whether the strategy uses [`Region::carried`]. The caller computes these edges only on request.
    fn uses_carried_edges(&self) -> bool {
        false
    }

    /// Returns whether the yield flags of the control words are chosen by a simulation of several warps (`oriole_ctrl::tune_yields`).
    fn tunes_yields(&self) -> bool {
        false
    }

    /// Returns whether [`Strategy::rearrange`] may change functions.
    fn may_rearrange(&self) -> bool {
        false
    }

    /// Changes a function in SSA form as a whole, before its regions are ordered: moves instructions between blocks, or removes some.
    /// Returns every change with its reason. The caller drops all changes if they need too many registers.
    fn rearrange(&self, _function: &mut Function, _context: RearrangeContext<'_>) -> Vec<CodeChange> {
        Vec::new()
    }
}
