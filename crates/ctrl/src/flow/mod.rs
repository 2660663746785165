//! Phase 115: computes control words with exact stalls and six scoreboards over the whole control-flow graph.
//!
//! The hardware has no interlocks for registers. A dependence on an instruction of fixed latency is covered by stall cycles; a dependence
//! on one of variable latency by a scoreboard that the second instruction waits for. (Huerta et al. 2025, "Analyzing Modern NVIDIA GPU
//! Cores", describe the mechanism.) Five steps, each about linear in the length of the code:
//!
//! 1. [`waits`](waits::find_waits) finds the waits: on each path, the first instruction that reads or overwrites an outstanding result, or
//!    that overwrites a source that is read late, has to wait.
//! 2. [`boards`](boards::assign_scoreboards) assigns a scoreboard to each instruction that is waited for. If more than six are needed at
//!    once, instructions share scoreboards.
//! 3. [`stalls`](stalls::compute_stalls) lengthens stalls until every fixed latency has passed on every path, back edges included.
//! 4. [`yields`](yields::set_yields) decides where the hardware may switch to another warp.
//! 5. [`reuse`](reuse::set_reuse_flags) marks source registers that stay in the reuse cache for a later instruction.
//!
//! Register ports (the ways in which instruction classes access registers) and latencies come from the hardware model, which a
//! `--hw-profile` can change; all other rules come from `data/control.tbl`. `oriole verify` checks the result from the encoded bytes and
//! shares no logic with this module.

pub mod boards;
pub mod control_flow;
mod machine_code;
pub mod reasons;
mod reg_access;
mod register_table;
pub mod reuse;
pub mod stalls;
pub mod waits;
pub mod yields;

use oriole_hardware::Hardware;
use oriole_isa::Control;

use control_flow::MachineControlFlow;
use reasons::StallAndWaitReasons;
use reg_access::{InstAccesses, add_fenced_registers};
use stalls::LatencyShortfall;

pub use machine_code::{MachineBlock, MachineCode};

/// The control words of a function, and the latencies that they cannot cover.
#[derive(Debug)]
pub struct ControlAssignment {
    /// The control word of each instruction.
    pub controls: Vec<Control>,
    /// The fixed latencies that stalls cannot cover, by the instruction that would issue too early; a `NOP` has to be inserted before it
    /// (phase 120).
    pub shortfalls: Vec<LatencyShortfall>,
    /// The reasons for stalls and waits; `None` if the caller did not ask for them.
    pub reasons: Option<StallAndWaitReasons>,
}

/// Computes the control words of all instructions and returns them in the order of the code.
pub fn assign(code: &MachineCode<'_>, hardware: &Hardware<'_>) -> Vec<Control> {
    assign_control_words(code, hardware, false).controls
}

/// Computes the control words of all instructions. Returns them in the order of the code, and the reason for each stall and wait.
pub fn assign_with_reasons(code: &MachineCode<'_>, hardware: &Hardware<'_>) -> (Vec<Control>, StallAndWaitReasons) {
    let done = assign_control_words(code, hardware, true);
    (done.controls, done.reasons.unwrap_or_default())
}

/// Computes the control words of all instructions. Records the reasons for stalls and waits if `with_reasons` is true.
pub fn assign_control_words(code: &MachineCode<'_>, hardware: &Hardware<'_>, with_reasons: bool) -> ControlAssignment {
    let (model, rules) = (hardware.model, &*hardware.rules);
    let mut inst_accesses: Vec<InstAccesses> =
        code.instructions.iter().map(|instruction| InstAccesses::new(instruction, model, rules)).collect();
    add_fenced_registers(code, &mut inst_accesses);
    let control_flow = MachineControlFlow::new(code);
    let waits = waits::find_waits(code, &control_flow, &inst_accesses, model);
    let mut controls = boards::assign_scoreboards(code, &control_flow, &inst_accesses, &waits, model, rules);
    let outcome = stalls::compute_stalls(code, &control_flow, &inst_accesses, model, rules, &mut controls, with_reasons);
    yields::set_yields(code, &control_flow, &inst_accesses, rules, &mut controls);
    reuse::set_reuse_flags(code, &control_flow, &inst_accesses, rules, &mut controls);
    let reasons = with_reasons.then_some(StallAndWaitReasons { waits, stalls: outcome.parts });
    ControlAssignment { controls, shortfalls: outcome.shortfalls, reasons }
}
