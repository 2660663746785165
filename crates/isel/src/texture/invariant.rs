//! Finds registers that have the same value in all threads of a warp whenever they are read.
//!
//! Targets that keep the handle of a texture in uniform registers can use such a register directly; any other handle needs a loop over
//! the different handles of a warp ([`super::handle`]).
//!
//! A register is invariant if it is assigned by one instruction only, which has no guard, and if this instruction computes a function of
//! numbers, of kernel parameters, of `.const` variables, of special registers that belong to the thread block, and of invariant
//! registers. The value then depends neither on the thread nor on the time at which it is computed, so divergent control flow does not
//! matter. Cost: linear in the size of the function times the length of the longest chain of such instructions in reverse order, which
//! is one for code in definition order.

use oriole_ptx::ast::{AddressBase, Body, Instruction, Module, Operand, RegisterId, VariableId};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::StateSpace;
use rustc_hash::{FxHashMap, FxHashSet};

/// The invariant registers of a function.
#[derive(Default)]
pub(crate) struct Invariants {
    registers: FxHashSet<RegisterId>,
    /// Those that are loaded from a kernel parameter: the parameter, and the offset in it in bytes.
    parameters: FxHashMap<RegisterId, (VariableId, i64)>,
}

impl Invariants {
    /// Analyses the body of a function.
    pub(crate) fn of(module: &Module, body: &Body, is_kernel: bool) -> Invariants {
        let mut definitions: FxHashMap<RegisterId, usize> = FxHashMap::default();
        for instruction in body.instructions.iter() {
            if let Some(&first) = body.operands_of(instruction).first() {
                count(body, first, &mut definitions);
            }
        }
        let mut found = Invariants::default();
        loop {
            let before = found.registers.len();
            for instruction in body.instructions.iter() {
                if let Some(&Operand::Register(register)) = body.operands_of(instruction).first()
                    && definitions.get(&register) == Some(&1)
                    && found.computes_invariant(module, body, is_kernel, instruction)
                {
                    found.registers.insert(register);
                    if let Some(place) = parameter_of(module, body, instruction) {
                        found.parameters.insert(register, place);
                    }
                }
            }
            if found.registers.len() == before {
                return found;
            }
        }
    }

    /// Returns whether an operand has the same value in all threads of a warp.
    pub(crate) fn holds(&self, module: &Module, body: &Body, operand: Operand) -> bool {
        match operand {
            Operand::Integer(_) | Operand::Constant(_) | Operand::WarpSize => true,
            Operand::Register(register) => self.registers.contains(&register),
            Operand::Variable(id) => is_static(module.variables[id].space),
            Operand::Special(special) => is_same_in_block(special.row().name),
            Operand::Address(position) | Operand::AddressOf(position) => match body.addresses[position as usize].base {
                AddressBase::Register(register) => self.registers.contains(&register),
                AddressBase::Variable(id) => is_static(module.variables[id].space),
                AddressBase::Absolute => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the kernel parameter and the offset in it from which a register is loaded, if it is loaded from one.
    pub(crate) fn parameter(&self, operand: Operand) -> Option<(VariableId, i64)> {
        if let Operand::Register(register) = operand { self.parameters.get(&register).copied() } else { None }
    }

    /// Returns whether an instruction computes its first operand from invariant operands.
    fn computes_invariant(&self, module: &Module, body: &Body, is_kernel: bool, instruction: &Instruction) -> bool {
        let form = &module.forms[instruction.form];
        let is_pure = match form.opcode {
            Opcode::Ld => !form.has(Modifier::Volatile) && (is_kernel && form.has(Modifier::Param) || form.has(Modifier::Const)),
            Opcode::Mov
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::Mad
            | Opcode::Shl
            | Opcode::Shr
            | Opcode::And
            | Opcode::Or
            | Opcode::Xor
            | Opcode::Cvt => !form.has(Modifier::Cc),
            _ => false,
        };
        is_pure
            && instruction.guard.is_none()
            && body.operands_of(instruction)[1..].iter().all(|&operand| self.holds(module, body, operand))
    }
}

/// Returns the parameter and the offset from which an instruction loads 64 bits, if it does.
fn parameter_of(module: &Module, body: &Body, instruction: &Instruction) -> Option<(VariableId, i64)> {
    let form = &module.forms[instruction.form];
    let is_wide = form.modifiers.iter().filter_map(|value| value.modifier.scalar_type()).any(|ty| ty.bits() == 64);
    let is_load = form.opcode == Opcode::Ld && form.has(Modifier::Param) && is_wide;
    let &Operand::Address(position) = body.operands_of(instruction).get(1)? else { return None };
    let address = body.addresses[position as usize];
    match address.base {
        AddressBase::Variable(id) if is_load => Some((id, address.offset)),
        _ => None,
    }
}

/// Returns whether the address of a variable in a space is the same in all threads.
fn is_static(space: StateSpace) -> bool {
    matches!(space, StateSpace::Param | StateSpace::Const | StateSpace::Global)
}

/// Returns whether a special register has one value for all threads of a block.
fn is_same_in_block(name: &str) -> bool {
    let stem = name.trim_start_matches('%').split('.').next().unwrap_or_default();
    matches!(stem, "ctaid" | "nctaid" | "ntid" | "gridid")
}

/// Counts the assignments to the registers in a first operand. Registers that are only read there count too, which does no harm.
fn count(body: &Body, operand: Operand, definitions: &mut FxHashMap<RegisterId, usize>) {
    match operand {
        Operand::Register(register) | Operand::Element(register, _) => *definitions.entry(register).or_default() += 1,
        Operand::Pair(list) | Operand::Vector(list) | Operand::Arguments(list) => {
            body.list(list).iter().for_each(|&part| count(body, part, definitions));
        }
        _ => {}
    }
}
