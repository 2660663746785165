//! Data for the scheduling reports, collected while a function goes through the passes.
//!
//! Only data that was requested is collected ([`Reports`](crate::Reports)). Functions are compiled in parallel, and each has its own data.

use oriole_ctrl::ControlWords;
use oriole_hardware::Hardware;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ir::Function;
use oriole_isel::VariableLayout;
use oriole_ptx::ast::{self, FunctionKind};
use oriole_sched::function::Stats;
use oriole_sched::report::guidance::PassSummary;
use oriole_sched::report::statistics::{FinalCode, FunctionStatistics, gather_statistics};
use oriole_sched::report::target::RegisterTarget;
use oriole_sched::report::timeline::{HardwareFigures, LoopsAndFrequencies};
use oriole_sched::report::trace;
use oriole_sched::resource::ResourceCosts;

use crate::options::Options;
use crate::registers;

/// The data of the scheduling report that was collected for one function.
#[derive(Clone, Default, Debug)]
pub struct ReportData {
    /// The number of registers that the scheduler may use without lowering the occupancy; `None` if the function was not scheduled before
    /// allocation.
    pub target: Option<RegisterTarget>,
    /// A summary of each scheduling pass, in the order in which the passes ran.
    pub passes: Vec<PassSummary>,
    /// Statistics of the code before register allocation; `None` unless requested.
    pub before: Option<FunctionStatistics>,
    /// Control flow of the final code, recorded before the pass `layout` removes branches; `None` unless requested.
    loops_and_frequencies: Option<LoopsAndFrequencies>,
    /// Statistics of the final code; `None` unless requested.
    pub after: Option<FunctionStatistics>,
    /// Size in bytes of the local variables in the stack frame: the size of the frame before allocation.
    pub variables_size: u32,
    /// The reason why the scheduler picked each instruction, as text; empty unless requested.
    pub trace: String,
}

impl ReportData {
    /// Records the result of a scheduling pass and, if `with_trace` is true, the reasons for its picks as text.
    pub fn note_schedule(&mut self, phase: u8, function: &Function, stats: &Stats, with_trace: bool) {
        let &Stats { blocks, cycles_before, cycles_after, live_before, live_after, proved_and_unproved, .. } = stats;
        self.passes.push(PassSummary { phase, blocks, cycles_before, cycles_after, live_before, live_after, proved_and_unproved });
        self.target = self.target.or(stats.target);
        if with_trace {
            self.trace.push_str(&trace::code_changes_text(function, phase, &stats.changes));
            self.trace.push_str(&trace::text(function, phase, &stats.attempts));
        }
    }

    /// Records that another schedule of the function was discarded because its instruction order caused more spills; `other` is its data.
    pub fn note_discarded_schedule(&mut self, other: &ReportData) {
        self.target = other.target;
        if !other.trace.is_empty() {
            self.trace.insert_str(0, &format!("dropped, since allocation made it cost spills:\n{}taken instead:\n", other.trace));
        }
    }

    /// Collects statistics of the function before register allocation.
    pub fn gather_statistics_before_allocation(&mut self, function: &Function, options: &Options, hardware: &Hardware<'_>) {
        self.variables_size = function.frame_bytes;
        if options.reports.figures {
            let costs = ResourceCosts::from_rates(hardware.rates, hardware.machine);
            self.before = Some(gather_statistics(function, HardwareFigures { model: hardware.model, costs: &costs }, None));
        }
    }

    /// Records the control flow of the function before the pass `layout` removes branches to the next block.
    pub fn record_control_flow(&mut self, function: &Function) {
        self.loops_and_frequencies = self.before.as_ref().map(|before| LoopsAndFrequencies::new(function, &before.divergent_blocks));
    }

    /// Collects statistics of the final code.
    pub fn gather_final_statistics(&mut self, function: &Function, controls: &ControlWords, hardware: &Hardware<'_>) {
        if let (Some(before), Some(loops_and_frequencies)) = (&self.before, &self.loops_and_frequencies) {
            let costs = ResourceCosts::from_rates(hardware.rates, hardware.machine);
            let controls = |inst| controls.get(inst);
            let final_code = FinalCode { controls: &controls, loops_and_frequencies, before };
            self.after = Some(gather_statistics(function, HardwareFigures { model: hardware.model, costs: &costs }, Some(final_code)));
        }
    }
}

/// Returns the resources that a thread block of a kernel needs besides registers; `None` if the block size is not declared, and for a
/// function that is not a kernel.
pub fn declared_launch_resources(
    function: &ast::Function,
    options: &Options,
    variables: &VariableLayout,
    barriers: u32,
) -> Option<LaunchResources> {
    let threads = registers::max_block_threads(&registers::complete_launch_bounds(&function.bounds, options))?;
    let is_kernel = function.kind == FunctionKind::Entry;
    is_kernel.then_some(LaunchResources { threads, static_shared: variables.shared_bytes as u32, barriers, ..LaunchResources::default() })
}
