//! Modifiers of floating-point instructions in the spelling of the machine.

use oriole_ir::Operand;
use oriole_ptx::table::{Modifier, Opcode};

use crate::context::Select;
use crate::ptx::Ptx;

/// Returns the modifiers `.FTZ`, rounding and `.SAT` in the order of the machine's syntax.
pub(crate) fn suffix(ptx: &Ptx<'_>) -> String {
    let mut text = String::new();
    if ptx.has(Modifier::Ftz) {
        text.push_str(".FTZ");
    }
    text.push_str(rounding(ptx));
    if ptx.has(Modifier::Sat) {
        text.push_str(".SAT");
    }
    text
}

/// Returns the machine's rounding modifier; rounding to nearest even has none.
pub(crate) fn rounding(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::Rz) {
        ".RZ"
    } else if ptx.has(Modifier::Rm) {
        ".RM"
    } else if ptx.has(Modifier::Rp) {
        ".RP"
    } else {
        ""
    }
}

/// Lets the product or sum selected last be rounded together with another one, if the PTX instruction has no rounding modifier.
pub(crate) fn allow_contraction(select: &mut Select<'_>, ptx: &Ptx<'_>) {
    let is_rounded = [Modifier::Rn, Modifier::Rz, Modifier::Rm, Modifier::Rp].into_iter().any(|modifier| ptx.has(modifier));
    if matches!(ptx.opcode(), Opcode::Mul | Opcode::Add | Opcode::Sub) && !is_rounded {
        select.b.allow_contraction();
    }
}

/// Negates the second source of a subtraction; returns it unchanged for other operations.
pub(crate) fn negated_if_sub(ptx: &Ptx<'_>, operand: Operand) -> Operand {
    if ptx.opcode() == Opcode::Sub { operand.negated() } else { operand }
}
