//! Values that are certainly the same in all threads of a warp.
//!
//! A value is uniform if an unguarded instruction without effect makes it from uniform sources; constants, kernel parameters and the
//! block's coordinates are where this starts. Phis count as different in each thread: which one is taken may depend on the thread.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Pseudo, Value};
use oriole_isa::{Effect, File, Opcode};
use oriole_support::Index;

use crate::definitions::Definitions;

/// Instructions in a row that are looked at for one answer.
const DEPTH_AT_MOST: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Unknown,
    Uniform,
    Different,
}

/// Answers questions about values, each once.
pub(crate) struct Uniform {
    definitions: Definitions,
    answers: Vec<Answer>,
}

impl Uniform {
    pub(crate) fn new(function: &Function) -> Uniform {
        Uniform { definitions: Definitions::compute(function), answers: vec![Answer::Unknown; function.values.len()] }
    }

    /// Whether an operand is the same in all threads.
    pub(crate) fn holds(&mut self, function: &Function, kind: OperandKind) -> bool {
        self.operand(function, kind, DEPTH_AT_MOST)
    }

    fn operand(&mut self, function: &Function, kind: OperandKind, depth: usize) -> bool {
        match kind {
            OperandKind::Value(part) => self.value(function, part.value, depth),
            OperandKind::Register { file, .. } => matches!(file, File::Uniform | File::UniformPredicate),
            OperandKind::Zero(_)
            | OperandKind::Integer(_)
            | OperandKind::Constant { .. }
            | OperandKind::Set(_)
            | OperandKind::Reference(_)
            | OperandKind::Address(_) => true,
            OperandKind::Name(name) => ["SR_CTAID.", "SR_NTID", "SR_NCTAID"].iter().any(|start| name.spelling().starts_with(start)),
            OperandKind::Block(_) | OperandKind::Undefined => false,
        }
    }

    fn value(&mut self, function: &Function, value: Value, depth: usize) -> bool {
        if matches!(function.values[value].file, File::Uniform | File::UniformPredicate) {
            return true;
        }
        if depth == 0 || self.answers[value.position()] == Answer::Different {
            return false;
        }
        if self.answers[value.position()] == Answer::Uniform {
            return true;
        }
        let is_uniform = self.definitions.unguarded(function, value).is_some_and(|inst| self.instruction(function, inst, depth - 1));
        self.answers[value.position()] = if is_uniform { Answer::Uniform } else { Answer::Different };
        is_uniform
    }

    fn instruction(&mut self, function: &Function, inst: Inst, depth: usize) -> bool {
        let is_function_of_sources = match function.insts[inst].op {
            Op::Machine(opcode) => match opcode.properties().effect {
                Effect::None => true,
                Effect::State => opcode == Opcode::S2R,
                Effect::Reads => opcode == Opcode::LDC,
                _ => false,
            },
            Op::Pseudo(Pseudo::Copy | Pseudo::Pack) => true,
            Op::Pseudo(_) => false,
        };
        let sources: Vec<Operand> = function.sources(inst).to_vec();
        is_function_of_sources && sources.iter().all(|source| self.operand(function, source.kind, depth))
    }
}
