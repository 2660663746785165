//! SSA construction: gives each definition of a variable a value of its own.
//!
//! Instruction selection assigns variables (PTX registers) wherever PTX does, mostly with `COPY var, x`; under a guard the copy has the
//! old value of the variable as a tied operand. [`construct_ssa`] converts such a function to pruned SSA form:
//!
//! 1. unreachable blocks are removed, and an entry block with predecessors gets a new block before it;
//! 2. *variables* are distinguished from *values* ([`variables`]): a variable has several definitions, or one that some path to a use
//!    avoids;
//! 3. phis are placed on the iterated dominance frontier of each variable's definitions, where the variable is live ([`place`]);
//! 4. a walk over the dominator tree renames variables and propagates copies ([`rename`], as in Cytron et al. 1991): after an unguarded
//!    `COPY var, %7[1]` a read of `var` becomes a read of `%7[1]`;
//! 5. redundant phis (all sources equal) and dead phis are removed ([`simplify`]);
//! 6. guarded copies of a result computed in the same block under the same guard are folded into that instruction ([`fold`]).
//!
//! A variable that is read before any assignment reads as the zero register, or as [`crate::OperandKind::Undefined`] in a phi. A guarded
//! definition without tied operand counts as a full definition: its value where the guard does not hold is undefined.
//!
//! Example:
//!
//! ```text
//! bb0:  %0:R = COPY 1              bb0:  %0:R = COPY 1
//!       @%p BRA bb2                      @%p BRA bb2
//!       BRA bb1                          BRA bb1
//! bb1:  %0:R = IADD3 %0, 1, RZ     bb1:  %5:R = IADD3 %0, 1, RZ
//!       BRA bb2                          BRA bb2
//! bb2:  use %0                     bb2:  %6:R = PHI %0, bb0, %5, bb1
//!                                        use %6
//! ```

mod fold;
mod place;
mod rename;
mod simplify;
mod variables;

use crate::analysis::{ControlFlow, Dominators, remove_unreachable_blocks};
use crate::function::Function;
use crate::instruction::Op;
use oriole_isa::{Opcode, Symbols};
use variables::Variables;

/// Converts a function to SSA form. Every result must be a whole value, and there must be no phis.
pub fn construct_ssa(function: &mut Function) {
    if function.is_ssa || function.layout.is_empty() {
        function.is_ssa = true;
        return;
    }
    remove_unreachable_blocks(function);
    let mut flow = ControlFlow::compute(function);
    if !flow.predecessors(function.entry()).is_empty() {
        insert_entry(function);
        flow = ControlFlow::compute(function);
    }
    let dominators = Dominators::compute(function, &flow);
    let variables = Variables::find(function, &dominators);
    let phis = place::place_phis(function, &flow, &dominators, &variables);
    rename::rename(function, &flow, &dominators, &variables.members, &phis);
    simplify::simplify_phis(function);
    fold::fold_guarded_copies(function);
    function.is_ssa = true;
}

/// Inserts a block before the entry block, to which other blocks branch: phis there need a predecessor for the start of the function.
fn insert_entry(function: &mut Function) {
    let old = function.entry();
    let new = function.new_block();
    let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[old.into()], 0);
    function.blocks[new].insts.push(branch);
    function.layout.insert(0, new);
}
