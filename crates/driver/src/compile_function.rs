//! Compiles one function from PTX to machine code, through all passes of the table.

use std::sync::Arc;

use oriole_hardware::occupancy::LaunchResources;
use oriole_opt::remarks::Remarks;
use oriole_opt::settle_products::ProductSyncRemark;
use oriole_regalloc::Allocation;

use crate::emit::EmittedCode;
use crate::error::{ErrorCause, FunctionError};
use crate::pass_log::PassLog;
use crate::passes::Stage;
use crate::pipeline::{run_stage, stop_after_search};
use crate::report_data::ReportData;
use crate::schedule::SchedulePlan;
use crate::search;
use crate::state::{FunctionInput, FunctionState, Selection};

/// A compiled function: its machine code, and the data about it that the cubin and the reports need.
#[derive(Clone, Debug)]
pub struct FinishedFunction {
    /// The machine code.
    pub code: EmittedCode,
    /// Result of the register allocator, including the numbers of spilled bytes.
    pub allocation: Allocation,
    /// Size of the stack frame in local memory, in bytes.
    pub frame_bytes: u32,
    /// Properties of the function that instruction selection found.
    pub selection: Arc<Selection>,
    /// Names of symbols. Each [`AddressPatch`](crate::emit::AddressPatch), an instruction with an address to be filled in, refers to its
    /// symbol by index in this list.
    pub symbols: Vec<String>,
    /// The scheduling plan (backend, mode, occupancy) that was used; `None` if the function was not scheduled.
    pub plan: Option<SchedulePlan>,
    /// Remarks about waits and fences that had to be inserted for asynchronous matrix products.
    pub remarks: Vec<ProductSyncRemark>,
    /// Remarks about changes that passes made or rejected; empty unless requested.
    pub pass_remarks: Remarks,
    /// Data for the scheduling report.
    pub report_data: ReportData,
    /// Resources that a thread block of the kernel needs besides registers; `None` if the block size is not declared.
    pub launch: Option<LaunchResources>,
}

impl FinishedFunction {
    /// Returns whether the function calls any function.
    pub fn has_calls(&self) -> bool {
        !self.selection.callees.is_empty() || !self.selection.indirect_calls.is_empty()
    }
}

/// The result of the compilation of one function.
pub struct FunctionOutcome {
    /// The compiled function, or the errors; `Ok(None)` if the options stop the compilation after a pass.
    pub result: Result<Option<FinishedFunction>, Vec<FunctionError>>,
    /// Names of the functions that the function calls directly.
    pub callees: Vec<String>,
    /// The records of the passes that the options request: timings, printed code.
    pub log: PassLog,
}

/// Compiles one function. On failure the log is complete up to the pass that failed.
pub fn compile_function(input: FunctionInput<'_>) -> FunctionOutcome {
    let mut state = FunctionState::new(&input);
    let result = run_all_passes(&mut state);
    let callees = state.selection.callees.clone();
    let dumps = std::mem::take(&mut state.dumps);
    let result = result.and_then(|()| if state.is_stopped { Ok(None) } else { into_finished_function(state).map(Some) });
    FunctionOutcome { result, callees, log: PassLog { dumps, runs: input.recorder.into_pass_runs() } }
}

/// Runs all passes of the pass table on a function, up to the last one that the options allow.
fn run_all_passes(state: &mut FunctionState<'_>) -> Result<(), Vec<FunctionError>> {
    run_stage(Stage::Optimize, state)?;
    if !state.is_stopped {
        state.delete_unused_insts();
        search::run(state)?;
        stop_after_search(state);
    }
    run_stage(Stage::Emit, state)
}

/// Converts the state of a function after the last pass into the compiled function.
fn into_finished_function(state: FunctionState<'_>) -> Result<FinishedFunction, Vec<FunctionError>> {
    let FunctionState { function, selection, launch, plan, allocation, code, remarks, pass_remarks, report_data, .. } = state;
    let (Some(code), Some(allocation)) = (code, allocation) else {
        return Err(vec![FunctionError::from(ErrorCause::Internal("the passes left no machine code".into()))]);
    };
    let (frame_bytes, symbols) = (function.frame_bytes, function.symbols);
    Ok(FinishedFunction { code, allocation, frame_bytes, selection, symbols, plan, remarks, pass_remarks, report_data, launch })
}
