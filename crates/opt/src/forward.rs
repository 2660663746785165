//! Copy propagation: redirects reads of a copy to the value that was copied.
//!
//! Copies, moves within one register file, and packs are looked through register by register. A read of several registers is redirected
//! only if their origins are again consecutive and aligned, or if all of them are a copy of one tuple. For example, a pack of all registers
//! of a value in order is that value. The copies stay in place; dead-code elimination removes those without readers.

use oriole_ir::{Function, Guard, OperandKind, Part, Pseudo, Role, Target};

use smallvec::SmallVec;

use crate::definitions::Definitions;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of operands and guards that now read a copied value instead of its copy.
    pub redirected: usize,
}

/// Makes instructions read copied values instead of their copies, in a whole function.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let definitions = Definitions::compute(function);
    let mut stats = Stats::default();
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            let mut redirected: SmallVec<[(usize, Part); 8]> = SmallVec::new();
            for (source, operand) in function.sources(inst).iter().enumerate() {
                let (Some(part), false) = (operand.part(), matches!(operand.role, Role::Fixed(_))) else { continue };
                let mut origin = definitions.origin_of_group(function, part);
                // A tied operand keeps reading its own copy of a tuple, because the instruction overwrites the registers of the operand.
                if origin == part && part.count > 1 && !matches!(operand.role, Role::Tied(_)) {
                    origin = definitions.copied_group(function, part);
                }
                if origin != part && may_read_origin(function, inst, operand.role, origin) {
                    redirected.push((source, origin));
                }
            }
            stats.redirected += redirected.len();
            for (source, origin) in redirected {
                function.sources_mut(inst)[source].kind = OperandKind::Value(origin);
            }
            if let Some(Guard { kind: OperandKind::Value(part), negated }) = function.insts[inst].guard {
                let origin = definitions.origin_of_group(function, part);
                if origin != part {
                    function.insts[inst].guard = Some(Guard { kind: OperandKind::Value(origin), negated });
                    stats.redirected += 1;
                }
            }
        }
    }
    stats
}

/// Returns whether an instruction may read `origin` instead of a copy of it as an operand with this role. A phi may read whole values only,
/// so that its sources and its result can be in the same registers; so may a tied operand of one register.
fn may_read_origin(function: &Function, inst: oriole_ir::Inst, role: Role, origin: Part) -> bool {
    let shares_registers = function.insts[inst].is(Pseudo::Phi) || matches!(role, Role::Tied(_)) && origin.count == 1;
    !shares_registers || origin == function.whole(origin.value)
}
