//! The checks that need no data-flow analysis: the instructions of each block, their operands, and the register limits.

use oriole_ir::analysis::{ControlFlow, RegisterCounts, requested_registers};
use oriole_ir::{Inst, OperandKind, RegFile};

use super::checker::AllocationChecker;
use super::demands::{CheckError, error};
use crate::environment::nameable_registers;
use crate::registers::Reg;

impl AllocationChecker<'_> {
    /// Checks that each block has the same machine instructions in the same order as before allocation, that no operand is an SSA value,
    /// and that no register is above the limit.
    pub(super) fn check_insts_and_register_limits(&self) -> Result<(), CheckError> {
        let counts = self.env.initial_registers.map(|initial| {
            let flow = ControlFlow::compute(self.new);
            RegisterCounts::compute(self.new, &flow, initial)
        });
        for &block in &self.new.layout {
            let is_original = self.is_block_of_old_function(block);
            let insts = &self.new.blocks[block].insts;
            if is_original {
                let kept = insts.iter().filter(|inst| self.is_old[**inst]);
                let mut expected: Vec<Inst> =
                    self.old.blocks[block].insts.iter().copied().filter(|&inst| self.old.insts[inst].op.machine().is_some()).collect();
                let kept: Vec<Inst> = kept.copied().collect();
                // The allocator may delete a guarded branch that has the same target as the branch after it.
                if kept.len() + 1 == expected.len() && expected.len() >= 2 {
                    let at = expected.len() - 2;
                    let targets: Vec<_> = self.old.successors(block).to_vec();
                    if targets.len() == 2 && targets[0] == targets[1] {
                        expected.remove(at);
                    }
                }
                if kept != expected {
                    return error(format!("{block:?}: instructions are missing or in another order"));
                }
            }
            // Where the function changes the number of registers, the limit is that of the place, not that of the whole block: moves before
            // the change read registers that are given up by it.
            let mut count = counts.as_ref().map(|counts| counts.at_start(block));
            for &inst in insts {
                self.check_operands(inst, count)?;
                let requested = requested_registers(self.new, inst);
                count = count.map(|count| requested.map_or(count, |requested| requested.min(count)));
            }
        }
        Ok(())
    }

    /// Checks that an instruction is a machine instruction, that its registers are within the limits, and that it does not write the stack
    /// pointer. `count` is the number of general registers that a thread has at the instruction, if the function changes it.
    fn check_operands(&self, inst: Inst, count: Option<u32>) -> Result<(), CheckError> {
        let data = &self.new.insts[inst];
        if data.op.machine().is_none() {
            return error(format!("{inst:?} is still {}", data.op.mnemonic()));
        }
        let guard = data.guard.map(|guard| guard.kind);
        let limit = |file| match count {
            Some(count) if file == RegFile::General => nameable_registers(count).min(self.env.limit(file)),
            _ => self.env.limit(file),
        };
        for kind in self.new.operands(inst).iter().map(|operand| operand.kind).chain(guard) {
            match kind {
                OperandKind::Value(part) => return error(format!("{inst:?} still has {:?}", part.value)),
                OperandKind::Register { file, first, count } if u32::from(first) + u32::from(count) > limit(file) => {
                    return error(format!("{inst:?} uses {}{first}+{count}, above the limit", file.prefix()));
                }
                _ => {}
            }
        }
        for operand in self.new.results(inst) {
            if matches!(operand.kind, OperandKind::Register { file: RegFile::General, first, count }
                if Reg::new(first).tuple(count).any(|register| register == self.env.stack_pointer))
            {
                return error(format!("{inst:?} writes the stack pointer"));
            }
        }
        Ok(())
    }
}
