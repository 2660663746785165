//! Translates library functions into executable form: each instruction becomes a Rust function on bits with the indices of its operands.
//!
//! Only instructions that the library uses are supported; any other is an error that names the instruction.

use std::collections::HashMap;

use oriole_ptx::ast::{Body, Constant, Function, GuardSource, Module, Operand, Parameter, Statement};
use oriole_support::Index;

use crate::mufu::Mufu;
use crate::operations::{Operation, operation};

/// A translated function of the library.
pub struct Program {
    steps: Vec<Step>,
    registers: usize,
    parameters: Vec<usize>,
    result: usize,
}

/// The effect of a step.
enum Action {
    Compute(Operation),
    /// Splits a 64-bit value into two registers; the index of the upper one.
    Unpack(usize),
    /// Joins two 32-bit values.
    Pack,
    /// Jumps to a step.
    Branch(usize),
    Return,
}

/// A translated instruction.
struct Step {
    /// Predicate register and whether it is negated.
    guard: Option<(usize, bool)>,
    action: Action,
    target: usize,
    sources: [Source; 3],
}

/// A source operand: a register index or a constant.
#[derive(Clone, Copy)]
enum Source {
    Register(usize),
    Value(u64),
}

/// Translates all functions of a library file, by name.
pub fn read(text: &[u8]) -> Result<HashMap<String, Program>, String> {
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    if !checked.is_valid() {
        return Err(format!("not valid PTX: {:?}", checked.diagnostics.first().map(|finding| &finding.message)));
    }
    let module = &checked.module;
    let mut programs = HashMap::new();
    for function in module.functions.iter() {
        let name = module.name(function.name).to_owned();
        let program = translate(module, function).map_err(|problem| format!("{name}: {problem}"))?;
        programs.insert(name, program);
    }
    Ok(programs)
}

fn parameter_register(body: &Body, parameter: &Parameter) -> Result<usize, String> {
    match parameter {
        Parameter::Register { declaration: Some(declaration), .. } => Ok(body.registers[*declaration].first.position()),
        _ => Err("parameters are registers".into()),
    }
}

/// Translates a function.
fn translate(module: &Module, function: &Function) -> Result<Program, String> {
    let body = function.body.as_ref().ok_or("no body")?;
    let mut labels = HashMap::new();
    let mut count = 0;
    for statement in &body.statements {
        match statement {
            Statement::Label(label) => {
                labels.insert(label.position(), count);
            }
            Statement::Instruction(_) => count += 1,
            _ => {}
        }
    }
    let mut steps = Vec::new();
    for instruction in body.instructions.iter() {
        let form = &module.forms[instruction.form];
        let head = form.modifiers.iter().fold(form.opcode.spelling().to_owned(), |head, value| head + "." + value.modifier.spelling());
        let guard = match instruction.guard {
            None => None,
            Some(guard) => match guard.source {
                GuardSource::Register(register) => Some((register.position(), guard.negated)),
                GuardSource::Special(_) => return Err("a special register as guard".into()),
            },
        };
        let step = translate_step(body, &head, body.operands_of(instruction), &labels).map_err(|problem| format!("{head}: {problem}"))?;
        steps.push(Step { guard, ..step });
    }
    let parameters = function.parameters.iter().map(|parameter| parameter_register(body, parameter)).collect::<Result<_, _>>()?;
    let result = parameter_register(body, function.returns.first().ok_or("no result")?)?;
    Ok(Program { steps, registers: body.register_count as usize, parameters, result })
}

/// Translates one instruction without its guard.
fn translate_step(body: &Body, head: &str, operands: &[Operand], labels: &HashMap<usize, usize>) -> Result<Step, String> {
    let mut step = Step { guard: None, action: Action::Return, target: 0, sources: [Source::Value(0); 3] };
    match (head, operands) {
        ("ret", []) => {}
        ("bra", [Operand::Label(label)]) => step.action = Action::Branch(labels[&label.position()]),
        ("mov.b64", [Operand::Vector(list), from]) => {
            let [Operand::Register(low), Operand::Register(high)] = body.list(*list) else {
                return Err("not a pair of registers".into());
            };
            step.target = low.position();
            step.action = Action::Unpack(high.position());
            step.sources[0] = source(body, from)?;
        }
        ("mov.b64", [Operand::Register(to), Operand::Vector(list)]) => {
            let [low, high] = body.list(*list) else { return Err("not a pair".into()) };
            step.target = to.position();
            step.action = Action::Pack;
            step.sources = [source(body, low)?, source(body, high)?, Source::Value(0)];
        }
        (_, [Operand::Register(to), from @ ..]) if from.len() <= 3 => {
            step.target = to.position();
            step.action = Action::Compute(operation(head).ok_or("not an instruction the library may use")?);
            for (place, operand) in step.sources.iter_mut().zip(from) {
                *place = source(body, operand)?;
            }
        }
        _ => return Err("unexpected operands".into()),
    }
    Ok(step)
}

fn source(body: &Body, operand: &Operand) -> Result<Source, String> {
    Ok(match operand {
        Operand::Register(register) => Source::Register(register.position()),
        Operand::Integer(value) => Source::Value(i64::from(*value) as u64),
        Operand::Constant(id) => match body.constants[*id] {
            Constant::Integer(value, _) => Source::Value(value as u64),
            Constant::Single(bits) => Source::Value(u64::from(bits)),
            Constant::Double(bits) => Source::Value(bits),
            Constant::Decimal(_) => return Err("floats are written in hexadecimal here".into()),
        },
        _ => return Err("unexpected operand".into()),
    })
}

impl Program {
    /// Runs the function. Registers start with arbitrary values, so that a read before a write gives a wrong result.
    pub fn run(&self, mufu: &Mufu, arguments: &[u64], scratch: &mut Vec<u64>) -> u64 {
        scratch.clear();
        scratch.resize(self.registers, 0xdead_beef_cafe_f00d);
        for (&register, &argument) in self.parameters.iter().zip(arguments) {
            scratch[register] = argument;
        }
        let mut position = 0;
        loop {
            let step = &self.steps[position];
            position += 1;
            if let Some((register, negated)) = step.guard
                && (scratch[register] & 1 == 1) == negated
            {
                continue;
            }
            let value = |source: Source| match source {
                Source::Register(register) => scratch[register],
                Source::Value(value) => value,
            };
            let [a, b, c] = step.sources.map(value);
            match step.action {
                Action::Compute(operation) => scratch[step.target] = operation(mufu, a, b, c),
                Action::Unpack(high) => {
                    scratch[step.target] = a & 0xffff_ffff;
                    scratch[high] = a >> 32;
                }
                Action::Pack => scratch[step.target] = a & 0xffff_ffff | b << 32,
                Action::Branch(target) => position = target,
                Action::Return => return scratch[self.result],
            }
        }
    }
}
