//! Format: every word is one that the tables can read and write again, with nothing in bits without meaning.
//!
//! Proved for each word of the section:
//!
//! - the instruction table knows it (`unknown-word`), each of its fields holds a value that exists (`no-such-value`), its bits without
//!   meaning are as they are in all code (`stray-bits`), and encoding what was decoded gives the same word (`not-encodable`);
//! - flags of the reuse cache stand at operands that are general registers (`reuse-of-nothing`);
//! - registers of several words start at a multiple of their size (`unaligned`);
//! - branches lead to instructions of the section (`branch-outside`, `branch-unaligned`), unless a relocation decides that;
//! - the section is whole lines of eight instructions (`odd-bytes`, `odd-length`), and its last instruction that is not padding never
//!   goes on to the next (`no-end`).

use oriole_isa::{Control, File, Instruction, Opcode, Pipe, Symbol, Value, accesses, encode};

use super::section::INSTRUCTION_BYTES;
use super::{Ledger, Section};

/// Code sections are whole lines of the instruction cache.
const LINE_BYTES: usize = 128;
/// Bits without meaning that ptxas leaves as they happen to be, by instruction.
const UNSTEADY: [(&str, u128); 6] =
    [("ATOMS", 0xff << 64), ("HGMMA", 0x3 << 84), ("IGMMA", 0x3 << 84), ("QGMMA", 0x3 << 84), ("SUST", 0x4 << 72), ("UI2F", 0x8 << 72)];
/// Tuples of more registers than this need no higher alignment.
const WIDEST_ALIGNMENT: u16 = 4;

pub(super) fn verify(section: &Section<'_>, ledger: &mut Ledger) {
    ledger.count(section.words.len());
    if section.odd_bytes != 0 {
        ledger.wrong("odd-bytes", None, format!("ends with {} bytes that are no whole instruction", section.odd_bytes));
    }
    if !(section.words.len() * INSTRUCTION_BYTES).is_multiple_of(LINE_BYTES) {
        ledger.wrong("odd-length", None, format!("has {} instructions; sections are filled up to a multiple of 8", section.words.len()));
    }
    end(section, ledger);
    for (number, instruction) in section.decoded.iter().enumerate() {
        match instruction {
            None => ledger.wrong("unknown-word", number, "is no instruction that the tables know"),
            Some(instruction) => {
                fields(section, number, instruction, ledger);
                reuse(number, instruction, ledger);
                alignment(number, instruction, ledger);
                branch(section, number, instruction, ledger);
            }
        }
    }
}

/// The last instruction before the padding leaves for good.
fn end(section: &Section<'_>, ledger: &mut Ledger) {
    let last = section.instructions().filter(|(_, instruction)| instruction.opcode != Opcode::NOP).last();
    let leaves = |instruction: &Instruction| {
        let is_jump = matches!(instruction.opcode, Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::EXIT | Opcode::RET);
        let is_condition = |value: &Value| matches!(value, Value::Register(File::Predicate | File::UniformPredicate, Some(_)));
        is_jump && instruction.guard.is_always() && !instruction.operands.iter().any(|operand| operand.not || is_condition(&operand.value))
    };
    match last {
        Some((number, instruction)) if !leaves(instruction) => {
            ledger.wrong("no-end", number, "is the last instruction of the section, but goes on to the next");
        }
        None if !section.words.is_empty() => ledger.wrong("no-end", None, "has no instruction that ends it"),
        _ => {}
    }
}

fn fields(section: &Section<'_>, number: usize, instruction: &Instruction, ledger: &mut Ledger) {
    let is_unspelled = |symbol: &Symbol| symbol.spelling().is_empty();
    let names = instruction.operands.iter().filter_map(|operand| if let Value::Name(name) = &operand.value { Some(name) } else { None });
    let suffixes = instruction.operands.iter().flat_map(|operand| &operand.suffixes);
    let mnemonic = instruction.opcode.mnemonic();
    let steady = UNSTEADY.iter().filter(|(name, _)| *name == mnemonic).fold(!0, |steady, (_, bits)| steady & !bits);
    // The name of the group of matrix products is left out where there is none.
    let has_unnamed = instruction.opcode.mnemonic().ends_with("GMMA");
    if instruction.modifiers.iter().chain(names.filter(|_| !has_unnamed)).chain(suffixes).any(is_unspelled) {
        ledger.wrong("no-such-value", number, "has a field with a value that does not exist");
    }
    if instruction.residue & steady & !Control::MASK != 0 {
        ledger.wrong("stray-bits", number, format!("has bits set that mean nothing ({:#x})", instruction.residue & steady));
    }
    if encode(instruction, section.target) != Ok(section.words[number]) {
        ledger.wrong("not-encodable", number, "is not what encoding it gives");
    }
}

fn reuse(number: usize, instruction: &Instruction, ledger: &mut Ledger) {
    let of_nothing =
        |value: &Value| !matches!(value, Value::Register(File::General, Some(_)) | Value::RegisterAndNumber(File::General, Some(_), _));
    let is_texture = instruction.opcode.properties().pipe == Pipe::Tex;
    if (instruction.control.reuse != 0 && !is_texture)
        || instruction.operands.iter().any(|operand| operand.reuse && of_nothing(&operand.value))
    {
        ledger.wrong("reuse-of-nothing", number, "has a reuse flag where there is no register");
    }
}

fn alignment(number: usize, instruction: &Instruction, ledger: &mut Ledger) {
    for access in accesses(instruction) {
        let alignment = access.count.next_power_of_two().min(WIDEST_ALIGNMENT);
        if matches!(access.file, File::General | File::Uniform) && !access.first.is_multiple_of(alignment) {
            let (file, first, count) = (access.file.prefix(), access.first, access.count);
            ledger.wrong("unaligned", number, format!("{file}{first} is the first of {count}, which start at a multiple of {alignment}"));
        }
    }
}

fn branch(section: &Section<'_>, number: usize, instruction: &Instruction, ledger: &mut Ledger) {
    if section.is_patched(number) {
        return;
    }
    for operand in &instruction.operands {
        let Value::Relative(distance) = operand.value else { continue };
        let to = ((number + 1) * INSTRUCTION_BYTES) as i64 + distance;
        if distance % INSTRUCTION_BYTES as i64 != 0 {
            ledger.wrong("branch-unaligned", number, format!("leads to {to:#x}, which is inside an instruction"));
        } else if usize::try_from(to).map_or(true, |to| to >= section.words.len() * INSTRUCTION_BYTES) {
            ledger.wrong("branch-outside", number, format!("leads to {to:#x}, which is not in the section"));
        }
    }
}
