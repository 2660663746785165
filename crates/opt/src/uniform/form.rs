//! The uniform forms of instructions: the same operation in the uniform datapath.

use oriole_ir::{Class, Function, Inst, Operand, OperandKind, Role, Value};
use oriole_isa::{Opcode, RegFile, Symbol};

use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;

/// Register number that is used for all uniform registers while the encodability of a uniform form is tested.
pub(super) const EXAMPLE_REGISTER: u16 = 4;

/// Returns whether an instruction is an unguarded `R2UR`, a copy to a uniform register.
pub(super) fn is_copy_to_uniform(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::R2UR) && data.guard.is_none() && data.modifiers.is_empty() && function.operands(inst).len() == 2
}

/// Returns an instruction with its uniform opcode but with unchanged operands; `None` if it has no uniform form. Comparisons count only if
/// `compares` is true.
pub(super) fn uniform_form(function: &Function, inst: Inst, compares: bool) -> Option<InstDraft> {
    let data = &function.insts[inst];
    let opcode = data.op.machine().filter(|_| data.guard.is_none())?;
    let is_word = |operand: &Operand| operand.part().is_none_or(|part| part.count == 1);
    let is_plain = |operand: &Operand| operand.role == Role::Plain && is_word(operand);
    if !function.operands(inst).iter().all(is_plain) {
        return None;
    }
    let result = function.results(inst).first()?.value()?;
    if function.values[result] != if opcode == Opcode::ISETP { Class::P } else { Class::R } {
        return None;
    }
    let mut draft = InstDraft::from_inst(function, inst, opcode);
    draft.opcode = match opcode {
        Opcode::MOV if data.modifiers.is_empty() => Opcode::UMOV,
        Opcode::LOP3 if draft.result_count == 1 => Opcode::ULOP3,
        Opcode::IADD3 => Opcode::UIADD3,
        Opcode::SHF => Opcode::USHF,
        Opcode::SGXT => Opcode::USGXT,
        Opcode::LEA => Opcode::ULEA,
        Opcode::IMAD if data.modifiers.is_empty() || data.modifiers.as_slice() == [Symbol::U32] => Opcode::UIMAD,
        Opcode::SEL => Opcode::USEL,
        Opcode::ISETP if compares => Opcode::UISETP,
        _ => return None,
    };
    if opcode == Opcode::SEL {
        // `USEL` takes zero from a register only.
        for source in draft.operands.iter_mut().filter(|operand| operand.integer() == Some(0)) {
            source.kind = OperandKind::Zero(RegFile::General);
        }
    }
    Some(draft)
}

/// Returns whether the target can encode a draft with all its registers in uniform register files.
pub(super) fn is_uniform_form_encodable(
    function: &Function,
    inst: Inst,
    mut draft: InstDraft,
    encodability: &mut EncodabilityCache,
) -> bool {
    for operand in &mut draft.operands {
        let file = match operand.kind {
            OperandKind::Value(part) => uniform_register_file(function.values[part.value].file),
            OperandKind::Zero(file) => {
                operand.kind = OperandKind::Zero(uniform_register_file(file));
                continue;
            }
            OperandKind::Integer(_) => continue,
            _ => return false,
        };
        operand.kind = OperandKind::Register { file, first: EXAMPLE_REGISTER, count: 1 };
    }
    encodability.is_encodable(function, inst, &draft)
}

/// Moves the registers of an address to its uniform part: `[R1+URZ+8]` becomes `[RZ+UR1+8]`. `is_uniform` says which values are in uniform
/// registers. Returns whether the draft was changed.
pub(super) fn make_addresses_uniform(draft: &mut InstDraft, is_uniform: impl Fn(Value) -> bool) -> bool {
    let mut is_changed = false;
    for at in 1..draft.operands.len() {
        let [base, uniform] = [draft.operands[at - 1], draft.operands[at]];
        let is_address = matches!(base.role, Role::Bracket(_)) && base.role == uniform.role && base.signs.is_empty();
        let has_suffix = base.suffixes().next().is_some() || uniform.suffixes().next().is_some();
        let is_free = uniform.kind == OperandKind::Zero(RegFile::Uniform) && !has_suffix;
        if is_address && is_free && base.value().is_some_and(&is_uniform) {
            draft.operands[at - 1].kind = OperandKind::Zero(RegFile::General);
            draft.operands[at].kind = base.kind;
            is_changed = true;
        }
    }
    is_changed
}

/// Returns the uniform register file that corresponds to a register file.
pub(super) fn uniform_register_file(file: RegFile) -> RegFile {
    match file {
        RegFile::General => RegFile::Uniform,
        RegFile::Predicate => RegFile::UniformPredicate,
        other => other,
    }
}
