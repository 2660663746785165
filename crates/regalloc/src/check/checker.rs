//! The two functions that the verifier compares, and the resolution of copies, packs and trivial phis to the values that they copy.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use super::demands::{CheckError, Demands, LocationContent, TrackedLocation, constant_content, demand};
use crate::environment::AllocationEnvironment;
use crate::outcome::Allocation;
use crate::registers::Reg;

/// The state of the verifier: the function before and after register allocation, and lookup tables for both.
pub(super) struct AllocationChecker<'a> {
    /// The function before allocation, in SSA form.
    pub(super) old: &'a Function,
    /// The function after allocation. Instructions and blocks of the old function have the same numbers in it.
    pub(super) new: &'a Function,
    /// The registers that the allocator was allowed to use.
    pub(super) env: &'a AllocationEnvironment,
    /// The instruction of the old function that defines each value, and the index of the value among its results.
    pub(super) definitions: FxHashMap<Value, (Inst, usize)>,
    /// For each value that a phi of the old function defines: the block that the phi is in.
    pub(super) blocks_of_phis: FxHashMap<Value, Block>,
    /// For each move of the new function that replaces one register of a guarded copy: the copy, and the index of that register in the
    /// result of the copy.
    pub(super) guarded_moves: FxHashMap<Inst, (Inst, u8)>,
    /// For each instruction of the new function: whether the old function has it too. The allocator inserted the others.
    pub(super) is_old: IndexVec<Inst, bool>,
    /// For each block of the old function: whether it is reachable.
    pub(super) is_reachable: IndexVec<Block, bool>,
}

impl<'a> AllocationChecker<'a> {
    /// Builds the lookup tables for the two functions.
    pub(super) fn new(
        before: &'a Function,
        after: &'a Function,
        env: &'a AllocationEnvironment,
        allocation: &Allocation,
    ) -> AllocationChecker<'a> {
        let mut checker = AllocationChecker {
            old: before,
            new: after,
            env,
            definitions: FxHashMap::default(),
            blocks_of_phis: FxHashMap::default(),
            guarded_moves: FxHashMap::default(),
            is_old: IndexVec::filled(after.insts.len(), false),
            is_reachable: IndexVec::filled(before.blocks.len(), false),
        };
        let mut stack = vec![before.entry()];
        while let Some(block) = stack.pop() {
            if !std::mem::replace(&mut checker.is_reachable[block], true) {
                stack.extend(before.successors(block));
            }
        }
        for &block in &before.layout {
            for &inst in &before.blocks[block].insts {
                checker.index_old_inst(block, inst);
            }
        }
        for (copy, moves) in &allocation.guarded_copies {
            for (number, &inst) in moves.iter().enumerate() {
                checker.guarded_moves.insert(inst, (*copy, number as u8));
            }
        }
        checker
    }

    /// Adds an instruction of the old function to the lookup tables.
    fn index_old_inst(&mut self, block: Block, inst: Inst) {
        self.is_old[inst] = true;
        for (number, result) in self.old.results(inst).iter().enumerate() {
            if let Some(value) = result.value() {
                self.definitions.insert(value, (inst, number));
                if self.old.insts[inst].is(Pseudo::Phi) {
                    self.blocks_of_phis.insert(value, block);
                }
            }
        }
    }

    /// Returns whether a block of the new function is also in the old one. The other blocks were created on split edges.
    pub(super) fn is_block_of_old_function(&self, block: Block) -> bool {
        block < self.old.blocks.next_index()
    }
    /// Returns the content of register `register_index` (counted from 0) of a value. Copies, packs, and phis with one reachable predecessor
    /// are replaced by their sources. `None` if the content is undefined.
    pub(super) fn content_of_value(&self, value: Value, register_index: u8) -> Option<LocationContent> {
        let (mut value, mut register_index) = (value, register_index);
        loop {
            let Some(&(inst, number)) = self.definitions.get(&value) else {
                return Some(LocationContent::ValueRegister(value, register_index));
            };
            let tied = self.old.sources(inst).iter().any(|source| matches!(source.role, Role::Tied(_)));
            let guarded_moves = self.old.insts[inst].guard.is_some() && tied;
            let source = match self.old.insts[inst].op {
                Op::Pseudo(Pseudo::Copy) if !guarded_moves => {
                    let count = self.old.insts[inst].result_count();
                    self.old.operands(inst)[count + number]
                }
                Op::Pseudo(Pseudo::Pack) => {
                    let mut left = register_index;
                    let mut found = None;
                    for source in self.old.sources(inst) {
                        let width = source.part().map_or(1, |part| part.count);
                        if left < width {
                            found = Some(*source);
                            break;
                        }
                        left -= width;
                    }
                    register_index = left;
                    found?
                }
                Op::Pseudo(Pseudo::Phi) => match self.source_of_trivial_phi(inst) {
                    Some(source) => source,
                    None => return Some(LocationContent::ValueRegister(value, register_index)),
                },
                _ => return Some(LocationContent::ValueRegister(value, register_index)),
            };
            match source.kind {
                OperandKind::Value(part) => {
                    value = part.value;
                    register_index += part.first;
                }
                _ => return constant_content(&source, register_index),
            }
        }
    }

    /// Returns the source of a phi whose block has one reachable predecessor, so that the phi is a copy; `None` for other phis.
    fn source_of_trivial_phi(&self, phi: Inst) -> Option<Operand> {
        let mut pairs = self
            .old
            .sources(phi)
            .chunks_exact(2)
            .filter(|pair| matches!(pair[1].kind, OperandKind::Block(from) if self.is_reachable[from]));
        let only = pairs.next()?[0];
        pairs.next().is_none().then_some(only)
    }

    /// Returns the content of register `register_index` (counted from 0) of an operand of the old function; `None` if the content is
    /// undefined.
    pub(super) fn content_of_operand(&self, operand: &Operand, register_index: u8) -> Option<LocationContent> {
        match operand.kind {
            OperandKind::Value(part) => self.content_of_value(part.value, part.first + register_index),
            _ => constant_content(operand, register_index),
        }
    }

    /// Adds demands that the registers starting at `first` hold a part of a value when `inst` executes. A demand says which content a
    /// location must have.
    pub(super) fn demand_part_in_registers(
        &self,
        part: Part,
        file: RegFile,
        first: Reg,
        demands: &mut Demands,
        inst: Inst,
    ) -> Result<(), CheckError> {
        for (register_index, register) in first.tuple(part.count).enumerate() {
            if let Some(content) = self.content_of_value(part.value, part.first + register_index as u8) {
                demand(demands, TrackedLocation::Register(file, register), content, || format!("by {inst:?}"))?;
            }
        }
        Ok(())
    }
}
