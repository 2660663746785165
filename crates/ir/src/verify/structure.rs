//! Verifier rules for blocks, their terminators, and phis.

use oriole_isa::{Opcode, RegFile};
use oriole_support::BitSet;

use super::report::VerifierReport;
use crate::analysis::ControlFlow;
use crate::function::Function;
use crate::ids::{Block, Inst};
use crate::instruction::{Op, Pseudo};
use crate::operand::{Guard, OperandKind};

/// Checks the layout, the targets of branches, the ends of blocks, and the phis.
pub(super) fn check(report: &mut VerifierReport<'_>) {
    let function = report.function;
    let before = report.errors.len();
    if function.layout.is_empty() {
        report.error("there is no entry: the layout is empty");
        return;
    }
    check_layout(report);
    check_targets(report);
    if report.errors.len() != before {
        return;
    }
    for &block in &function.layout {
        report.block = Some(block);
        check_end(report, block);
    }
    report.inst = None;
    let flow = ControlFlow::compute(function);
    if function.is_ssa {
        report.block = Some(function.entry());
        report.check(flow.predecessors(function.entry()).is_empty(), || "the entry is branched to".to_owned());
    }
    check_phis(report, &flow);
    (report.block, report.inst) = (None, None);
}

fn check_layout(report: &mut VerifierReport<'_>) {
    let function = report.function;
    let mut seen = BitSet::new(function.blocks.len());
    let mut placed = BitSet::new(function.insts.len());
    for &block in &function.layout {
        if function.blocks.get(block).is_none() {
            report.error(format!("the layout names {block:?}, which does not exist"));
            continue;
        }
        report.block = Some(block);
        report.check(seen.insert(block), || "the block is twice in the layout".to_owned());
        for &inst in &function.blocks[block].insts {
            if function.insts.get(inst).is_none() {
                report.error(format!("{inst:?} does not exist"));
            } else if !placed.insert(inst) {
                report.inst = Some(inst);
                report.error("the instruction is in two places");
            }
        }
        (report.block, report.inst) = (None, None);
    }
}

fn check_targets(report: &mut VerifierReport<'_>) {
    let function = report.function;
    let mut in_layout = BitSet::new(function.blocks.len());
    for &block in &function.layout {
        in_layout.insert(block);
    }
    report.each_inst(|report, _, inst| {
        for operand in function.operands(inst) {
            if let OperandKind::Block(target) = operand.kind {
                report.check(in_layout.contains(target), || format!("{target:?} is not in the layout"));
            }
        }
    });
}

/// Returns whether an instruction ends a block.
fn ends_block(function: &Function, inst: Inst) -> bool {
    matches!(function.insts[inst].op, Op::Machine(Opcode::BRA | Opcode::BRX | Opcode::EXIT | Opcode::RET))
}

/// Returns whether an instruction executes in all threads.
fn is_unguarded(guard: Option<Guard>) -> bool {
    guard.is_none_or(|guard| !guard.negated && matches!(guard.kind, OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate)))
}

/// Checks that a block ends with control flow and has none inside.
fn check_end(report: &mut VerifierReport<'_>, block: Block) {
    let function = report.function;
    let insts = &function.blocks[block].insts;
    report.inst = None;
    let Some((&last, inner)) = insts.split_last() else {
        report.error("the block is empty");
        return;
    };
    report.inst = Some(last);
    report.check(ends_block(function, last), || "the block does not end in BRA, BRX, EXIT or RET".to_owned());
    report.check(is_unguarded(function.insts[last].guard), || "the last instruction of a block has a guard".to_owned());
    for (position, &inst) in inner.iter().enumerate() {
        let data = &function.insts[inst];
        let is_guarded_branch = data.is_machine(Opcode::BRA) && data.guard.is_some() && position + 1 == inner.len();
        // A guarded `EXIT` may be inside a block: the exiting threads execute nothing after it, and the other threads continue.
        let is_guarded_exit = data.is_machine(Opcode::EXIT) && data.guard.is_some();
        report.inst = Some(inst);
        report.check(!ends_block(function, inst) || is_guarded_branch || is_guarded_exit, || "control flow inside a block".to_owned());
    }
}

fn check_phis(report: &mut VerifierReport<'_>, flow: &ControlFlow) {
    let function = report.function;
    report.each_inst(|report, block, inst| {
        if !function.insts[inst].is(Pseudo::Phi) {
            return;
        }
        report.check(function.is_ssa, || "a phi in a function that is not in SSA form".to_owned());
        report.check(function.insts[inst].guard.is_none(), || "a phi has a guard".to_owned());
        let mut missing: Vec<Block> = flow.predecessors(block).to_vec();
        missing.sort_unstable();
        let mut given: Vec<Block> = function
            .sources(inst)
            .iter()
            .filter_map(|operand| if let OperandKind::Block(from) = operand.kind { Some(from) } else { None })
            .collect();
        given.sort_unstable();
        report.check(given == missing, || format!("a phi of {given:?} in a block that is entered from {missing:?}"));
    });
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts[function.phis(block).len()..] {
            if function.insts[inst].is(Pseudo::Phi) {
                (report.block, report.inst) = (Some(block), Some(inst));
                report.error("a phi after another instruction");
            }
        }
    }
}
