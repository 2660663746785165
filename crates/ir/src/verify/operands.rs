//! Verifier rules for operands, checked one instruction at a time.

use oriole_isa::{Effect, Memory, Opcode, Pipe, RegFile};

use super::report::VerifierReport;
use crate::function::Function;
use crate::ids::{Block, Inst};
use crate::instruction::{Op, Pseudo};
use crate::operand::{Operand, OperandKind, Part, Role, Signs};

/// Checks the classes of all values and the operands of all instructions.
pub(super) fn check(report: &mut VerifierReport<'_>) {
    let function = report.function;
    for (value, class) in function.values.iter_enumerated() {
        let makes_sense = (1..=128).contains(&class.width) && class.align.is_power_of_two();
        report.check(makes_sense, || format!("{value:?} has {} registers at multiples of {}", class.width, class.align));
    }
    report.each_inst(|report, block, inst| {
        let before = report.errors.len();
        for operand in function.operands(inst) {
            check_kind(report, function, inst, operand);
        }
        if report.errors.len() != before {
            return;
        }
        check_results(report, function, inst);
        check_ties(report, function, inst);
        check_guard(report, function, inst);
        check_brackets(report, function, inst);
        check_fixed(report, function, inst);
        check_memory(report, function, inst);
        if let Op::Pseudo(pseudo) = function.insts[inst].op {
            check_pseudo(report, function, block, inst, pseudo);
        }
    });
}

/// Returns the register file and the number of registers of an operand that consists of registers. The zero register fits any number:
/// `None`.
fn registers(function: &Function, kind: OperandKind) -> Option<(RegFile, Option<u8>)> {
    match kind {
        OperandKind::Value(part) => function.values.get(part.value).map(|class| (class.file, Some(part.count))),
        OperandKind::Register { file, count, .. } => Some((file, Some(count))),
        OperandKind::Zero(file) => Some((file, None)),
        _ => None,
    }
}

/// Checks an operand by itself. The other checks assume that its value and symbol exist.
fn check_kind(report: &mut VerifierReport<'_>, function: &Function, inst: Inst, operand: &Operand) {
    match operand.kind {
        OperandKind::Value(part) => check_part(report, function, part),
        OperandKind::Reference(reference) => {
            let exists = (reference.symbol as usize) < function.symbols.len();
            report.check(exists, || format!("a reference to symbol number {}, which does not exist", reference.symbol));
        }
        OperandKind::Undefined => report.check(function.insts[inst].is(Pseudo::Phi), || "an undefined operand outside of a phi".to_owned()),
        _ => {}
    }
}

fn check_part(report: &mut VerifierReport<'_>, function: &Function, part: Part) {
    let Some(class) = function.values.get(part.value) else {
        report.error(format!("{:?} does not exist", part.value));
        return;
    };
    let is_inside = part.count > 0 && u16::from(part.first) + u16::from(part.count) <= u16::from(class.width);
    report.check(is_inside, || {
        let end = u16::from(part.first) + u16::from(part.count);
        format!("registers {} up to {end} of {:?}, which has {}", part.first, part.value, class.width)
    });
}

/// Checks the written operands against the opcode's properties.
fn check_results(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let results = function.results(inst);
    for result in results {
        let is_whole = match result.kind {
            OperandKind::Value(part) => part == function.whole(part.value),
            OperandKind::Register { .. } | OperandKind::Zero(_) => true,
            _ => false,
        };
        report.check(is_whole, || "a result is neither a whole value nor a register".to_owned());
        report.check(result.signs == Signs::NONE, || "a result has a sign".to_owned());
        report.check(matches!(result.role, Role::Plain | Role::Fixed(_)), || "a result is tied or in brackets".to_owned());
    }
    let Op::Machine(opcode) = function.insts[inst].op else { return };
    if opcode == Opcode::CALL {
        return;
    }
    let mut written = opcode.properties().leading.iter().filter(|leading| leading.written);
    for (number, result) in results.iter().enumerate() {
        let Some((file, _)) = registers(function, result.kind) else { continue };
        let fits = written.by_ref().any(|leading| leading.files.contains(&file));
        report.check(fits, || format!("result {number} is in {}, which {} does not write there", file.prefix(), opcode.mnemonic()));
    }
}

/// Returns whether an opcode preserves a part of a result even without a guard: accumulators that are updated in place, predicates under a
/// mask, threads of a convergence barrier, the other half of the warp.
fn keeps_part_of_result(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::BREAK | Opcode::BMOV | Opcode::LDTM | Opcode::R2P) || opcode.is_warpgroup_product()
}

/// Checks the tied operands.
fn check_ties(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let data = &function.insts[inst];
    let results = function.results(inst);
    let mut tied = 0u64;
    for operand in function.sources(inst) {
        let Role::Tied(number) = operand.role else { continue };
        let Some(result) = results.get(usize::from(number)) else {
            report.error(format!("an operand is tied to result {number}, which does not exist"));
            continue;
        };
        let bit = 1u64 << (number % 64);
        report.check(tied & bit == 0, || format!("two operands are tied to result {number}"));
        tied |= bit;
        let is_same = registers(function, operand.kind) == registers(function, result.kind) && registers(function, operand.kind).is_some();
        report.check(is_same, || format!("the operand tied to result {number} is of another file or width"));
        report.check(operand.signs == Signs::NONE, || "a tied operand has a sign".to_owned());
        let may_tie = data.guard.is_some() || data.op.machine().is_some_and(keeps_part_of_result);
        report.check(may_tie, || "a tied operand without guard".to_owned());
    }
}

fn check_guard(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let Some(guard) = function.insts[inst].guard else { return };
    if let OperandKind::Value(part) = guard.kind {
        let before = report.errors.len();
        check_part(report, function, part);
        if report.errors.len() != before {
            return;
        }
    }
    let is_predicate = matches!(registers(function, guard.kind), Some((RegFile::Predicate | RegFile::UniformPredicate, None | Some(1))));
    report.check(is_predicate, || "the guard is no predicate".to_owned());
}

/// Checks that bracket terms follow an address and are in order.
fn check_brackets(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let mut open: Option<u8> = None;
    let mut is_empty = false;
    for (at, operand) in function.operands(inst).iter().enumerate() {
        match (operand.role, operand.kind) {
            (Role::Bracket(number), kind) => {
                report.check(open.is_some_and(|last| last <= number), || "the operand in brackets does not follow an address".to_owned());
                let is_term = matches!(
                    kind,
                    OperandKind::Value(_)
                        | OperandKind::Register { .. }
                        | OperandKind::Zero(_)
                        | OperandKind::Integer(_)
                        | OperandKind::Reference(_)
                        | OperandKind::Name(_)
                );
                report.check(is_term, || "an address is made of registers and numbers".to_owned());
                open = Some(number);
                is_empty = false;
            }
            (_, OperandKind::Address(word)) => {
                report.check(!is_empty, || "an address has nothing in its brackets".to_owned());
                (open, is_empty) = (Some(0), true);
                let following = &function.operands(inst)[at + 1..];
                let inside: Vec<&Operand> = following.iter().take_while(|piece| matches!(piece.role, Role::Bracket(_))).collect();
                let is_constant =
                    word.spelling() == "c" && matches!(inside[..], [bank, offset] if bank.integer().and(offset.integer()).is_some());
                report.check(!is_constant, || "an address of constant memory that is a constant operand".to_owned());
            }
            _ => {
                report.check(!is_empty, || "an address has nothing in its brackets".to_owned());
                (open, is_empty) = (None, false);
            }
        }
    }
    report.check(!is_empty, || "an address has nothing in its brackets".to_owned());
}

fn check_fixed(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let data = &function.insts[inst];
    let may_fix = data.is(Pseudo::Entry) || data.is(Pseudo::Keep) || data.is_machine(Opcode::CALL);
    let has_fixed = function.operands(inst).iter().any(|operand| matches!(operand.role, Role::Fixed(_)));
    report.check(may_fix || !has_fixed, || "a fixed register on something that is neither CALL, ENTRY nor KEEP".to_owned());
}

/// Checks that an instruction has a description of its memory access exactly if it accesses memory.
fn check_memory(report: &mut VerifierReport<'_>, function: &Function, inst: Inst) {
    let data = &function.insts[inst];
    let (memory, effect, pipe) = match data.op {
        Op::Machine(opcode) => (opcode.properties().memory, opcode.properties().effect, opcode.properties().pipe),
        Op::Pseudo(_) => (Memory::None, Effect::None, Pipe::None),
    };
    let is_access = matches!(effect, Effect::Reads | Effect::Writes | Effect::Updates);
    let is_plain = matches!(memory, Memory::Generic | Memory::Global | Memory::Shared | Memory::Local) && pipe == Pipe::Lsu;
    match data.memory {
        Some(id) if function.accesses.get(id).is_none() => report.error("the description of the memory access does not exist"),
        // An access of 0 bytes only orders other accesses: any instruction may be a fence for the compiler.
        Some(id) => report.check(memory != Memory::None || function.accesses[id].bytes == 0, || {
            "a memory access described on something that has none".to_owned()
        }),
        None => report.check(!(is_access && is_plain), || "a memory access that is not described".to_owned()),
    }
}

fn check_pseudo(report: &mut VerifierReport<'_>, function: &Function, block: Block, inst: Inst, pseudo: Pseudo) {
    let results = function.results(inst);
    let sources: Vec<&Operand> = function.sources(inst).iter().filter(|operand| !matches!(operand.role, Role::Tied(_))).collect();
    match pseudo {
        Pseudo::Phi => check_phi(report, function, results, &sources),
        Pseudo::Copy => {
            report.check(!results.is_empty() && results.len() == sources.len(), || {
                format!("a copy of {} sources to {} results", sources.len(), results.len())
            });
            for (number, (result, source)) in results.iter().zip(&sources).enumerate() {
                report.check(can_copy(function, result, source), || format!("source {number} does not fit its result"));
            }
        }
        Pseudo::Pack => {
            report.check(results.len() == 1, || "a pack has one result".to_owned());
            let Some((file, Some(width))) = results.first().and_then(|result| registers(function, result.kind)) else { return };
            let total: u32 = sources.iter().map(|source| packed_width(function, source)).sum();
            report.check(total == u32::from(width), || format!("{total} registers packed into {width}"));
            for (number, source) in sources.iter().enumerate() {
                let fits = registers(function, source.kind).is_none_or(|(from, _)| may_copy_between(from, file));
                report.check(fits, || format!("source {number} is in another register file"));
            }
        }
        Pseudo::Entry => {
            report.check(sources.is_empty(), || "ENTRY reads nothing".to_owned());
            report.check(Some(&block) == function.layout.first(), || "ENTRY outside of the entry block".to_owned());
        }
        Pseudo::Keep => report.check(results.is_empty(), || "KEEP writes nothing".to_owned()),
    }
}

fn check_phi(report: &mut VerifierReport<'_>, function: &Function, results: &[Operand], sources: &[&Operand]) {
    let [result] = results else {
        report.error("a phi has one result");
        return;
    };
    for pair in sources.chunks(2) {
        let [source, from] = pair else {
            report.error("a source of a phi has no block");
            continue;
        };
        report.check(matches!(from.kind, OperandKind::Block(_)), || "a source of a phi has no block".to_owned());
        match source.kind {
            OperandKind::Undefined => {}
            OperandKind::Value(_) => {
                let is_same = registers(function, source.kind) == registers(function, result.kind) && source.signs == Signs::NONE;
                report.check(is_same, || "a source of a phi has another file or width than its result".to_owned());
            }
            OperandKind::Integer(_) => {
                let is_general = registers(function, result.kind).is_some_and(|(file, _)| file == RegFile::General);
                report.check(is_general, || "a constant is the source of a phi of another file than R".to_owned());
            }
            _ => report.error("a source of a phi is neither a value, nor an integer, nor undefined"),
        }
    }
}

/// Returns whether a copy may go from one register file to another: within a file, or from a uniform file to the corresponding per-thread
/// file.
fn may_copy_between(from: RegFile, to: RegFile) -> bool {
    from == to || matches!((from, to), (RegFile::Uniform, RegFile::General) | (RegFile::UniformPredicate, RegFile::Predicate))
}

/// Returns whether a copy from `source` to `result` is valid.
fn can_copy(function: &Function, result: &Operand, source: &Operand) -> bool {
    let Some((file, width)) = registers(function, result.kind) else { return false };
    match registers(function, source.kind) {
        Some((from, count)) => may_copy_between(from, file) && (count.is_none() || width.is_none() || count == width),
        None => {
            let is_word = matches!(
                source.kind,
                OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Reference(_) | OperandKind::Name(_)
            );
            is_word && matches!(file, RegFile::General | RegFile::Uniform)
        }
    }
}

/// Returns the number of registers that a source of a `PACK` contributes.
fn packed_width(function: &Function, source: &Operand) -> u32 {
    registers(function, source.kind).and_then(|(_, count)| count).map_or(1, u32::from)
}
