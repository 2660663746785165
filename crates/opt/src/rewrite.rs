//! Helpers for rewriting: editable copies of instructions, lists of new instructions to insert before an instruction, and replacement of
//! values.

use oriole_ir::{Class, Function, Inst, Location, Op, Operand, OperandKind, Part, Pseudo, Role, Value};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An editable copy of a machine instruction, not yet stored in the function.
#[derive(Clone, Debug)]
pub(crate) struct InstDraft {
    /// The machine opcode.
    pub(crate) opcode: Opcode,
    /// The modifiers after the opcode, such as `.WIDE`.
    pub(crate) modifiers: Symbols,
    /// The results, then the sources.
    pub(crate) operands: SmallVec<[Operand; 8]>,
    /// Number of operands that are results.
    pub(crate) result_count: usize,
}

impl InstDraft {
    /// Creates a draft with the modifiers and operands of `inst` and the given opcode.
    pub(crate) fn from_inst(function: &Function, inst: Inst, opcode: Opcode) -> InstDraft {
        let data = &function.insts[inst];
        let operands = function.operands(inst).iter().copied().collect();
        InstDraft { opcode, modifiers: data.modifiers.clone(), operands, result_count: data.result_count() }
    }

    /// Overwrites `inst` with the draft; the guard and the source location stay.
    pub(crate) fn overwrite_inst(self, function: &mut Function, inst: Inst) {
        function.insts[inst].op = Op::Machine(self.opcode);
        function.insts[inst].modifiers = self.modifiers;
        function.set_operands(inst, &self.operands, self.result_count);
    }

    /// Returns the operand numbers of the plain sources, that is, all sources except parts of addresses and tied operands. Their order is
    /// that of the sources in the machine encoding.
    pub(crate) fn plain_source_positions(&self) -> SmallVec<[usize; 6]> {
        (self.result_count..self.operands.len()).filter(|&at| self.operands[at].role == Role::Plain).collect()
    }

    /// Returns whether the draft has a modifier.
    pub(crate) fn has(&self, modifier: Symbol) -> bool {
        self.modifiers.contains(&modifier)
    }
}

/// A list of new instructions that are to be inserted before an instruction. All get the source location of that instruction.
pub(crate) struct InstPrelude {
    /// Source location of the new instructions.
    location: Location,
    /// The new instructions, in the order of execution.
    pub(crate) insts: SmallVec<[Inst; 4]>,
}

impl InstPrelude {
    /// Returns an empty list of instructions to insert before `inst`.
    pub(crate) fn before(function: &Function, inst: Inst) -> InstPrelude {
        InstPrelude { location: function.insts[inst].location, insts: SmallVec::new() }
    }

    /// Appends an instruction to the list; `result_count` is the number of operands that are results.
    pub(crate) fn push(&mut self, function: &mut Function, op: Op, modifiers: &[Symbol], operands: &[Operand], result_count: usize) {
        let inst = function.new_inst(op, modifiers.iter().copied().collect(), None, operands, result_count);
        function.insts[inst].location = self.location;
        self.insts.push(inst);
    }

    /// Appends an instruction whose only result is a new value; returns that value as an operand.
    pub(crate) fn emit_definition(
        &mut self,
        function: &mut Function,
        class: Class,
        opcode: Opcode,
        modifiers: &[Symbol],
        sources: &[Operand],
    ) -> Operand {
        let value = function.new_value(class);
        let result = Operand::from(function.whole(value));
        let operands: SmallVec<[Operand; 8]> = std::iter::once(result).chain(sources.iter().copied()).collect();
        self.push(function, Op::Machine(opcode), modifiers, &operands, 1);
        result
    }

    /// Appends a `PACK` of 32-bit operands into one new value, and returns that value. A single operand is returned as it is.
    pub(crate) fn pack(&mut self, function: &mut Function, file: RegFile, parts: &[Operand]) -> Operand {
        if let [single] = parts {
            return *single;
        }
        let value = function.new_value(Class::new(file, parts.len() as u8));
        let result = Operand::from(function.whole(value));
        let operands: SmallVec<[Operand; 8]> = std::iter::once(result).chain(parts.iter().copied()).collect();
        self.push(function, Op::Pseudo(Pseudo::Pack), &[], &operands, 1);
        result
    }
}

/// Returns the register file of an operand, or `None` if the operand is not a register.
pub(crate) fn register_file_of(function: &Function, operand: &Operand) -> Option<RegFile> {
    match operand.kind {
        OperandKind::Value(part) => Some(function.values[part.value].file),
        OperandKind::Register { file, .. } | OperandKind::Zero(file) => Some(file),
        _ => None,
    }
}

/// Returns the register with index `number` (from 0) in `part`, as a part of one register.
pub(crate) fn single_register(part: Part, number: u8) -> Part {
    Part { value: part.value, first: part.first + number, count: 1 }
}

/// Replaces some values in the sources of all instructions of a function, but not in guards. `replacements` maps each value to the operand
/// that replaces it.
pub(crate) fn replace_uses(function: &mut Function, replacements: &FxHashMap<Value, Operand>) {
    if replacements.is_empty() {
        return;
    }
    for block in function.layout.clone() {
        for at in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            for operand in function.sources_mut(inst) {
                if let Some(new) = operand.value().and_then(|value| replacements.get(&value)) {
                    let signs = new.signs;
                    operand.kind = new.kind;
                    operand.signs = if signs.is_empty() { operand.signs } else { operand.signs.toggled(signs) };
                }
            }
        }
    }
}
