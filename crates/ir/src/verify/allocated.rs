//! Verifier rules that hold after register allocation.

use oriole_isa::RegFile;

use super::report::VerifierReport;
use crate::function::Function;
use crate::ids::Inst;
use crate::instruction::{Op, Pseudo};
use crate::operand::{Class, Operand, OperandKind, Role};

/// The number of registers of each file that a function may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "one field for each register file")]
pub struct RegisterLimits {
    pub general: u16,
    pub uniform: u16,
    pub predicate: u16,
    pub uniform_predicate: u16,
    pub convergence: u16,
    pub scoreboard: u16,
}

impl RegisterLimits {
    /// Returns the limit of a register file.
    pub fn of(&self, file: RegFile) -> u16 {
        match file {
            RegFile::General => self.general,
            RegFile::Uniform => self.uniform,
            RegFile::Predicate => self.predicate,
            RegFile::UniformPredicate => self.uniform_predicate,
            RegFile::Convergence => self.convergence,
            RegFile::Scoreboard => self.scoreboard,
        }
    }
}

/// Checks all instructions.
pub(super) fn check(report: &mut VerifierReport<'_>, limits: &RegisterLimits) {
    let function = report.function;
    report.each_inst(|report, _, inst| {
        let op = function.insts[inst].op;
        let is_left = matches!(op, Op::Pseudo(Pseudo::Phi | Pseudo::Copy | Pseudo::Pack));
        report.check(!is_left, || format!("{} is left after allocation", op.mnemonic()));
        let is_machine = op.machine().is_some();
        for operand in function.operands(inst) {
            check_operand(report, operand.kind, limits, is_machine);
            check_role(report, function, inst, operand);
        }
        if let Some(guard) = function.insts[inst].guard {
            check_operand(report, guard.kind, limits, is_machine);
        }
    });
}

/// Checks that an operand is allocated, within the limits, and aligned.
fn check_operand(report: &mut VerifierReport<'_>, kind: OperandKind, limits: &RegisterLimits, is_machine: bool) {
    match kind {
        OperandKind::Value(part) => report.error(format!("{:?} has no register", part.value)),
        OperandKind::Undefined => report.error("an undefined operand is left"),
        OperandKind::Register { file, first, count } => {
            let name = format!("{}{first}", file.prefix());
            report.check(count > 0, || format!("{name} has no registers"));
            let end = u32::from(first) + u32::from(count);
            report.check(end <= u32::from(limits.of(file)), || {
                format!("{name} and what follows it is beyond the limit of {}", limits.of(file))
            });
            let align = u16::from(Class::new(file, count).align);
            report.check(!is_machine || first % align == 0, || format!("{count} registers from {name} on are not aligned"));
        }
        _ => {}
    }
}

/// Checks that tied and fixed operands are in the required registers.
fn check_role(report: &mut VerifierReport<'_>, function: &Function, inst: Inst, operand: &Operand) {
    match (operand.role, operand.kind) {
        (Role::Tied(number), OperandKind::Register { .. }) => {
            let result = function.results(inst).get(usize::from(number)).map(|result| result.kind);
            report.check(result == Some(operand.kind), || "a tied operand is not in the register of its result".to_owned());
        }
        (Role::Fixed(register), OperandKind::Register { first, .. }) => {
            report.check(first == u16::from(register), || format!("an operand fixed to register {register} is in {first}"));
        }
        _ => {}
    }
}
