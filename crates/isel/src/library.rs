//! Inlining of library functions, which are written in PTX.
//!
//! The files in `library/` contain functions for operations without a machine instruction. `Select::expand` selects the body of a function
//! at the place of use, with registers and labels of its own. Library functions take and return registers only and do not refer to each
//! other, so the build script splits the files into single functions, and a process parses a function when it first needs it.

use std::sync::Arc;
use std::sync::OnceLock;

use oriole_ir::{Class, Guard, Operand, OperandKind, Value};
use oriole_ptx::ast::{Body, Function, Module, Parameter, RegisterId, Statement};
use oriole_ptx::table::Opcode;
use oriole_support::Index;
use smallvec::SmallVec;

use crate::caches::SelectCaches;
use crate::context::{BodyState, Select, class_of};
use crate::convention::FIRST_REGISTER;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::recording::{FunctionMark, Recording, RecordingState};
use crate::runtime::SlowPath;

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// A function of the library.
#[derive(Clone, Copy)]
pub(crate) struct Routine {
    /// Its index in `LIBRARY`.
    pub number: usize,
    module: &'static Module,
    function: &'static Function,
    body: &'static Body,
}

/// Returns the library function of a name. Parses it at the first use in the process.
pub(crate) fn find(name: &str) -> Option<Routine> {
    static MODULES: [OnceLock<Module>; LIBRARY.len()] = [const { OnceLock::new() }; LIBRARY.len()];
    let number = LIBRARY.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    let module = MODULES[number].get_or_init(|| read(LIBRARY[number].1));
    let function = module.functions.iter().find(|function| function.body.is_some() && module.name(function.name) == name)?;
    Some(Routine { number, module, function, body: function.body.as_deref()? })
}

/// Parses a library function. Panics if it is not valid, which a test excludes.
fn read(text: &str) -> Module {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "a library function is not valid: {:?}\n{text}", checked.diagnostics);
    checked.module
}

/// Returns the registers of a list of parameters or results.
fn registers(body: &Body, parameters: &[Parameter]) -> Vec<RegisterId> {
    let declared = |parameter: &Parameter| match parameter {
        Parameter::Register { declaration: Some(declaration), .. } => Some(body.registers[*declaration].first),
        _ => None,
    };
    parameters.iter().filter_map(declared).collect()
}

/// Returns the position of the label at which the slow path of a body starts; `None` if it has none. All that follows is the slow path.
fn slow_path_label(module: &Module, body: &Body) -> Option<usize> {
    body.labels.iter().position(|label| module.name(label.name) == "SLOW")
}

/// Returns whether a body can be emitted under a guard: it has no branches and no guards.
fn is_straight(module: &Module, body: &Body) -> bool {
    body.statements.iter().all(|statement| match *statement {
        Statement::Label(_) => false,
        Statement::Instruction(id) => {
            let instruction = &body.instructions[id];
            instruction.guard.is_none() && module.forms[instruction.form].opcode != Opcode::Bra
        }
        _ => true,
    })
}

impl SelectCaches {
    /// Returns whether the code of the library function with this name is recorded, so that its next use without a guard copies the code.
    pub fn is_recorded(&self, name: &str) -> bool {
        find(name).is_some_and(|routine| matches!(self.recording(routine.number), RecordingState::Code(_)))
    }
}

impl<'m> Select<'m> {
    /// Emits the body of a library function, given by name without the prefix `__oriole_`, and returns its results.
    pub fn expand(&mut self, name: &str, arguments: &[Operand]) -> Result<Vec<Operand>, Unsupported> {
        let full_name = format!("__oriole_{name}");
        let Some(routine) = find(&full_name) else {
            return Err(Unsupported::new(format!("an operation that needs the library function {full_name}")));
        };
        if self.b.guard.is_some() && !is_straight(routine.module, routine.body) {
            return self.branch_around(|select| select.inline(routine, arguments));
        }
        self.inline(routine, arguments)
    }

    /// As [`Select::expand`], for the operation of a PTX instruction. If the function contains the operation repeatedly, only the fast path
    /// may be emitted for each; all call one runtime function for the slow path.
    pub(crate) fn expand_repeated(&mut self, name: &str, ptx: &Ptx<'_>, arguments: &[Operand]) -> Result<Vec<Operand>, Unsupported> {
        let slow = self.slow_path_to_call(name, ptx);
        match slow.and_then(|slow| Some((slow, find(&format!("__oriole_fast_{name}"))?))) {
            Some((slow, fast)) => self.branch_around(|select| select.inline_fast_path(fast, slow, arguments)),
            None => self.expand(name, arguments),
        }
    }

    /// Returns the name of the runtime function that an operation, given by its library function and by one instruction, calls for its slow
    /// path; `None` if the slow path is inlined.
    fn slow_path_to_call(&mut self, name: &str, ptx: &Ptx<'_>) -> Option<&'static str> {
        if !self.options.calls_slow_paths {
            return None;
        }
        if let Some(&known) = self.slow_paths.get(name) {
            return known;
        }
        let (module, body) = (self.frame.module, self.frame.body);
        let uses = || body.instructions.iter().filter(|instruction| module.forms[instruction.form] == *ptx.form).count();
        let found = SlowPath::find(name).filter(|path| path.is_worth_calling(uses())).map(|path| path.name);
        self.slow_paths.insert(name.to_owned(), found);
        found
    }

    /// Emits a fast path, which returns its result and whether the result is right, and the call of the runtime function that computes
    /// the result otherwise. Returns the result.
    fn inline_fast_path(&mut self, fast: Routine, slow: &'static str, arguments: &[Operand]) -> Result<Vec<Operand>, Unsupported> {
        let parameters = registers(fast.body, &fast.function.parameters);
        let mut copies: Vec<Operand> = Vec::new();
        for (register, argument) in parameters.into_iter().zip(arguments) {
            let variable = self.b.value(class_of(fast.body.declaration_of(register).ty));
            self.copy_to(variable, *argument);
            copies.push(self.b.whole(variable));
        }
        let results = self.inline(fast, &copies)?;
        let (result, is_right) = (results[0], results[1]);
        let [apart, after] = [(); 2].map(|()| self.b.new_block());
        let condition = self.condition(is_right);
        self.b.branch(Some(Guard { negated: !condition.negated, ..condition }), apart);
        self.b.branch(None, after);

        self.start(apart);
        let words: Vec<Operand> = copies.iter().flat_map(|&copy| self.words_of(copy)).collect();
        let placed: Vec<(u8, Operand)> = (FIRST_REGISTER..).zip(words).collect();
        let registers: Vec<u8> = (FIRST_REGISTER..).take(self.words_of(result).len()).collect();
        self.callees.add(slow.to_owned());
        let computed = self.call_by_name(slow, false, &placed, &registers);
        let computed = if computed.len() == 2 { self.b.pack(Class::R2, &computed) } else { computed[0] };
        if let Some(variable) = result.value() {
            self.b.assign(variable, computed);
        }
        self.b.branch(None, after);
        self.unlikely.push(apart);

        self.start(after);
        Ok(vec![result])
    }

    /// Returns the 32-bit words of a value of one or two words.
    fn words_of(&self, operand: Operand) -> Vec<Operand> {
        let width = operand.value().map_or(1, |value| self.b.function.values[value].width);
        (0..width).map(|word| if width == 1 { operand } else { self.register_of(operand, word) }).collect()
    }

    /// Emits the body: copies the recording if there is one, otherwise selects the body and records it at its second use.
    fn inline(&mut self, routine: Routine, arguments: &[Operand]) -> Result<Vec<Operand>, Unsupported> {
        // Under a guard the code is different, so no recording is used or made.
        let known = if self.b.guard.is_some() { RecordingState::Nothing } else { self.caches.borrow().recording(routine.number) };
        if let RecordingState::Code(code) = known {
            return Ok(self.write_again(&code, arguments));
        }
        let Routine { number, module, function, body } = routine;
        let after = (!is_straight(module, body)).then(|| self.b.new_block());
        let exit = after.unwrap_or_else(|| Index::new(0));
        let outer = std::mem::replace(&mut self.frame, BodyState::new(module, body, Some(exit)));
        let mut variables = Vec::new();
        for (register, argument) in registers(body, &function.parameters).into_iter().zip(arguments) {
            let variable = self.variable(register, 0);
            self.copy_to(variable, *argument);
            variables.push(variable);
        }
        let mark = FunctionMark::of(&self.b);
        let errors = self.walk_library(after.is_some());
        let slow = slow_path_label(module, body).and_then(|label| self.frame.labels[label]);
        let slow_from = slow.and_then(|slow| mark.own_blocks(&self.b.function).iter().position(|&block| block == slow));
        self.mark_unlikely(&mark, slow_from);
        let results = registers(body, &function.returns).into_iter().map(|register| self.variable(register, 0)).collect::<Vec<_>>();
        self.frame = outer;
        if let Some(error) = errors.into_iter().next() {
            if let Some(after) = after {
                self.start(after);
            }
            return Err(Unsupported { span: None, ..error });
        }
        if self.b.guard.is_none() {
            let code = match known {
                RecordingState::Nothing => None,
                _ => Recording::new(&self.b.function, &mark, &variables, &results, (after, slow_from)),
            };
            let state = code.map_or(RecordingState::UsedOnce, |code| RecordingState::Code(Arc::new(code)));
            self.caches.borrow_mut().set_recording(number, state);
        }
        if let Some(after) = after {
            self.start(after);
        }
        Ok(results.into_iter().map(|value| self.b.whole(value)).collect())
    }

    /// Emits a recorded body.
    fn write_again(&mut self, code: &Recording, arguments: &[Operand]) -> Vec<Operand> {
        let after = code.has_branches.then(|| self.b.new_block());
        let mut variables: SmallVec<[Value; 4]> = SmallVec::new();
        for (&class, argument) in code.arguments.iter().zip(arguments) {
            let variable = self.b.value(class);
            self.copy_to(variable, *argument);
            variables.push(variable);
        }
        let mark = FunctionMark::of(&self.b);
        let results = code.write(&mut self.b, &variables, after);
        self.mark_unlikely(&mark, code.slow_from);
        if let Some(after) = after {
            self.start(after);
        }
        results.into_iter().map(|value| self.b.whole(value)).collect()
    }

    /// Marks the slow path of the body that was emitted since `mark` as unlikely: its blocks from the index `slow_from` on.
    fn mark_unlikely(&mut self, mark: &FunctionMark, slow_from: Option<usize>) {
        let blocks = mark.own_blocks(&self.b.function);
        self.unlikely.extend(slow_from.into_iter().flat_map(|first| blocks[first..].iter().copied()));
    }

    /// Selects the statements of a library function. In a body without branches the `ret` at the end is skipped.
    fn walk_library(&mut self, has_branches: bool) -> Vec<Unsupported> {
        if has_branches {
            return self.walk();
        }
        let body = self.frame.body;
        let mut errors = Vec::new();
        for statement in &body.statements {
            if let Statement::Instruction(id) = *statement {
                let instruction = &body.instructions[id];
                if self.frame.module.forms[instruction.form].opcode != Opcode::Ret
                    && let Err(error) = self.instruction(instruction)
                {
                    errors.push(error);
                }
            }
        }
        errors
    }

    /// Assigns a value to an argument variable of the body, unguarded. The operand's signs are applied by a move.
    pub(crate) fn copy_to(&mut self, variable: Value, value: Operand) {
        let is_plain = matches!(value.kind, OperandKind::Value(_)) && value.signs.is_empty();
        let width = self.b.function.values[variable].width;
        let source = if is_plain || width > 1 { value } else { self.b.define(Class::R, "MOV $, {}", &[value]) };
        let saved = self.b.guard.take();
        self.b.assign(variable, source);
        self.b.guard = saved;
    }
}

#[cfg(test)]
mod tests {
    use super::{LIBRARY, Routine, find};

    #[test]
    fn every_function_is_valid_and_found_by_its_name() {
        assert!(LIBRARY.len() > 50, "the library has {} functions", LIBRARY.len());
        assert!(LIBRARY.is_sorted_by_key(|(name, _)| *name));
        for (name, text) in LIBRARY {
            let Routine { module, function, .. } = find(name).unwrap_or_else(|| panic!("{name} is not found"));
            assert_eq!(module.functions.iter().count(), 1, "{text}");
            assert_eq!(module.name(function.name), *name);
        }
        assert!(find("__oriole_nothing").is_none());
    }
}
