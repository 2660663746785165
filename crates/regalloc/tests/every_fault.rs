//! Puts single faults into correct allocations of random functions, at every instruction and operand, and requires that the checker rejects
//! each.
//!
//! The faults need no model of the program: each breaks a rule of its own, or reads or writes a register that the function does not use.

use std::collections::BTreeSet;

use crate::generate::Shape;
use oriole_ir::{Block, Function, Guard, Inst, Op, Opcode, Operand, OperandKind, RegFile, Role, Signs, Symbol, Target};
use oriole_regalloc::check::check;
use oriole_regalloc::{Allocation, AllocationEnvironment, allocate};
use oriole_support::Index;

/// A correct allocation. The checker gets an environment with more registers than the allocator had.
struct Case {
    name: String,
    before: Function,
    after: Function,
    env: AllocationEnvironment,
    /// The environment of the allocator.
    narrow: AllocationEnvironment,
    allocation: Allocation,
    /// For each instruction, whether a later one may read what it writes.
    read_later: Vec<bool>,
    /// Faults that the checker accepted.
    missed: Vec<String>,
    faults: usize,
}

/// A change of an inserted move. It is harmless where the destination holds the value already, or where the value is undefined.
const MAYBE_HARMLESS: &str = "another move";

/// Returns a general, uniform or predicate register that no instruction uses, below the limits of [`Case::env`].
fn fresh(file: RegFile) -> u16 {
    match file {
        RegFile::General => 200,
        RegFile::Uniform => 56,
        RegFile::Predicate | RegFile::UniformPredicate => 12,
        RegFile::Convergence => 24,
        RegFile::Scoreboard => 5,
    }
}

impl Case {
    fn new(seed: u64, limit: u32, shape: Shape) -> Case {
        let before = crate::generate::function(seed, shape);
        let mut after = before.clone();
        let mut narrow = AllocationEnvironment::new(Target::parse("sm_90").unwrap(), limit);
        narrow.uniform_registers = 40;
        let allocation = allocate(&mut after, &narrow).unwrap();
        let mut env = AllocationEnvironment { max_registers: 255, predicates: 16, uniform_predicates: 16, barriers: 32, ..narrow.clone() };
        env.uniform_registers = 63;
        check(&before, &after, &narrow, &allocation).expect("the allocation is correct");
        check(&before, &after, &env, &allocation).expect("more registers do no harm");
        let name = format!("seed {seed}, {limit} registers");
        let read_later = read_later(&after, |inst| inst < before.insts.next_index());
        Case { name, before, after, read_later, env, narrow, allocation, missed: Vec::new(), faults: 0 }
    }

    /// Changes an instruction with `change`, requires that the checker rejects the result, and undoes the change.
    fn try_fault(&mut self, inst: Inst, what: &str, change: impl FnOnce(&mut Function)) {
        let (data, operands) = (self.after.insts[inst].clone(), self.after.operands(inst).to_vec());
        change(&mut self.after);
        self.judge(what, &format!("{inst:?} {}", data.op.mnemonic()));
        self.after.insts[inst] = data;
        self.after.operands_mut(inst).clone_from_slice(&operands);
    }

    /// Requires that the checker rejects the changed function.
    fn judge(&mut self, what: &str, place: &str) {
        self.faults += 1;
        if check(&self.before, &self.after, &self.env, &self.allocation).is_ok() {
            self.missed.push(format!("{}: {what} in {place}", self.name));
        }
    }

    fn operand_fault(&mut self, inst: Inst, number: usize, what: &str, change: impl FnOnce(&mut Operand)) {
        self.try_fault(inst, &format!("{what} of operand {number}"), |function| change(&mut function.operands_mut(inst)[number]));
    }

    /// Returns whether a later instruction reads a register that an instruction writes. Otherwise it does not matter where it writes.
    fn is_read(&self, inst: Inst) -> bool {
        self.read_later[inst.position()]
    }
}

/// Registers and words of spill slots, as register file and number; slots have the file [`SLOTS`].
type Places = BTreeSet<(u8, u16)>;
const SLOTS: u8 = u8::MAX;

fn registers(kind: OperandKind) -> impl Iterator<Item = (u8, u16)> {
    let (file, first, count) = if let OperandKind::Register { file, first, count } = kind { (file as u8, first, count) } else { (0, 0, 0) };
    (first..first + u16::from(count)).map(move |register| (file, register))
}

/// Returns what an instruction writes and reads.
fn places(function: &Function, inst: Inst) -> (Places, Places) {
    let guard = function.insts[inst].guard.map(|guard| guard.kind);
    let mut written: Places = function.results(inst).iter().flat_map(|result| registers(result.kind)).collect();
    let mut read: Places = function.sources(inst).iter().map(|source| source.kind).chain(guard).flat_map(registers).collect();
    let (is_load, is_store) = (function.insts[inst].is_machine(Opcode::LDL), function.insts[inst].is_machine(Opcode::STL));
    if is_load || is_store {
        let offset = function.operands(inst).iter().find_map(Operand::integer).expect("an offset") as u16;
        let data = if is_load { function.operands(inst)[0].kind } else { function.operands(inst).last().unwrap().kind };
        let words = (0..registers(data).count() as u16).map(|word| (SLOTS, offset + 4 * word));
        if is_load { read.extend(words) } else { written.extend(words) }
    }
    (written, read)
}

/// Returns for each instruction whether what it writes may be read by an instruction of the old function, directly or through instructions
/// that the allocator inserted.
fn read_later(function: &Function, is_original: impl Fn(Inst) -> bool) -> Vec<bool> {
    let mut found = vec![false; function.insts.len()];
    let mut at_start: Vec<Places> = vec![Places::new(); function.blocks.len()];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &block in function.layout.iter().rev() {
            let mut live: Places = function.successors(block).iter().flat_map(|next| at_start[next.position()].clone()).collect();
            for &inst in function.blocks[block].insts.iter().rev() {
                let (written, read) = places(function, inst);
                let is_read = !written.is_disjoint(&live);
                found[inst.position()] |= is_read;
                if function.insts[inst].guard.is_none() {
                    live.retain(|place| !written.contains(place));
                }
                if is_original(inst) || is_read {
                    live.extend(read);
                }
            }
            changed |= live != at_start[block.position()];
            at_start[block.position()] = live;
        }
    }
    found
}

/// Faults in an instruction of the old function.
fn original_faults(case: &mut Case, inst: Inst) {
    case.try_fault(inst, "another opcode", |function| {
        let is_nop = function.insts[inst].is_machine(Opcode::NOP);
        function.insts[inst].op = Op::Machine(if is_nop { Opcode::MOV } else { Opcode::NOP });
    });
    case.try_fault(inst, "another modifier", |function| function.insts[inst].modifiers.push(Symbol::SYS));
    case.try_fault(inst, "a guard more or less", |function| {
        let truth = OperandKind::Zero(RegFile::Predicate);
        let guard = &mut function.insts[inst].guard;
        *guard = if guard.is_some() { None } else { Some(Guard { kind: truth, negated: false }) };
    });
    if case.after.insts[inst].guard.is_some() {
        case.try_fault(inst, "a negated guard", |function| {
            let guard = function.insts[inst].guard.as_mut().unwrap();
            guard.negated = !guard.negated;
        });
        if case.before.insts[inst].guard.is_some_and(|guard| matches!(guard.kind, OperandKind::Value(_))) {
            case.try_fault(inst, "another guard register", |function| {
                let guard = function.insts[inst].guard.as_mut().unwrap();
                let OperandKind::Register { file, first, .. } = &mut guard.kind else { panic!("a register") };
                *first = fresh(*file);
            });
        }
    }
    for number in 0..case.before.operands(inst).len() {
        original_operand_faults(case, inst, number);
    }
}

/// Faults in an operand of an instruction of the old function.
fn original_operand_faults(case: &mut Case, inst: Inst, number: usize) {
    let (old, new) = (case.before.operands(inst)[number], case.after.operands(inst)[number]);
    let is_result = number < case.before.insts[inst].result_count();
    let OperandKind::Value(part) = old.kind else {
        if !matches!(old.kind, OperandKind::Block(_)) {
            case.operand_fault(inst, number, "another constant", |operand| operand.kind = OperandKind::Integer(0x1234));
        }
        return;
    };
    let OperandKind::Register { file, first, count } = new.kind else { panic!("{inst:?} has no register") };
    let class = case.before.values[part.value];
    let register = |file, first, count| OperandKind::Register { file, first, count };
    case.operand_fault(inst, number, "a constant instead", |operand| operand.kind = OperandKind::Integer(0x1234));
    case.operand_fault(inst, number, "a value instead", |operand| operand.kind = old.kind);
    case.operand_fault(inst, number, "a register more", |operand| operand.kind = register(file, first, count + 1));
    let other = if file == RegFile::General { RegFile::Uniform } else { RegFile::General };
    case.operand_fault(inst, number, "another file", |operand| operand.kind = register(other, first, count));
    if is_result && class.align > 1 {
        case.operand_fault(inst, number, "misalignment", |operand| operand.kind = register(file, first + 1, count));
    }
    if !is_result {
        case.operand_fault(inst, number, "another sign", |operand| operand.signs = operand.signs.toggled(Signs::NOT));
        case.operand_fault(inst, number, "another role", |operand| operand.role = Role::Fixed(77));
    }
    // The register of a value that nothing reads may be read later as an undefined operand of a phi, for which any content is right.
    let is_used = case.before.insts.indices().any(|reader| case.before.used(reader).any(|used| used.value == part.value));
    if !is_result || is_used && case.is_read(inst) && case.after.insts[inst].result_count() == 1 {
        case.operand_fault(inst, number, "an unused register", |operand| operand.kind = register(file, fresh(file), count));
    }
}

/// Faults in an instruction that the allocator inserted, other than a branch.
fn inserted_faults(case: &mut Case, inst: Inst) {
    case.try_fault(inst, "another opcode", |function| function.insts[inst].op = Op::Machine(Opcode::NOP));
    if case.is_read(inst) {
        case.try_fault(inst, MAYBE_HARMLESS, |function| function.insts[inst].modifiers.push(Symbol::SYS));
    }
    case.try_fault(inst, "another guard", |function| {
        let guard = &mut function.insts[inst].guard;
        *guard = if guard.is_some() { None } else { Some(Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: true }) };
    });
    for number in 0..case.after.operands(inst).len() {
        let operand = case.after.operands(inst)[number];
        let OperandKind::Register { file, first, count } = operand.kind else { continue };
        if !case.is_read(inst) {
            continue;
        }
        case.operand_fault(inst, number, MAYBE_HARMLESS, |operand| {
            operand.kind = OperandKind::Register { file, first: fresh(file), count };
        });
        case.operand_fault(inst, number, MAYBE_HARMLESS, |operand| {
            operand.kind = OperandKind::Register { file, first, count: count + 1 };
        });
    }
    let is_load = case.after.insts[inst].is_machine(Opcode::LDL);
    if !is_load && !case.after.insts[inst].is_machine(Opcode::STL) {
        return;
    }
    let number = case.after.operands(inst).iter().position(|operand| operand.integer().is_some()).expect("an offset");
    let (start, end) = (i64::from(case.before.frame_bytes), i64::from(case.after.frame_bytes));
    let offset = case.after.operands(inst)[number].integer().unwrap();
    let wrong = [start - 4, start - 16, end, end + 16, offset + 1, offset + 2];
    for wrong in wrong {
        case.operand_fault(inst, number, "a wrong offset", |operand| operand.kind = OperandKind::Integer(wrong));
    }
}

/// Faults that concern no single operand: registers above the limit, writes of the stack pointer, missing and exchanged instructions.
fn shape_faults(case: &mut Case, block: Block) {
    let insts = case.after.blocks[block].insts.clone();
    let is_original = |inst: &Inst| *inst < case.before.insts.next_index();
    let originals: Vec<usize> = (0..insts.len()).filter(|&at| is_original(&insts[at])).collect();
    for &at in &originals {
        case.after.blocks[block].insts.remove(at);
        // The allocator may delete a branch in front of one with the same target.
        let place = format!("{:?} of {block:?}", insts[at]);
        if !case.after.insts[insts[at]].is_machine(Opcode::BRA) {
            case.judge("a missing instruction", &place);
        }
        case.after.blocks[block].insts.clone_from(&insts);
    }
    for pair in originals.windows(2) {
        case.after.blocks[block].insts.swap(pair[0], pair[1]);
        case.judge("exchanged instructions", &format!("{:?}", insts[pair[0]]));
        case.after.blocks[block].insts.clone_from(&insts);
    }
}

fn limit_faults(case: &mut Case, inst: Inst) {
    let wide = std::mem::replace(&mut case.env, case.narrow.clone());
    for number in 0..case.after.operands(inst).len() {
        let operand = case.after.operands(inst)[number];
        let OperandKind::Register { file, count, .. } = operand.kind else { continue };
        let limit = case.env.limit(file) as u16;
        case.operand_fault(inst, number, "a register above the limit", |operand| {
            operand.kind = OperandKind::Register { file, first: limit + 1 - u16::from(count), count };
        });
        if number < case.after.insts[inst].result_count() && file == RegFile::General {
            let first = 1_u16.saturating_sub(u16::from(count) - 1);
            case.operand_fault(inst, number, "the stack pointer", |operand| {
                operand.kind = OperandKind::Register { file, first, count };
            });
        }
    }
    case.env = wide;
}

/// Puts every fault into the allocations of some functions.
fn sweep(seeds: std::ops::Range<u64>, limit: u32, shape: Shape) {
    let (mut faults, mut missed) = (0, Vec::new());
    for seed in seeds {
        let mut case = Case::new(seed, limit, shape);
        for block in case.after.layout.clone() {
            for inst in case.after.blocks[block].insts.clone() {
                let is_original = inst < case.before.insts.next_index();
                if is_original {
                    original_faults(&mut case, inst);
                } else if !case.after.insts[inst].is_machine(Opcode::BRA) {
                    inserted_faults(&mut case, inst);
                }
                limit_faults(&mut case, inst);
            }
            if block < case.before.blocks.next_index() {
                shape_faults(&mut case, block);
            }
        }
        faults += case.faults;
        missed.append(&mut case.missed);
    }
    assert!(faults > 1000, "only {faults} faults");
    let before = missed.len();
    missed.retain(|fault: &String| !fault.contains(MAYBE_HARMLESS));
    let harmless = before - missed.len();
    assert!(200 * harmless < faults, "{harmless} of {faults} faults are accepted, too many to be harmless");
    assert!(missed.is_empty(), "{} of {faults} faults are accepted:\n{}", missed.len(), missed[..missed.len().min(30)].join("\n"));
}

#[test]
fn straight_code() {
    sweep(0..4, 16, Shape { regions: 1, piece: 40, reach: 40, calls: false, wide: false });
}

#[test]
fn branches_and_loops() {
    sweep(10..14, 16, Shape { regions: 4, piece: 8, reach: 60, calls: false, wide: false });
}

#[test]
fn calls() {
    sweep(20..24, 16, Shape { regions: 3, piece: 8, reach: 60, calls: true, wide: false });
}

#[test]
fn wide_tuples() {
    sweep(30..33, 64, Shape { regions: 2, piece: 12, reach: 60, calls: false, wide: true });
}
