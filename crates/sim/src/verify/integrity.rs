//! Integrity: code, reuse cache, attributes and symbols are consistent with each other.
//!
//! Checks that need more than one instruction. Proved for each function:
//!
//! - no operand is read from the reuse cache after its register was overwritten, on any path (`stale-reuse`);
//! - control does not run past the end of the section on any path (`falls-off`), and each indirect branch has a list of targets, all of
//!   which are instructions of the section (`branch-list`);
//! - on every path each instruction uses only registers that the warp has there (`registers`): the declared number, or the number after the
//!   last `USETMAXREG`, which neither keeps more nor requests fewer registers than the warp has (`register-change`);
//! - a kernel's declared barrier count covers the named barriers it uses (`barriers`);
//! - the attribute that lists a kernel's exits lists exactly its `EXIT` instructions (`exit-list`); every other offset list contains only
//!   offsets of instructions of the section (`offset-list`);
//! - symbols and relocations of the section are inside it, and symbols start at instructions (`symbol-outside`, `relocation-outside`);
//! - every `BSYNC` waits at a convergence barrier that some instruction sets up (`no-convergence`).

use std::collections::BTreeSet;

use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_isa::{HIDDEN_REGISTERS, Instruction, Opcode, OperandValue, RegFile, accesses, requested_registers};

use crate::hazard::Problem;
use crate::hazard::flow::NextInsts;

use super::completeness::report_hazards;
use super::register_counts::{SectionRegisterCounts, check_changes};
use super::section::INSTRUCTION_BYTES;
use super::{FindingSink, Section};

/// Checks the section against the cubin's other sections.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    sink.count(section.words.len());
    report_hazards(section, sink, |problem| matches!(problem, Problem::StaleReuse { .. }).then_some("stale-reuse"));
    flow(section, sink);
    registers(section, sink);
    barriers(section, sink);
    lists(section, sink);
    places(section, sink);
    convergence(section, sink);
}

/// Computes the reachable instructions and reports those after which control runs past the end of the section.
fn flow(section: &Section<'_>, sink: &mut FindingSink) {
    let nexts = section.nexts();
    let mut reached = vec![false; nexts.len()];
    let mut todo = section.entry_numbers();
    todo.push(0);
    let mut off = BTreeSet::new();
    while let Some(number) = todo.pop() {
        if number >= nexts.len() || std::mem::replace(&mut reached[number], true) {
            continue;
        }
        let mut go = |to: usize| {
            if to < nexts.len() {
                todo.push(to);
            } else {
                off.insert(number);
            }
        };
        match &nexts[number] {
            NextInsts::FallThrough => go(number + 1),
            NextInsts::To(targets) => targets.iter().for_each(|&target| go(target)),
            NextInsts::Call { target, .. } => target.iter().copied().chain([number + 1]).for_each(go),
            NextInsts::Return { guarded } => {
                if *guarded {
                    go(number + 1);
                }
            }
        }
    }
    for number in off {
        sink.hazard("falls-off", number, "lets control run off the end of the section");
    }
    branch_lists(section, &reached, sink);
}

/// Checks the target lists of indirect branches; a reachable indirect branch must have one.
fn branch_lists(section: &Section<'_>, reached: &[bool], sink: &mut FindingSink) {
    let is_indirect = |instruction: &Instruction| matches!(instruction.opcode, Opcode::BRX | Opcode::BRXU);
    for (&branch, targets) in &section.indirect {
        sink.count(targets.len());
        let number = branch as usize / INSTRUCTION_BYTES;
        let named = section.decoded.get(number).and_then(Option::as_ref);
        if !(branch as usize).is_multiple_of(INSTRUCTION_BYTES) || !named.is_some_and(is_indirect) {
            sink.hazard("branch-list", None, format!("lists the targets of an indirect branch at {branch:#x}, where there is none"));
        }
        for &target in targets {
            let is_instruction = (target as usize).is_multiple_of(INSTRUCTION_BYTES);
            if !is_instruction || target as usize >= section.words.len() * INSTRUCTION_BYTES {
                sink.hazard("branch-list", number, format!("may lead to {target:#x}, which is no instruction of the section"));
            }
        }
    }
    for (number, _) in section.instructions().filter(|(number, one)| is_indirect(one) && reached.get(*number) == Some(&true)) {
        if !section.indirect.contains_key(&((number * INSTRUCTION_BYTES) as u32)) {
            sink.hazard("branch-list", number, "is an indirect branch whose targets no attribute lists");
        }
    }
}

/// Checks the registers used against those that the warp has: the declared number, or the number after the last `USETMAXREG` on each path.
fn registers(section: &Section<'_>, sink: &mut FindingSink) {
    let Some(declared) = section.register_count else { return };
    let most_requested = section.instructions().filter_map(|(_, instruction)| requested_registers(instruction)).max();
    let counts = most_requested.zip(section.code()).map(|(_, code)| {
        let counts =
            SectionRegisterCounts::compute(code, section.nexts(), &section.entry_numbers(), declared.try_into().unwrap_or(u16::MAX));
        check_changes(code, &counts, sink);
        counts
    });
    // Code that no path reaches, or that cannot be decoded completely, may have any number that occurs in the section.
    let most = declared.max(most_requested.map_or(0, u32::from));
    for (number, instruction) in section.instructions() {
        let count = counts.as_ref().and_then(|counts| counts.at(number, instruction)).map_or(most, u32::from);
        let named = count.saturating_sub(HIDDEN_REGISTERS);
        for access in accesses(instruction).iter().filter(|access| access.file == RegFile::General) {
            let last = access.first + access.count - 1;
            if u32::from(last) >= named {
                let message = format!("touches R{last}; the warp has {count} registers here, of which code can name {named}");
                sink.hazard("registers", number, message);
            }
        }
    }
    let in_header = u32::from(section.index.cubin().sections()[section.number].text_info().registers());
    if in_header != 0 && in_header != declared {
        sink.note("registers", None, format!("has {declared} registers by its attribute and {in_header} by its section"));
    }
}

/// Checks the declared barrier count of a kernel against the named barriers used.
fn barriers(section: &Section<'_>, sink: &mut FindingSink) {
    let stated = i64::from(section.index.cubin().sections()[section.number].barrier_count(section.attributes));
    for (number, instruction) in section.instructions().filter(|(_, instruction)| instruction.opcode == Opcode::BAR) {
        let index = instruction
            .operands
            .first()
            .and_then(|operand| if let OperandValue::Integer(index) = operand.value { Some(index) } else { None });
        if index.is_some_and(|index| index >= stated) && section.is_kernel {
            sink.hazard("barriers", number, format!("uses a barrier that the function does not have; it has {stated}"));
        }
    }
}

/// Checks the attributes that list instruction offsets.
fn lists(section: &Section<'_>, sink: &mut FindingSink) {
    let end = section.words.len() * INSTRUCTION_BYTES;
    for attribute in section.attributes {
        let AttributeValue::Words(offsets) = &attribute.value else { continue };
        let Some(name) = attribute.code.name().filter(|name| name.ends_with("INSTR_OFFSETS") || *name == "SYSCALL_OFFSETS") else {
            continue;
        };
        sink.count(offsets.len());
        for &offset in offsets {
            if !(offset as usize).is_multiple_of(INSTRUCTION_BYTES) || offset as usize >= end {
                sink.hazard("offset-list", None, format!("EIATTR_{name} names {offset:#x}, which is no instruction of the section"));
            }
        }
        if attribute.code == AttributeCode::EXIT_INSTR_OFFSETS {
            exits(section, offsets, sink);
        }
    }
}

/// Checks that the listed exits are exactly the `EXIT` instructions.
fn exits(section: &Section<'_>, listed: &[u32], sink: &mut FindingSink) {
    let listed: BTreeSet<u32> = listed.iter().copied().collect();
    let exits = section.instructions().filter(|(_, instruction)| instruction.opcode == Opcode::EXIT);
    let found: BTreeSet<u32> = exits.map(|(number, _)| (number * INSTRUCTION_BYTES) as u32).collect();
    for offset in listed.symmetric_difference(&found) {
        let message =
            if found.contains(offset) { "is an exit that the list of exits does not name" } else { "is named as an exit, but is none" };
        sink.hazard("exit-list", Some(*offset as usize / INSTRUCTION_BYTES).filter(|&number| number < section.words.len()), message);
    }
}

/// Checks the positions of symbols and relocations.
fn places(section: &Section<'_>, sink: &mut FindingSink) {
    let end = (section.words.len() * INSTRUCTION_BYTES) as u64;
    for symbol in section.index.functions_in(section.number) {
        sink.count(1);
        if !symbol.value.is_multiple_of(INSTRUCTION_BYTES as u64) || symbol.value.saturating_add(symbol.size) > end {
            let message = format!("`{}` is at {:#x} with {:#x} bytes; the section has {end:#x}", symbol.name, symbol.value, symbol.size);
            sink.hazard("symbol-outside", None, message);
        }
    }
    for relocation in &section.relocations {
        sink.count(1);
        if relocation.offset >= end {
            sink.hazard("relocation-outside", None, format!("a relocation patches {:#x}; the section ends at {end:#x}", relocation.offset));
        }
    }
}

/// Checks that every convergence barrier of a `BSYNC` is an operand of some instruction that can set it up.
fn convergence(section: &Section<'_>, sink: &mut FindingSink) {
    let of = |instruction: &Instruction| {
        let register = |value: &OperandValue| {
            if let OperandValue::Register(RegFile::Convergence, Some(number)) = value { Some(*number) } else { None }
        };
        instruction.operands.iter().find_map(|operand| register(&operand.value))
    };
    let prepares = |instruction: &Instruction| instruction.opcode != Opcode::BSYNC && instruction.opcode != Opcode::BREAK;
    let set: BTreeSet<u16> = section.instructions().filter(|(_, one)| prepares(one)).filter_map(|(_, one)| of(one)).collect();
    for (number, instruction) in section.instructions().filter(|(_, instruction)| instruction.opcode == Opcode::BSYNC) {
        if let Some(barrier) = of(instruction).filter(|barrier| !set.contains(barrier)) {
            sink.hazard("no-convergence", number, format!("waits at B{barrier}, which nothing sets up"));
        }
    }
}
