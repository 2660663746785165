//! Verifier rules for SSA form: one definition of each value, which dominates all uses.

use oriole_support::IndexVec;

use super::report::VerifierReport;
use crate::analysis::{ControlFlow, Dominators};
use crate::ids::{Block, Value};
use crate::instruction::Pseudo;
use crate::operand::OperandKind;

/// Checks a function in SSA form; does nothing for other functions.
pub(super) fn check(report: &mut VerifierReport<'_>) {
    let function = report.function;
    if !function.is_ssa {
        return;
    }
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let mut places: IndexVec<Value, Option<(Block, u32)>> = IndexVec::filled(function.values.len(), None);
    let mut position = 0;
    report.each_inst(|report, block, inst| {
        position += 1;
        for value in function.defined(inst) {
            report.check(places[value].is_none(), || format!("{value:?} is defined a second time"));
            places[value].get_or_insert((block, position));
        }
    });
    let mut position = 0;
    report.each_inst(|report, block, inst| {
        position += 1;
        if !flow.is_reachable(block) {
            return;
        }
        if function.insts[inst].is(Pseudo::Phi) {
            for pair in function.sources(inst).chunks(2) {
                if let [source, from] = pair
                    && let (Some(value), OperandKind::Block(from)) = (source.value(), from.kind)
                {
                    let is_there = places[value].is_some_and(|(home, _)| dominators.dominates(home, from));
                    report.check(is_there || !flow.is_reachable(from), || format!("{value:?} is not defined at the end of {from:?}"));
                }
            }
            return;
        }
        for part in function.used(inst) {
            let is_there =
                places[part.value].is_some_and(|(home, at)| if home == block { at < position } else { dominators.dominates(home, block) });
            report.check(is_there, || format!("{:?} is used where it is not defined", part.value));
        }
    });
}
