//! Atomic operations whose operands can be combined across the threads of a warp.

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, Role};
use oriole_isa::{Opcode, RegFile, Symbol};

/// The operation that an atomic instruction performs on memory. Only operations whose operands can be combined across threads have a
/// variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AtomicUpdateKind {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
}

/// An atomic integer operation whose operands can be combined across the threads of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct CombinableAtomic {
    /// The operation that computes the new value in memory from the old value and the operand.
    pub(super) kind: AtomicUpdateKind,
    /// Whether a minimum or maximum compares signed numbers.
    pub(super) is_signed: bool,
    /// The result that receives the old value of the memory; `None` if there is none, or if it is known that no instruction reads it.
    pub(super) old_value: Option<Part>,
    /// The operand that is combined with the value in memory.
    pub(super) value: Operand,
    /// Position of `value` in the operand list.
    pub(super) value_position: usize,
    /// Whether the operation has 64 bits instead of 32.
    pub(super) is_wide: bool,
}

impl CombinableAtomic {
    /// Returns a description of an atomic operation whose operands can be combined across threads; `None` for other instructions.
    pub(super) fn match_inst(function: &Function, inst: Inst) -> Option<CombinableAtomic> {
        let data = &function.insts[inst];
        let opcode = data.op.machine()?;
        if !matches!(opcode, Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG) {
            return None;
        }
        let (mut kind, mut is_signed, mut is_wide) = (None, false, false);
        for &modifier in &data.modifiers {
            match modifier {
                Symbol::ADD => kind = Some(AtomicUpdateKind::Add),
                Symbol::AND => kind = Some(AtomicUpdateKind::And),
                Symbol::OR => kind = Some(AtomicUpdateKind::Or),
                Symbol::XOR => kind = Some(AtomicUpdateKind::Xor),
                Symbol::MIN => kind = Some(AtomicUpdateKind::Min),
                Symbol::MAX => kind = Some(AtomicUpdateKind::Max),
                Symbol::S32 => is_signed = true,
                Symbol::_64 => is_wide = true,
                Symbol::E | Symbol::STRONG | Symbol::SM | Symbol::GPU | Symbol::SYS | Symbol::CTA => {}
                _ => return None,
            }
        }
        let mut old = None;
        for result in function.results(inst) {
            match result.kind {
                OperandKind::Zero(_) => {}
                OperandKind::Value(part) if function.values[part.value].file == RegFile::General => old = Some(part),
                _ => return None,
            }
        }
        // The value operand is the first register after the address; a descriptor may follow.
        let is_operand = |operand: &Operand| operand.role == Role::Plain && !matches!(operand.kind, OperandKind::Address(_));
        let value_at = data.result_count() + function.sources(inst).iter().position(is_operand)?;
        let value = function.operands(inst)[value_at];
        let is_plain = value.signs.is_empty() && value.suffixes().next().is_none();
        let is_general =
            value.part().is_some_and(|part| function.values[part.value].file == RegFile::General && part.count == 1 + u8::from(is_wide));
        Some(CombinableAtomic { kind: kind?, is_signed, old_value: old, value, value_position: value_at, is_wide })
            .filter(|_| is_plain && is_general)
    }

    /// Returns the identity element of the operation: the operand that does not change the value in memory.
    pub(super) fn identity_element(&self) -> i64 {
        match (self.kind, self.is_signed) {
            (AtomicUpdateKind::Add | AtomicUpdateKind::Or | AtomicUpdateKind::Xor, _) | (AtomicUpdateKind::Max, false) => 0,
            (AtomicUpdateKind::And, _) | (AtomicUpdateKind::Min, false) => i64::from(u32::MAX),
            (AtomicUpdateKind::Max, true) => i64::from(i32::MIN as u32),
            (AtomicUpdateKind::Min, true) => i64::from(i32::MAX),
        }
    }
}
