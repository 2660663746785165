//! Yields: where the scheduler may turn to other warps.
//!
//! What ptxas writes is regular. An instruction of fixed latency yields from a stall of three cycles on; while a stall is shorter, the
//! warp goes on before another could do much. But who has not yielded for ten cycles does so at the next stall of two, and keeps nothing in
//! the reuse cache then. What goes to a queue, and branches, stay, whatever their stall: the next instruction is likely to find the unit
//! ready. A stall that is only kept with yield has it, and so has a branch to itself.

use oriole_hardware::ControlRules;
use oriole_isa::{Control, Opcode};

use super::Code;
use super::paths::Paths;
use super::touch::Touches;

/// Sets the yields of all control words; the stalls are final.
pub fn decide(code: &Code<'_>, paths: &Paths, touches: &[Touches], rules: &ControlRules, controls: &mut [Control]) {
    let facts = &rules.facts;
    let mut without = 0;
    for (number, block) in code.blocks.iter().enumerate() {
        if !paths.goes_on(code, number) {
            without = 0;
        }
        for (control, touched) in controls[block.range.clone()].iter_mut().zip(&touches[block.range.clone()]) {
            let wants = rules.wants(touched.opcode);
            let is_queued = touched.announces_results || touched.announces_reads || touched.opcode == Opcode::BAR;
            let is_control = u32::from(wants.least_stall) > facts.least_stall;
            let stall = u32::from(control.stall);
            let least = if without >= facts.yield_due { facts.yield_due_from } else { facts.yield_from };
            let gives_way = stall >= least && !is_queued && !is_control;
            control.stay = !(gives_way || stall >= facts.yield_needed || wants.open_stall);
            without = if control.stay { without + stall } else { 0 };
        }
        // Who goes round for ever, for instance until another warp ends the program, must not keep that one from running.
        if block.range.len() == 1 && block.successors.contains(&number) {
            controls[block.range.start].stay = false;
        }
    }
}
