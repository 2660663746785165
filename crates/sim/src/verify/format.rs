//! Format: every word decodes and re-encodes to the same bits, with no unknown bits set.
//!
//! Proved for each word of the section:
//!
//! - the instruction table knows the word (`unknown-word`), each of its fields has a defined value (`no-such-value`), no undefined bit is
//!   set (`stray-bits`), and encoding the decoded instruction gives the same word (`not-encodable`);
//! - no two sources have signs of which the hardware accepts only one (`two-signs`);
//! - reuse flags are set only for operands that are general registers (`reuse-of-nothing`);
//! - multi-register operands start at a multiple of their size (`unaligned`);
//! - direct branches lead to instructions of the section (`branch-outside`, `branch-unaligned`), unless a relocation patches the target;
//! - the section is a whole number of 8-instruction lines (`odd-bytes`, `odd-length`), and control never continues past its last
//!   instruction that is not padding (`no-end`).

use oriole_isa::{Control, Instruction, Opcode, OperandValue, Pipe, RegFile, Symbol, accesses, encode, has_conflicting_signs};

use super::section::INSTRUCTION_BYTES;
use super::{FindingSink, Section};

/// Size of an instruction-cache line; code sections are padded to whole lines.
const LINE_BYTES: usize = 128;
/// Undefined bits that ptxas sets arbitrarily, by mnemonic.
const UNSTEADY: [(&str, u128); 6] =
    [("ATOMS", 0xff << 64), ("HGMMA", 0x3 << 84), ("IGMMA", 0x3 << 84), ("QGMMA", 0x3 << 84), ("SUST", 0x4 << 72), ("UI2F", 0x8 << 72)];
/// Maximum alignment in registers: larger tuples need no higher alignment.
const WIDEST_ALIGNMENT: u16 = 4;

/// Checks the encoding of each instruction, and the shape of the section.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    sink.count(section.words.len());
    if section.odd_bytes != 0 {
        sink.hazard("odd-bytes", None, format!("ends with {} bytes that are no whole instruction", section.odd_bytes));
    }
    if !(section.words.len() * INSTRUCTION_BYTES).is_multiple_of(LINE_BYTES) {
        sink.hazard("odd-length", None, format!("has {} instructions; sections are filled up to a multiple of 8", section.words.len()));
    }
    end(section, sink);
    for (number, instruction) in section.decoded.iter().enumerate() {
        match instruction {
            None => sink.hazard("unknown-word", number, "is no instruction that the tables know"),
            Some(instruction) => {
                fields(section, number, instruction, sink);
                reuse(number, instruction, sink);
                alignment(number, instruction, sink);
                branch(section, number, instruction, sink);
            }
        }
    }
}

/// Checks that the last instruction before the padding is an unconditional branch, exit or return.
fn end(section: &Section<'_>, sink: &mut FindingSink) {
    let last = section.instructions().filter(|(_, instruction)| instruction.opcode != Opcode::NOP).last();
    let leaves = |instruction: &Instruction| {
        let is_jump = matches!(instruction.opcode, Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::EXIT | Opcode::RET);
        let is_condition =
            |value: &OperandValue| matches!(value, OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, Some(_)));
        is_jump && instruction.guard.is_always() && !instruction.operands.iter().any(|operand| operand.not || is_condition(&operand.value))
    };
    match last {
        Some((number, instruction)) if !leaves(instruction) => {
            sink.hazard("no-end", number, "is the last instruction of the section, but goes on to the next");
        }
        None if !section.words.is_empty() => sink.hazard("no-end", None, "has no instruction that ends it"),
        _ => {}
    }
}

/// Checks field values, undefined bits, and that re-encoding gives the same word.
fn fields(section: &Section<'_>, number: usize, instruction: &Instruction, sink: &mut FindingSink) {
    let is_unspelled = |symbol: &Symbol| symbol.spelling().is_empty();
    let names =
        instruction.operands.iter().filter_map(|operand| if let OperandValue::Name(name) = &operand.value { Some(name) } else { None });
    let suffixes = instruction.operands.iter().flat_map(|operand| &operand.suffixes);
    let mnemonic = instruction.opcode.mnemonic();
    let steady = UNSTEADY.iter().filter(|(name, _)| *name == mnemonic).fold(!0, |steady, (_, bits)| steady & !bits);
    // The name of the matrix-product group (`gsb0`) is empty when the instruction belongs to no group.
    let has_unnamed = instruction.opcode.mnemonic().ends_with("GMMA");
    if instruction.modifiers.iter().chain(names.filter(|_| !has_unnamed)).chain(suffixes).any(is_unspelled) {
        sink.hazard("no-such-value", number, "has a field with a value that does not exist");
    }
    if instruction.residue & steady & !Control::MASK != 0 {
        sink.hazard("stray-bits", number, format!("has bits set that mean nothing ({:#x})", instruction.residue & steady));
    }
    if has_conflicting_signs(instruction) {
        sink.hazard("two-signs", number, "has signs on both of its first two sources, which is an illegal instruction");
    }
    if encode(instruction, section.target) != Ok(section.words[number]) {
        sink.hazard("not-encodable", number, "is not what encoding it gives");
    }
}

/// The reuse flag of the metadata register of a sparse matrix product.
const METADATA_REUSE: u8 = 1 << 3;

/// Checks that reuse flags are set only for general registers.
fn reuse(number: usize, instruction: &Instruction, sink: &mut FindingSink) {
    let of_nothing = |value: &OperandValue| {
        !matches!(value, OperandValue::Register(RegFile::General, Some(_)) | OperandValue::RegisterAndNumber(RegFile::General, Some(_), _))
    };
    // ptxas leaves flags in the words of texture instructions and of DEPBAR, which reads no register.
    let may_have_stray_flags = instruction.opcode.properties().pipe == Pipe::Tex || instruction.opcode == Opcode::DEPBAR;
    // Where two sparse products in a row read the same metadata register, ptxas sets the fourth reuse flag, which nvdisasm does not print.
    let is_sparse = instruction.modifiers.iter().any(|modifier| modifier.spelling() == ".SP");
    let metadata_reuse = if is_sparse { METADATA_REUSE } else { 0 };
    if (instruction.control.reuse & !metadata_reuse != 0 && !may_have_stray_flags)
        || instruction.operands.iter().any(|operand| operand.reuse && of_nothing(&operand.value))
    {
        sink.hazard("reuse-of-nothing", number, "has a reuse flag where there is no register");
    }
}

/// Checks the alignment of multi-register operands.
fn alignment(number: usize, instruction: &Instruction, sink: &mut FindingSink) {
    for access in accesses(instruction) {
        let alignment = access.count.next_power_of_two().min(WIDEST_ALIGNMENT);
        if matches!(access.file, RegFile::General | RegFile::Uniform) && !access.first.is_multiple_of(alignment) {
            let (file, first, count) = (access.file.prefix(), access.first, access.count);
            sink.hazard("unaligned", number, format!("{file}{first} is the first of {count}, which start at a multiple of {alignment}"));
        }
    }
}

/// Checks that a direct branch leads to an instruction of the section.
fn branch(section: &Section<'_>, number: usize, instruction: &Instruction, sink: &mut FindingSink) {
    if section.is_patched(number) {
        return;
    }
    for operand in &instruction.operands {
        let OperandValue::Relative(distance) = operand.value else { continue };
        let to = ((number + 1) * INSTRUCTION_BYTES) as i64 + distance;
        if distance % INSTRUCTION_BYTES as i64 != 0 {
            sink.hazard("branch-unaligned", number, format!("leads to {to:#x}, which is inside an instruction"));
        } else if usize::try_from(to).map_or(true, |to| to >= section.words.len() * INSTRUCTION_BYTES) {
            sink.hazard("branch-outside", number, format!("leads to {to:#x}, which is not in the section"));
        }
    }
}
