//! Compares our control words with those in cubins, for the same instructions in the same order:
//! `cargo run --release -p oriole-ctrl --example compare -- FILE.cubin...`
//!
//! Prints for each target the sums of stalls, waits, scoreboards and reuse flags, ours and theirs; the share of equal yields; and the
//! number of hazards that the hazard check finds in our words. Functions compiled without optimization (more than a fifth of the stalls
//! are 15) are left out. `--list N` also prints the top N reasons for longer stalls, by cycles, and for additional waits.

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs};

use oriole_ctrl::flow::stalls::StallCause;
use oriole_ctrl::flow::{MachineBlock, MachineCode, assign_with_reasons};
use oriole_cubin::Cubin;
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_hardware::Hardware;
use oriole_isa::{Control, Instruction, Opcode, OperandValue, Target, decode};
use oriole_sim::hazard::{HazardSeverity, check_function};

/// Sums over all functions of one target. In pairs, the first number is ours and the second one is that of the cubin.
#[derive(Default)]
struct Totals {
    functions: usize,
    instructions: usize,
    /// Stall cycles.
    stalls: [u64; 2],
    /// Bits in wait masks.
    waits: [u64; 2],
    /// Scoreboards set.
    boards: [u64; 2],
    /// Reuse flags.
    reuse: [u64; 2],
    /// Reuse flags that both have.
    both_reuse: u64,
    /// Instructions with the same yield flag.
    yields_equal: u64,
    /// Hazards in our control words.
    findings: usize,
    /// Reasons for stalls that are longer than the cubin's: number of stalls, and additional cycles.
    longer: BTreeMap<String, (u64, u64)>,
    /// Reasons for waits of instructions that wait for nothing in the cubin: number of waits.
    extra_waits: BTreeMap<String, u64>,
}

fn main() {
    let mut files: Vec<String> = env::args().skip(1).collect();
    let mut list = 0;
    if let Some(at) = files.iter().position(|file| file == "--list") {
        list = files[at + 1].parse().unwrap_or(20);
        files.drain(at..at + 2);
    }
    let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
    for file in &files {
        let Ok(bytes) = fs::read(file) else { continue };
        let Ok(cubin) = Cubin::read(&bytes) else { continue };
        let Some(target) = cubin.target() else { continue };
        let total = totals.entry(target.to_string()).or_default();
        for function in cubin.functions() {
            let indirect = indirect_branches(&cubin, function.name);
            compare(file, function.name, function.code, target, &indirect, total);
        }
    }
    for (target, total) in &totals {
        let ratio = |pair: [u64; 2]| pair[0] as f64 / pair[1].max(1) as f64;
        println!(
            "{target}: {} functions, {} instructions; stalls {} / {} = {:.4}; waits {} / {} = {:.4}; boards {} / {}; reuse {} / {}, both {} ({:.1}%); yields equal {:.2}%; findings {}",
            total.functions,
            total.instructions,
            total.stalls[0],
            total.stalls[1],
            ratio(total.stalls),
            total.waits[0],
            total.waits[1],
            ratio(total.waits),
            total.boards[0],
            total.boards[1],
            total.reuse[0],
            total.reuse[1],
            total.both_reuse,
            100.0 * total.both_reuse as f64 / total.reuse[1].max(1) as f64,
            100.0 * total.yields_equal as f64 / total.instructions.max(1) as f64,
            total.findings,
        );
        let mut longer: Vec<_> = total.longer.iter().collect();
        longer.sort_by_key(|(_, (_, cycles))| std::cmp::Reverse(*cycles));
        for (what, (times, cycles)) in longer.iter().take(list) {
            println!("    {cycles:6} cycles, {times:5} times: {what}");
        }
        let mut waits: Vec<_> = total.extra_waits.iter().collect();
        waits.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        for (what, times) in waits.iter().take(list) {
            println!("    {times:6} waits more: {what}");
        }
    }
}

/// Returns the targets of the indirect branches of a function. Instructions are given by number.
fn indirect_branches(cubin: &Cubin, function: &str) -> BTreeMap<usize, Vec<usize>> {
    let mut branches = BTreeMap::new();
    for attribute in cubin.function_attributes(function) {
        if let (AttributeCode::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(list)) = (attribute.code, &attribute.value) {
            for branch in list {
                branches.insert(branch.branch as usize / 16, branch.targets.iter().map(|&target| target as usize / 16).collect());
            }
        }
    }
    branches
}

/// Adds the comparison for one function to `total`.
fn compare(file: &str, name: &str, bytes: &[u8], target: Target, indirect: &BTreeMap<usize, Vec<usize>>, total: &mut Totals) {
    let words = bytes.as_chunks::<16>().0;
    let Some(mut instructions) = words.iter().map(|word| decode(u128::from_le_bytes(*word), target)).collect::<Option<Vec<Instruction>>>()
    else {
        return;
    };
    let longest = instructions.iter().filter(|instruction| instruction.control.stall == 15).count();
    if longest * 5 > instructions.len() || instructions.is_empty() {
        return;
    }
    let theirs: Vec<Control> = words.iter().map(|word| Control::of(u128::from_le_bytes(*word))).collect();
    for operand in instructions.iter_mut().flat_map(|instruction| &mut instruction.operands) {
        operand.reuse = false;
    }
    let blocks = blocks_of(&instructions, indirect);
    let hardware = Hardware::built_in(target);
    let (ours, reasons) = assign_with_reasons(&MachineCode { instructions: &instructions, blocks }, &hardware);
    total.functions += 1;
    total.instructions += instructions.len();
    for (at, (one, two)) in ours.iter().zip(&theirs).enumerate() {
        total.stalls[0] += u64::from(one.stall);
        total.stalls[1] += u64::from(two.stall);
        total.waits[0] += u64::from(one.wait.count_ones());
        total.waits[1] += u64::from(two.wait.count_ones());
        let boards = |control: &Control| u64::from(control.write_barrier.is_some()) + u64::from(control.read_barrier.is_some());
        total.boards[0] += boards(one);
        total.boards[1] += boards(two);
        total.reuse[0] += u64::from(one.reuse.count_ones());
        total.reuse[1] += u64::from(two.reuse.count_ones());
        total.both_reuse += u64::from((one.reuse & two.reuse).count_ones());
        total.yields_equal += u64::from(one.stay == two.stay);
        if one.stall > two.stall {
            let why = match reasons.stalls[at].last().map_or(StallCause::MinimumStall, |part| part.cause) {
                StallCause::Register { first, kind, cycles, .. } => {
                    format!("{} {kind:?} {cycles} -> {}", instructions[first as usize].opcode.mnemonic(), next_name(&instructions, at))
                }
                StallCause::MinimumStall => "own".to_owned(),
                other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_owned(),
            };
            let entry = total.longer.entry(format!("{} S{:02}: {why}", instructions[at].opcode.mnemonic(), two.stall)).or_default();
            entry.0 += 1;
            entry.1 += u64::from(one.stall - two.stall);
        }
    }
    for wait in &reasons.waits {
        if theirs[wait.second as usize].wait == 0 {
            let (first, second) = (&instructions[wait.first as usize], &instructions[wait.second as usize]);
            let what = format!("{} {:?} {} -> {}", first.opcode.mnemonic(), wait.event, cause_name(wait), second.opcode.mnemonic());
            *total.extra_waits.entry(what).or_default() += 1;
        }
    }
    for (instruction, control) in instructions.iter_mut().zip(&ours) {
        instruction.control = Control { reuse: 0, ..*control };
        for operand in 0..instruction.operands.len() {
            if instruction.reuse_slot(operand).is_some_and(|slot| control.reuse >> slot & 1 == 1) {
                instruction.operands[operand].reuse = true;
            }
        }
    }
    let findings = check_function(&instructions, &[0], &|branch| indirect.get(&branch).cloned().unwrap_or_default(), hardware.model);
    for finding in findings.iter().filter(|finding| finding.problem.severity() == HazardSeverity::Hazard) {
        total.findings += 1;
        if total.findings < 10 {
            println!(
                "{file} {name}: {:#x} {} after {:#x} {}: {}",
                finding.second * 16,
                instructions[finding.second].opcode.mnemonic(),
                finding.first * 16,
                instructions[finding.first].opcode.mnemonic(),
                finding.problem
            );
        }
    }
}

fn cause_name(wait: &oriole_ctrl::flow::waits::Wait) -> String {
    format!("{:?}", wait.cause).split(',').next().unwrap_or_default().to_owned()
}

fn next_name(instructions: &[Instruction], at: usize) -> &'static str {
    instructions.get(at + 1).map_or("-", |next| next.opcode.mnemonic())
}

/// Returns the basic blocks of decoded code; `indirect` has the targets of indirect branches.
fn blocks_of(instructions: &[Instruction], indirect: &BTreeMap<usize, Vec<usize>>) -> Vec<MachineBlock> {
    let count = instructions.len();
    let target_of = |number: usize| {
        instructions[number].operands.iter().find_map(|operand| match operand.value {
            OperandValue::Relative(distance) => usize::try_from(number as i64 + 1 + distance / 16).ok().filter(|&to| to < count),
            _ => None,
        })
    };
    // By convergence barrier: the reconvergence points that its `BSSY`s name. A `BSYNC` may continue at each of them.
    let mut joins: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, instruction) in instructions.iter().enumerate() {
        if instruction.opcode == Opcode::BSSY {
            joins.entry(format!("{:?}", instruction.operands[0].value)).or_default().extend(target_of(number));
        }
    }
    // Successors of an instruction that ends a block; `None` for other instructions.
    let nexts = |number: usize| -> Option<Vec<usize>> {
        let instruction = &instructions[number];
        let conditional = !instruction.guard.is_always()
            || instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Register(_, Some(_))) || operand.not);
        let on = (number + 1 < count).then_some(number + 1);
        let mut targets: Vec<usize> = match instruction.opcode {
            Opcode::BRA => target_of(number).into_iter().chain(on.filter(|_| conditional)).collect(),
            Opcode::BRX | Opcode::BRXU => {
                let guarded = !instruction.guard.is_always();
                indirect.get(&number).cloned().unwrap_or_default().into_iter().chain(on.filter(|_| guarded)).collect()
            }
            Opcode::WARPSYNC => target_of(number).into_iter().chain(on).collect(),
            Opcode::BSYNC => {
                let key = format!(
                    "{:?}",
                    instruction
                        .operands
                        .iter()
                        .find(|operand| matches!(operand.value, OperandValue::Register(oriole_isa::RegFile::Convergence, _)))
                        .map(|operand| &operand.value)
                );
                let joined = joins.iter().filter(|(name, _)| key.contains(name.as_str())).flat_map(|(_, targets)| targets.iter().copied());
                joined.chain(on).collect()
            }
            Opcode::EXIT if conditional => on.into_iter().collect(),
            Opcode::EXIT => Vec::new(),
            Opcode::RET if instruction.guard.is_always() => Vec::new(),
            Opcode::CALL | Opcode::RET => on.into_iter().collect(),
            _ => return None,
        };
        targets.sort_unstable();
        targets.dedup();
        Some(targets)
    };
    let mut starts: BTreeSet<usize> = [0].into();
    for (number, instruction) in instructions.iter().enumerate() {
        if let Some(targets) = nexts(number) {
            starts.extend(targets);
            starts.insert(number + 1);
        }
        if instruction.opcode == Opcode::CALL {
            starts.extend(target_of(number));
        }
    }
    starts.remove(&count);
    let starts: Vec<usize> = starts.into_iter().collect();
    let number_of = |start: usize| starts.binary_search(&start).ok();
    let ends = starts.iter().skip(1).copied().chain([count]);
    let block = |(&start, end): (&usize, usize)| {
        let on = || if end < count { vec![end] } else { Vec::new() };
        let successors = nexts(end - 1).unwrap_or_else(on).into_iter().filter_map(number_of).collect();
        MachineBlock { range: start..end, successors }
    };
    starts.iter().zip(ends).map(block).collect()
}
