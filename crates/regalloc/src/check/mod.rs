//! Verifies that an allocated function computes the same values as the SSA function it was made from. Shares no logic with the allocator.
//!
//! The verifier is a backward data-flow analysis, as in Rideau and Leroy 2010, "Validating Register Allocation and Spilling". The fact it
//! propagates is a *demand*: at this point, a register (or spill slot) must hold a certain part of a certain SSA value.
//!
//! - An instruction that reads a register adds a demand: the register must hold the value that the original instruction reads.
//! - A move, spill load or spill store passes the demand on its destination to its source.
//! - The definition of a value satisfies the demands on the registers that it writes.
//! - On an edge, a demand for a phi becomes a demand for the phi's source. Copies and packs are treated as other names of their sources.
//!
//! Errors: an instruction writes a register on which there is a demand for another value; the walk reaches the definition of a value that
//! is still demanded in another register; one register has two different demands; `ENTRY` does not satisfy a demand at the start of the
//! function.
//!
//! Example, read from the bottom up; `%0` is spilled to slot 8:
//!
//! ```text
//! R4 = S2R SR_TID.X        defines %0 and writes R4: the demand is satisfied
//! STL [R1+8], R4           slot 8 = %0  becomes  R4 = %0
//! R4 = LDC c[0x0][0x0]     writes R4: no demand on it here
//! R6 = LDL [R1+8]          R6 = %0  becomes  slot 8 = %0
//! STS [RZ], R6             reads %0 in the original function: demand R6 = %0
//! ```
//!
//! Cost: each block is visited until the demands at its start no longer change.

mod checker;
mod demands;
mod inserted;
mod original;
mod shape;

use oriole_ir::{Block, Function, OperandKind, Pseudo, Role};
use oriole_support::IndexVec;

use self::checker::AllocationChecker;
pub use self::demands::CheckError;
use self::demands::{Demands, LocationContent, TrackedLocation, demand, error};
use crate::environment::AllocationEnvironment;
use crate::outcome::Allocation;
use crate::registers::Reg;

/// Verifies an allocation. `before` is the function in SSA form, `after` the allocated function; `env` and `allocation` are the input and
/// the output of the allocator.
pub fn check(before: &Function, after: &Function, env: &AllocationEnvironment, allocation: &Allocation) -> Result<(), CheckError> {
    let checker = AllocationChecker::new(before, after, env, allocation);
    checker.check_insts_and_register_limits()?;
    checker.solve_demands()
}

impl AllocationChecker<'_> {
    /// Computes the demands (the content that each location must have) at the start of every block by iteration to a fixed point. Checks
    /// the demands at the start of the function.
    fn solve_demands(&self) -> Result<(), CheckError> {
        let blocks = self.new.blocks.len();
        let predecessors = self.predecessors();
        let mut at_start: IndexVec<Block, Demands> = IndexVec::filled(blocks, Demands::new());
        let mut queued: IndexVec<Block, bool> = IndexVec::filled(blocks, false);
        let mut work: Vec<Block> = self.new.layout.clone();
        work.iter().for_each(|&block| queued[block] = true);
        while let Some(block) = work.pop() {
            queued[block] = false;
            let mut demands = Demands::new();
            for next in self.new.successors(block) {
                self.propagate_edge(block, next, &predecessors, &at_start[next], &mut demands)?;
            }
            self.propagate_block(block, &mut demands)?;
            if demands != at_start[block] {
                at_start[block] = demands;
                for &from in &predecessors[block] {
                    if !std::mem::replace(&mut queued[from], true) {
                        work.push(from);
                    }
                }
            }
        }
        self.check_demands_at_entry(&at_start[self.new.entry()])
    }

    /// Returns the predecessors of each block of the new function, each once.
    fn predecessors(&self) -> IndexVec<Block, Vec<Block>> {
        let mut predecessors: IndexVec<Block, Vec<Block>> = IndexVec::filled(self.new.blocks.len(), Vec::new());
        for &block in &self.new.layout {
            for next in self.new.successors(block) {
                if !predecessors[next].contains(&block) {
                    predecessors[next].push(block);
                }
            }
        }
        predecessors
    }

    /// Checks that each demand at the start of the function is for a value that the pseudo operation `ENTRY` defines in the demanded
    /// register.
    fn check_demands_at_entry(&self, demands: &Demands) -> Result<(), CheckError> {
        for (&at, &content) in demands {
            let met = match content {
                LocationContent::ValueRegister(value, register_index) => self.definitions.get(&value).is_some_and(|&(inst, number)| {
                    let result = self.old.results(inst)[number];
                    self.old.insts[inst].is(Pseudo::Entry)
                        && matches!(result.role, Role::Fixed(register)
                            if TrackedLocation::Register(self.old.values[value].file, Reg::from(register) + register_index) == at)
                }),
                _ => false,
            };
            if !met {
                return error(format!("{content:?} is wanted in {at:?} where the function starts"));
            }
        }
        Ok(())
    }

    /// Adds the demands `successor_demands`, which apply at the start of `to`, to the demands at the end of `from`. Demands for phis of
    /// `to` become demands for the sources of the phis. A demand says which content a location must have.
    fn propagate_edge(
        &self,
        from: Block,
        to: Block,
        predecessors: &IndexVec<Block, Vec<Block>>,
        successor_demands: &Demands,
        demands: &mut Demands,
    ) -> Result<(), CheckError> {
        // Phis name predecessors in the old function. If `from` is a new block on a split edge, they name its only predecessor instead.
        let mut origin = from;
        while !self.is_block_of_old_function(origin) {
            let [only] = predecessors[origin][..] else {
                return error(format!("{origin:?} is new and has no single predecessor"));
            };
            origin = only;
        }
        for (&at, &content) in successor_demands {
            let mut content = Some(content);
            if let Some(LocationContent::ValueRegister(value, register_index)) = content
                && self.blocks_of_phis.get(&value) == Some(&to)
            {
                let (phi, _) = self.definitions[&value];
                let mut pairs = self.old.sources(phi).chunks_exact(2);
                let source = pairs.find(|pair| pair[1].kind == OperandKind::Block(origin)).map(|pair| pair[0]);
                content = source.and_then(|source| self.content_of_operand(&source, register_index));
            }
            if let Some(content) = content {
                demand(demands, at, content, || format!("on the edge from {from:?} to {to:?}"))?;
            }
        }
        Ok(())
    }

    /// Propagates demands (the content that each location must have) from the end of a block to its start.
    fn propagate_block(&self, block: Block, demands: &mut Demands) -> Result<(), CheckError> {
        let insts = &self.new.blocks[block].insts;
        let empty = Vec::new();
        let old = if self.is_block_of_old_function(block) { &self.old.blocks[block].insts } else { &empty };
        // The new block has no `KEEP`, a pseudo operation that the allocator deletes. So the old block is walked in parallel to find the
        // position of each `KEEP`.
        let mut keeps = old.iter().rev().peekable();
        let mut at = insts.len();
        while at > 0 {
            at -= 1;
            let inst = insts[at];
            if self.is_old[inst] {
                while keeps.peek().is_some_and(|&&old| old != inst) {
                    keeps.next();
                }
                keeps.next();
                self.propagate_over_original(inst, demands)?;
                while let Some(&&keep) = keeps.peek().filter(|&&&old| self.old.insts[old].op.machine().is_none()) {
                    if self.old.insts[keep].is(Pseudo::Keep) {
                        self.add_keep_demands(keep, demands)?;
                    }
                    keeps.next();
                }
            } else if let Some(&(copy, register_index)) = self.guarded_moves.get(&inst) {
                self.propagate_guarded_move(inst, copy, register_index, demands)?;
            } else if let Some((first, second)) = self.as_swap(insts, at) {
                let (one, other) = (demands.remove(&first), demands.remove(&second));
                one.map(|content| demands.insert(second, content));
                other.map(|content| demands.insert(first, content));
                at -= 2;
            } else {
                self.propagate_over_inserted(inst, demands)?;
            }
        }
        Ok(())
    }
}
