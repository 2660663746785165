//! Reads of copies become reads of what was copied.
//!
//! Copies, moves between registers of one file and packs are looked through, register by register. A read of several registers is
//! redirected if these turn out to be consecutive and aligned again: a pack of all parts of a value in order is that value. The
//! copies themselves stay; whatever nobody reads any more is removed as dead code.

use oriole_ir::{Function, Guard, OperandKind, Part, Pseudo, Role, Target};

use smallvec::SmallVec;

use crate::definitions::Definitions;

/// What was redirected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Operands and guards that read something else now.
    pub redirected: usize,
}

/// Redirects reads of copies.
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
                let origin = definitions.origin_of_all(function, part);
                if origin != part && is_allowed(function, inst, origin) {
                    redirected.push((source, origin));
                }
            }
            stats.redirected += redirected.len();
            for (source, origin) in redirected {
                function.sources_mut(inst)[source].kind = OperandKind::Value(origin);
            }
            if let Some(Guard { kind: OperandKind::Value(part), negated }) = function.insts[inst].guard {
                let origin = definitions.origin_of_all(function, part);
                if origin != part {
                    function.insts[inst].guard = Some(Guard { kind: OperandKind::Value(origin), negated });
                    stats.redirected += 1;
                }
            }
        }
    }
    stats
}

/// Phis read whole values only, so that the variable they stand for can be one.
fn is_allowed(function: &Function, inst: oriole_ir::Inst, origin: Part) -> bool {
    !function.insts[inst].is(Pseudo::Phi) || origin == function.whole(origin.value)
}
