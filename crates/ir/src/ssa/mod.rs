//! SSA construction: variables become values with one definition each.
//!
//! Selection assigns PTX registers wherever PTX does, mostly with `COPY var, x`; under a guard the copy carries the variable's old
//! value as a tied operand. [`construct_ssa`] brings such a function into SSA form:
//!
//! 1. blocks that nothing reaches are removed, and an entry that is branched to gets a block in front of it;
//! 2. *variables* are told from *values* ([`variables`]): a variable has several definitions, or one that some path to a use avoids;
//! 3. phis are placed on the iterated dominance frontier of each variable's definitions, where the variable is live ([`place`]);
//! 4. a walk over the dominator tree renames variables and forwards copies ([`rename`]): after an unguarded `COPY var, %7[1]` the
//!    variable *is* `%7[1]`, and reading a part of it reads that part;
//! 5. phis that choose between equals and phis that nobody needs go away ([`simplify`]);
//! 6. guarded copies of a result computed just before under the same guard are folded into that instruction ([`fold`]).
//!
//! A variable that is read before any assignment reads as the zero register, or as [`crate::OperandKind::Undefined`] in a phi.
//! A guarded definition without tied operand is a full definition: nobody asks for what it has where the guard does not hold.

mod fold;
mod place;
mod rename;
mod simplify;
mod variables;

use crate::analysis::{ControlFlow, Dominators, remove_unreachable_blocks};
use crate::function::Function;
use crate::instruction::Op;
use crate::operand::{Class, Part};
use oriole_isa::{Opcode, Symbols};
use variables::Variables;

/// Brings a function into SSA form. Every result must be a whole value, and there must be no phis.
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

/// A block in front of the entry, which others branch to: phis there need a predecessor for the start of the function.
fn insert_entry(function: &mut Function) {
    let old = function.entry();
    let new = function.new_block();
    let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[old.into()], 0);
    function.blocks[new].insts.push(branch);
    function.layout.insert(0, new);
}

/// Whether registers of a value can stand for a whole value of a class: same file, as many, aligned as it must be.
fn can_stand_for(function: &Function, part: Part, class: Class) -> bool {
    let base = function.values[part.value];
    let is_aligned = base.align.is_multiple_of(class.align) && part.first.is_multiple_of(class.align);
    base.file == class.file && part.count == class.width && is_aligned
}
