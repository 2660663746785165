//! Compiles one function from PTX to machine code, through all passes of the table.

use std::sync::Arc;

use oriole_hardware::occupancy::Launch;
use oriole_opt::remarks::Remarks;
use oriole_opt::settle_products::Remark;
use oriole_regalloc::Allocation;

use crate::emit::Code;
use crate::error::{Failure, Fault};
use crate::pass_log::PassLog;
use crate::passes::Stage;
use crate::pipeline::{run_stage, stop_after_search};
use crate::report_data::ReportData;
use crate::schedule::Plan;
use crate::search;
use crate::state::{FunctionState, Input, Selection};

/// A compiled function.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The machine code.
    pub code: Code,
    /// Result of the register allocator. The counts of spilled bytes are in it.
    pub allocation: Allocation,
    /// Bytes of the stack frame in local memory.
    pub frame_bytes: u32,
    /// What instruction selection found about the function.
    pub selection: Arc<Selection>,
    /// Names that the patches of the code refer to, by index.
    pub symbols: Vec<String>,
    /// The scheduling plan used; `None` if the function was not scheduled.
    pub plan: Option<Plan>,
    /// Waits and fences that had to be inserted for asynchronous matrix products.
    pub remarks: Vec<Remark>,
    /// What passes did and did not do, if it is requested.
    pub pass_remarks: Remarks,
    /// Data for the scheduling report.
    pub report_data: ReportData,
    /// Resources that a thread block needs besides registers; `None` if the block size is not declared.
    pub launch: Option<Launch>,
}

impl Finished {
    /// Returns whether the function calls any function.
    pub fn has_calls(&self) -> bool {
        !self.selection.callees.is_empty() || !self.selection.indirect_calls.is_empty()
    }
}

/// The end of the compilation of a function.
pub struct FunctionOutcome {
    /// The compiled function, `None` if the options stop the compilation earlier, or the errors.
    pub result: Result<Option<Finished>, Vec<Failure>>,
    /// Names of the functions that it calls directly.
    pub callees: Vec<String>,
    /// What was recorded about the passes.
    pub log: PassLog,
}

/// Compiles one function. The log has what was recorded up to an error.
pub fn compile_function(input: Input<'_>) -> FunctionOutcome {
    let mut state = FunctionState::new(&input);
    let result = run_all(&mut state);
    let callees = state.selection.callees.clone();
    let dumps = std::mem::take(&mut state.dumps);
    let result = result.and_then(|()| if state.is_stopped { Ok(None) } else { finish(state).map(Some) });
    FunctionOutcome { result, callees, log: PassLog { dumps, runs: input.recorder.into_runs() } }
}

/// Runs all passes of the table, as far as the options allow.
fn run_all(state: &mut FunctionState<'_>) -> Result<(), Vec<Failure>> {
    run_stage(Stage::Optimize, state)?;
    if !state.is_stopped {
        search::run(state)?;
        stop_after_search(state);
    }
    run_stage(Stage::Emit, state)
}

/// Returns the results of all passes.
fn finish(state: FunctionState<'_>) -> Result<Finished, Vec<Failure>> {
    let FunctionState { function, selection, launch, plan, allocation, code, remarks, pass_remarks, report_data, .. } = state;
    let (Some(code), Some(allocation)) = (code, allocation) else {
        return Err(vec![Failure::from(Fault::Internal("the passes left no machine code".into()))]);
    };
    let (frame_bytes, symbols) = (function.frame_bytes, function.symbols);
    Ok(Finished { code, allocation, frame_bytes, selection, symbols, plan, remarks, pass_remarks, report_data, launch })
}
