//! Helper functions on operands that several steps of the allocator use.

use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Part, RegFile, Role};

use crate::registers::Reg;

/// Returns an operand that names `count` consecutive physical registers starting at `first`.
pub(crate) fn register(file: RegFile, first: Reg, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file, first: first.number(), count })
}

/// Returns the register file of an operand; `None` for constants and other operands that are not registers.
pub(crate) fn register_file_of(function: &Function, operand: &Operand) -> Option<RegFile> {
    match operand.kind {
        OperandKind::Value(part) => Some(function.values[part.value].file),
        OperandKind::Register { file, .. } | OperandKind::Zero(file) => Some(file),
        _ => None,
    }
}

/// Returns the value, or part of a value, that an operand names; `None` if it belongs to a register file other than `file`, or if the
/// operand is not a value.
pub(crate) fn part_in_file(function: &Function, operand: &Operand, file: RegFile) -> Option<Part> {
    operand.part().filter(|part| function.values[part.value].file == file)
}

/// Returns the register file of an operand that is a constant but must be in a fixed register, so that the constant has to be copied there;
/// `None` for other operands.
pub(crate) fn file_of_fixed_constant(operand: &Operand) -> Option<RegFile> {
    match (operand.role, operand.kind) {
        (Role::Fixed(_), OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Reference(_)) => Some(RegFile::General),
        (Role::Fixed(_), OperandKind::Zero(file)) => Some(file),
        _ => None,
    }
}

/// Returns the width of an operand in registers, for instance as a source of a pack. A constant fills 1 register.
pub(crate) fn operand_width(operand: &Operand) -> u8 {
    match operand.kind {
        OperandKind::Value(part) => part.count,
        OperandKind::Register { count, .. } => count,
        _ => 1,
    }
}

/// Returns register `number` of an operand (counted from 0) as an operand of one register. An integer is 64 bits wide: register 0 has the
/// low half, register 1 the high half, further registers are zero. For an operand in a constant bank, the result is the 4-byte word
/// `number` words after it.
pub(crate) fn single_register_of_operand(operand: &Operand, number: u8) -> Operand {
    let kind = match operand.kind {
        OperandKind::Value(part) => OperandKind::Value(Part { value: part.value, first: part.first + number, count: 1 }),
        OperandKind::Register { file, first, .. } => OperandKind::Register { file, first: first + u16::from(number), count: 1 },
        OperandKind::Integer(bits) if number == 0 && i32::try_from(bits).is_err() => OperandKind::Integer(bits & 0xffff_ffff),
        OperandKind::Integer(bits) if number > 0 => OperandKind::Integer(if number == 1 { bits >> 32 & 0xffff_ffff } else { 0 }),
        OperandKind::Constant { bank, offset } => OperandKind::Constant { bank, offset: offset + 4 * u32::from(number) },
        other => other,
    };
    Operand { kind, role: Role::Plain, ..*operand }
}

/// Returns whether an operand is the constant zero.
pub(crate) fn is_zero(operand: &Operand) -> bool {
    operand.integer() == Some(0) || matches!(operand.kind, OperandKind::Zero(_))
}

/// Returns the source of a phi for the predecessor `from`; an undefined operand if the phi has none.
pub(crate) fn phi_source(function: &Function, phi: Inst, from: Block) -> Operand {
    let mut pairs = function.sources(phi).chunks_exact(2);
    let pair = pairs.find(|pair| pair[1].kind == OperandKind::Block(from));
    pair.map_or(Operand::new(OperandKind::Undefined), |pair| pair[0])
}
