//! Runs the passes of the table. As the options request, prints the function before or after a pass, measures or skips the pass, verifies
//! its result, or stops after it.

use oriole_ir::verify;

use crate::error::{ErrorCause, FunctionError};
use crate::pass_log::{DumpMoment, FunctionDump};
use crate::passes::{Pass, Stage};
use crate::patches;
use crate::state::FunctionState;

/// Runs the passes of a stage in order. Stops after the pass that the options name as the last one (`--stop-after`). If the stage runs once
/// for each scheduling plan, it does not stop, because the search compares complete schedules; then [`stop_after_search`] stops the
/// compilation after the search.
pub fn run_stage(stage: Stage, state: &mut FunctionState<'_>) -> Result<(), Vec<FunctionError>> {
    for pass in Pass::of_stage(stage) {
        if state.is_stopped {
            break;
        }
        run_pass(pass, state)?;
        state.is_stopped = !stage.runs_once_per_plan() && is_last_pass(pass, state);
    }
    Ok(())
}

/// Stops the compilation after the search over schedules, if `--stop-after` names one of the passes that the search runs.
pub fn stop_after_search(state: &mut FunctionState<'_>) {
    let mut searched = [Stage::Schedule, Stage::Allocate].into_iter().flat_map(Pass::of_stage);
    state.is_stopped |= searched.any(|pass| is_last_pass(pass, state));
}

/// Returns whether the options name this pass as the last one (`--stop-after`).
fn is_last_pass(pass: &Pass, state: &FunctionState<'_>) -> bool {
    state.options().passes.stop_after.as_deref() == Some(pass.name)
}

/// Runs a pass, unless the optimization level, the options or the bisection limit exclude it.
fn run_pass(pass: &'static Pass, state: &mut FunctionState<'_>) -> Result<(), Vec<FunctionError>> {
    let recorder = &state.input.recorder;
    let is_allowed = |state: &FunctionState<'_>| {
        let is_possible = !state.options().tools_patch || patches::allows_pass(pass.name);
        !pass.is_optional || is_possible && recorder.allows(pass.name, &state.function.name)
    };
    let runs = pass.is_enabled(state) && is_allowed(state);
    if runs {
        recorder.tracker.start_pass(&state.function.name, pass.name).map_err(|cancelled| vec![cancelled])?;
        if recorder.options.print_before.contains(pass.name) {
            record_dump(state, pass, DumpMoment::Before);
        }
        let started = recorder.start(&state.function);
        (pass.run)(state)?;
        recorder.finish(started, pass.name, &state.function);
        state.history.note_pass(pass.name, &state.function);
        if state.options().verify && state.function.is_ssa {
            let broken = |report| vec![FunctionError::from(ErrorCause::Internal(format!("after {}: {report}", pass.name)))];
            verify(&state.function).map_err(broken)?;
        }
    }
    if runs && recorder.options.print_after.contains(pass.name) || is_last_pass(pass, state) {
        record_dump(state, pass, DumpMoment::After);
    }
    Ok(())
}

/// Records the text of the function before or after a pass, in [`FunctionState::dumps`]. Before instruction selection, the text is PTX.
fn record_dump(state: &mut FunctionState<'_>, pass: &Pass, moment: DumpMoment) {
    let input = state.input;
    let is_selected = !state.function.blocks.is_empty();
    let text = if is_selected { oriole_ir::text::print(&state.function) } else { oriole_ptx::print_function(input.module, input.id) };
    state.dumps.push(FunctionDump { function: state.function.name.clone(), pass: pass.name, moment, text });
}
