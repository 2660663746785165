//! The selection context [`Select`], and the traversal of a function's PTX statements in source order.
//!
//! A label starts a block, an unconditional jump ends one. Statements after such a jump and before the next label are unreachable; their
//! code is put into a block without predecessors.

use std::cell::RefCell;

use oriole_ir::{Block, Builder, Function, FunctionKind, Guard, Location, OperandKind, Target, Value};
use oriole_ptx::ast::{self, FunctionId, GuardSource, LabelId, Module, RegisterId, Statement};
use oriole_support::Architecture;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::caches::SelectCaches;
use crate::calls;
use crate::context::{BodyState, OrderedNames, Select, SelectOptions};
use crate::dispatch;
use crate::elected::Elected;
use crate::error::Unsupported;
use crate::parameter_words::TouchedWords;
use crate::ptx::Ptx;
use crate::runtime;
use crate::tensor::TensorMemoryUse;
use crate::variable_layout::VariableLayout;

/// Number of instructions that selection makes of one PTX instruction in a typical function, copies and phis included.
const TYPICAL_EXPANSION: usize = 3;

/// The result of selecting one function.
pub struct Selected {
    /// The function in Ori, before SSA construction.
    pub function: Function,
    /// Highest number of a named barrier used, plus one; 16 if a barrier number is only known at run time.
    pub barriers: u32,
    /// Names of the functions that are called directly, each once, in the order of the first call.
    pub callees: Vec<String>,
    /// Prototype strings of the indirect calls, each once ([`crate::prototype`]).
    pub indirect_calls: Vec<String>,
    /// Names of the functions whose address is taken, each once.
    pub taken_functions: Vec<String>,
    /// Whether the function uses `alloca`, `stacksave` or `stackrestore`, so that the size of its stack is only known at run time.
    pub has_dynamic_stack: bool,
    /// What the function does with tensor memory.
    pub tensor_memory: TensorMemoryUse,
    /// Whether the function reads special registers about the shared memory that the system reserves.
    pub reads_reserved_shared: bool,
    /// Positions of `setmaxnreg` instructions that are ignored.
    pub ignored_register_counts: Vec<Location>,
    /// Offset of the local variables in the stack frame, in bytes.
    pub locals_start: u32,
    /// The variable of each PTX register that is used.
    pub registers: FxHashMap<RegisterId, Value>,
}

/// Selects the function `id`, which must have a body. Returns every unsupported construct found, not only the first.
pub fn select_function(module: &Module, id: FunctionId, target: Target, variables: &VariableLayout) -> Result<Selected, Vec<Unsupported>> {
    select_function_with(&mut SelectCaches::new(target), module, id, variables, SelectOptions::default())
}

/// As [`select_function`], for the target of `caches`, and reuses the results that earlier functions left there.
pub fn select_function_with(
    caches: &mut SelectCaches,
    module: &Module,
    id: FunctionId,
    variables: &VariableLayout,
    options: SelectOptions,
) -> Result<Selected, Vec<Unsupported>> {
    let function = &module.functions[id];
    let Some(body) = function.body.as_deref() else { return Err(vec![Unsupported::new("a function without body")]) };
    let is_kernel = function.kind == ast::FunctionKind::Entry;
    let kind = if is_kernel { FunctionKind::Kernel } else { FunctionKind::Device };
    let mut selected = Function::new(module.name(function.name), kind);
    selected.reserve_insts(body.instructions.len() * TYPICAL_EXPANSION);
    let mut b = Builder::new(selected);
    b.templates = std::mem::take(&mut caches.templates);
    let mut select = Select {
        b,
        target: caches.target,
        caches: RefCell::new(caches),
        variables,
        options,
        frame: BodyState::new(module, body, None),
        is_kernel,
        barriers: 0,
        callees: OrderedNames::default(),
        indirect_calls: OrderedNames::default(),
        ignored_register_counts: Vec::new(),
        tensor_memory: TensorMemoryUse::default(),
        reads_reserved_shared: false,
        taken_functions: OrderedNames::default(),
        parameters: FxHashMap::default(),
        touched_words: TouchedWords::default(),
        register_words: FxHashMap::default(),
        parameter_slots: FxHashMap::default(),
        variadic_parameter: None,
        result_buffer: 0,
        locals_start: 0,
        has_dynamic_stack: false,
        dynamic_stack: None,
        return_block: None,
        descriptor: None,
        shared_start: None,
        unlikely: Vec::new(),
        slow_paths: FxHashMap::default(),
        elected: Elected::of(module, body),
        is_elected: false,
        invariants: None,
        ended: false,
    };
    // Errors that belong to no single statement are reported at the first statement.
    let start = (0..body.statements.len()).find_map(|number| body.position(number));
    let at_start = |error: Unsupported| Unsupported { span: error.span.or(start), ..error };
    calls::prepare(&mut select, id).map_err(|error| vec![at_start(error)])?;
    let mut errors = select.walk();
    if !is_kernel && let Err(error) = select.write_ends(id) {
        errors.push(at_start(error));
    }
    if variables.module.forbids_unrolling || forbid_unrolling(&function.bounds.pragmas) {
        let blocks: Vec<Block> = select.b.function.blocks.indices().collect();
        blocks.into_iter().for_each(|block| select.b.function.blocks[block].no_unroll = true);
    }
    select.caches.borrow_mut().templates = std::mem::take(&mut select.b.templates);
    if errors.is_empty() { Ok(select.finish()) } else { Err(errors) }
}

/// Returns whether one of the pragmas is `nounroll`.
pub(crate) fn forbid_unrolling(pragmas: &[Box<str>]) -> bool {
    pragmas.iter().any(|pragma| &**pragma == "nounroll")
}

impl<'m> Select<'m> {
    /// Selects every statement of the current body. Continues after an unsupported instruction, and returns all errors.
    pub(crate) fn walk(&mut self) -> Vec<Unsupported> {
        let body = self.frame.body;
        let mut errors = Vec::new();
        let mut line = 0;
        for (number, statement) in body.statements.iter().enumerate() {
            match *statement {
                Statement::Label(label) => self.start_label(label),
                Statement::Location(position) => line = position + 1,
                // The directive concerns the loop that the current block is the header of.
                Statement::Pragma(number) if &*body.pragmas[number as usize] == "nounroll" => {
                    let block = self.b.block();
                    self.b.function.blocks[block].no_unroll = true;
                }
                Statement::Instruction(id) => {
                    let span = body.position(number);
                    // Instructions of an inlined library function keep the location of the PTX instruction that they implement.
                    if self.frame.exit.is_none() {
                        self.b.location = Location { statement: span.map_or(0, |span| span.start + 1), line };
                        self.is_elected = self.elected.holds(number, &body.instructions[id]);
                    }
                    if let Err(mut error) = self.instruction(&body.instructions[id]) {
                        error.span = error.span.or(span);
                        errors.push(error);
                    }
                }
                _ => {}
            }
        }
        if !self.ended {
            self.leave();
        }
        errors
    }

    /// Moves unlikely blocks to the end and collects the results.
    fn finish(mut self) -> Selected {
        let unlikely: FxHashSet<Block> = self.unlikely.iter().copied().collect();
        self.b.function.layout.retain(|block| !unlikely.contains(block));
        self.b.function.layout.append(&mut self.unlikely);
        Selected {
            // A runtime function reports no barriers; its callers report the ones that it may use.
            barriers: if runtime::is_runtime(&self.b.function.name) { 0 } else { self.barriers },
            function: self.b.function,
            callees: self.callees.names,
            indirect_calls: self.indirect_calls.names,
            taken_functions: self.taken_functions.names,
            has_dynamic_stack: self.has_dynamic_stack,
            ignored_register_counts: self.ignored_register_counts,
            tensor_memory: self.tensor_memory,
            reads_reserved_shared: self.reads_reserved_shared,
            locals_start: self.locals_start,
            registers: self.frame.registers,
        }
    }

    /// Selects one PTX instruction under its guard. Code after an unconditional jump starts a new, unreachable block.
    pub(crate) fn instruction(&mut self, instruction: &'m ast::Instruction) -> Result<(), Unsupported> {
        if self.ended {
            let unreachable = self.b.new_block();
            self.start(unreachable);
        }
        let module = self.frame.module;
        let flushes = module.target.architecture() == Architecture::Tesla;
        let ptx = Ptx { form: &module.forms[instruction.form], operands: self.frame.body.operands_of(instruction), flushes };
        let guard = match instruction.guard {
            None => None,
            Some(guard) => Some(self.guard(guard)?),
        };
        // Two guards cannot be combined. This is no problem, because `expand` branches around a guarded library call, so no guard is in
        // force there.
        let saved = self.b.guard;
        self.b.guard = guard.or(saved);
        let result = dispatch::select(self, &ptx);
        self.b.guard = saved;
        result
    }

    /// Converts a PTX guard.
    fn guard(&mut self, guard: ast::PtxGuard) -> Result<Guard, Unsupported> {
        let kind = match guard.source {
            GuardSource::Register(register) => {
                let value = self.variable(register, 0);
                OperandKind::Value(self.b.function.whole(value))
            }
            GuardSource::Special(special) => self.special_predicate(special)?.kind,
        };
        Ok(Guard { kind, negated: guard.negated })
    }

    /// Ends the current block with a branch to the label's block, if it has not ended yet, and continues in that block.
    fn start_label(&mut self, label: LabelId) {
        let block = self.label(label);
        if !self.ended {
            self.b.branch(None, block);
        }
        self.start(block);
    }
}
