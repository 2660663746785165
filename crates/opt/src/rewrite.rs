//! Rewriting blocks: new instructions in front of others.

use oriole_ir::{Class, Function, Inst, Location, Op, Operand, OperandKind, Part, Pseudo, Role};
use oriole_isa::{File, Opcode, Symbol, Symbols};
use smallvec::SmallVec;

/// An instruction while it is being changed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) opcode: Opcode,
    pub(crate) modifiers: Symbols,
    pub(crate) operands: SmallVec<[Operand; 8]>,
    pub(crate) result_count: usize,
}

impl Draft {
    /// A copy of a machine instruction.
    pub(crate) fn of(function: &Function, inst: Inst, opcode: Opcode) -> Draft {
        let data = &function.insts[inst];
        let operands = function.operands(inst).iter().copied().collect();
        Draft { opcode, modifiers: data.modifiers.clone(), operands, result_count: data.result_count() }
    }

    /// Makes an instruction what the draft says.
    pub(crate) fn store(self, function: &mut Function, inst: Inst) {
        function.insts[inst].op = Op::Machine(self.opcode);
        function.insts[inst].modifiers = self.modifiers;
        function.set_operands(inst, &self.operands, self.result_count);
    }

    /// Positions of plain sources, as the machine counts them.
    pub(crate) fn plain_sources(&self) -> SmallVec<[usize; 6]> {
        (self.result_count..self.operands.len()).filter(|&at| self.operands[at].role == Role::Plain).collect()
    }

    pub(crate) fn has(&self, modifier: Symbol) -> bool {
        self.modifiers.contains(&modifier)
    }
}

/// New instructions that will stand in front of one.
pub(crate) struct Prelude {
    location: Location,
    pub(crate) insts: SmallVec<[Inst; 4]>,
}

impl Prelude {
    pub(crate) fn before(function: &Function, inst: Inst) -> Prelude {
        Prelude { location: function.insts[inst].location, insts: SmallVec::new() }
    }

    /// Appends an instruction.
    pub(crate) fn push(&mut self, function: &mut Function, op: Op, modifiers: &[Symbol], operands: &[Operand], result_count: usize) {
        let inst = function.new_inst(op, modifiers.iter().copied().collect(), None, operands, result_count);
        function.insts[inst].location = self.location;
        self.insts.push(inst);
    }

    /// Appends an instruction whose only result is a new value.
    pub(crate) fn define(
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

    /// One value from parts; a single part stays as it is.
    pub(crate) fn pack(&mut self, function: &mut Function, file: File, parts: &[Operand]) -> Operand {
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

/// The register file of an operand that is a register.
pub(crate) fn file_of(function: &Function, operand: &Operand) -> Option<File> {
    match operand.kind {
        OperandKind::Value(part) => Some(function.values[part.value].file),
        OperandKind::Register { file, .. } | OperandKind::Zero(file) => Some(file),
        _ => None,
    }
}

/// One register of a part.
pub(crate) fn piece(part: Part, number: u8) -> Part {
    Part { value: part.value, first: part.first + number, count: 1 }
}
