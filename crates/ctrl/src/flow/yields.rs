//! Yields: where the scheduler may turn to other warps.
//!
//! What ptxas writes is regular. An instruction of fixed latency yields from a stall of three cycles on; while a stall is shorter, the
//! warp goes on before another could do much. What goes to a queue, and branches, stay, whatever their stall: the next instruction is
//! likely to find the unit ready. An instruction that keeps a register in the reuse cache stays, because another warp would push it out.
//! And a stall that is only kept with yield has it.

use oriole_hardware::ControlRules;
use oriole_isa::{Control, Opcode};

use super::touch::Touches;

/// Sets the yields of all control words; the stalls are final.
pub fn decide(touches: &[Touches], rules: &ControlRules, controls: &mut [Control]) {
    let facts = &rules.facts;
    for (control, touched) in controls.iter_mut().zip(touches) {
        let wants = rules.wants(touched.opcode);
        let is_queued = touched.announces_results || touched.announces_reads || touched.opcode == Opcode::BAR;
        let is_control = u32::from(wants.least_stall) > facts.least_stall;
        let stall = u32::from(control.stall);
        let gives_way = stall >= facts.yield_from && !is_queued && !is_control && control.reuse == 0;
        control.stay = !(gives_way || stall >= facts.yield_needed || wants.open_stall);
    }
}
