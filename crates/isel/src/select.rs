//! The selection context [`Select`], and the traversal of a function's PTX statements in source order.
//!
//! A label starts a block, an unconditional jump ends one. Statements after such a jump and before the next label are unreachable; their
//! code is put into a block without predecessors.

use std::cell::RefCell;
use std::rc::Rc;

use oriole_ir::{Block, Builder, Class, Function, FunctionKind, Guard, Location, Operand, OperandKind, Target, Value};
use oriole_ptx::ast::{self, Body, FunctionId, GuardSource, LabelId, Module, RegisterDeclarationId, RegisterId, Statement, VariableId};
use oriole_ptx::types::ScalarType;
use oriole_support::{Architecture, Index};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::caches::SelectCaches;
use crate::calls;
use crate::dispatch;
use crate::elected::Elected;
use crate::error::Unsupported;
use crate::integer::Carry;
use crate::parameters::{TouchedWords, Words};
use crate::ptx::Ptx;
use crate::runtime;
use crate::tensor::TensorMemoryUse;
use crate::texture::Invariants;
use crate::variables::VariableLayout;

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
    /// Positions of `setmaxnreg`, which has no effect on the code.
    pub ignored_register_counts: Vec<Location>,
    /// Offset of the local variables in the stack frame, in bytes.
    pub locals_start: u32,
    /// The variable of each PTX register that is used.
    pub registers: FxHashMap<RegisterId, Value>,
}

/// State kept for one function body: that of the function being selected, or that of a library function inlined into it.
pub(crate) struct Frame<'m> {
    pub module: &'m Module,
    pub body: &'m Body,
    /// The variable of each PTX register, created at the first use. The elements of a vector register have consecutive value numbers.
    registers: FxHashMap<RegisterId, Value>,
    /// The block of each label, created at the first use.
    pub(crate) labels: Vec<Option<Block>>,
    /// The block that `ret` jumps to in an inlined function; `None` in the function being selected.
    pub exit: Option<Block>,
    /// The variable that holds the PTX carry flag.
    pub carry: Carry,
}

impl<'m> Frame<'m> {
    pub(crate) fn new(module: &'m Module, body: &'m Body, exit: Option<Block>) -> Frame<'m> {
        Frame { module, body, registers: FxHashMap::default(), labels: vec![None; body.labels.len()], exit, carry: Carry::default() }
    }
}

/// A set of strings that keeps the order of insertion.
#[derive(Default)]
pub(crate) struct OrderedNames {
    names: Vec<String>,
    known: FxHashSet<String>,
}

impl OrderedNames {
    /// Adds `name` unless the set already contains it.
    pub fn add(&mut self, name: String) {
        if !self.known.contains(&name) {
            self.known.insert(name.clone());
            self.names.push(name);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The context that handlers work on: the state of selecting one function.
pub struct Select<'m> {
    /// Appends instructions to the current block.
    pub b: Builder,
    /// The GPU to compile for.
    pub target: Target,
    /// What is known from functions that were selected before.
    pub(crate) caches: RefCell<&'m mut SelectCaches>,
    /// Locations of the variables.
    pub variables: &'m VariableLayout,
    /// The settings of the caller.
    pub(crate) options: SelectOptions,
    /// The body being traversed.
    pub(crate) frame: Frame<'m>,
    /// Whether the function is a kernel (`.entry`).
    pub(crate) is_kernel: bool,
    /// Highest number of a named barrier used so far, plus one.
    pub(crate) barriers: u32,
    /// Names of the functions called directly so far.
    pub(crate) callees: OrderedNames,
    /// Prototype strings of the indirect calls so far.
    pub(crate) indirect_calls: OrderedNames,
    pub(crate) ignored_register_counts: Vec<Location>,
    /// What the function does with tensor memory so far.
    pub(crate) tensor_memory: TensorMemoryUse,
    /// Names of the functions whose address has been taken so far.
    pub(crate) taken_functions: OrderedNames,
    /// The 32-bit words of each `.param` variable that is kept in registers: parameters of this function, and arguments and results of its
    /// calls.
    pub(crate) parameters: FxHashMap<VariableId, Rc<Words>>,
    /// The words of `.param` variables that some instruction accesses; the other words need no variable.
    pub(crate) touched_words: TouchedWords,
    /// The 32-bit words of each `.reg` parameter.
    pub(crate) register_words: FxHashMap<RegisterDeclarationId, Vec<Value>>,
    /// Offset from the stack pointer, in bytes, of each parameter whose address is taken and which therefore lives in the frame.
    pub(crate) parameter_slots: FxHashMap<VariableId, u32>,
    /// The parameter that holds variable arguments, and its offset from the caller's stack pointer in bytes.
    pub(crate) variadic_parameter: Option<(VariableId, u32)>,
    /// Offset of the buffer for results returned in memory, in bytes from the stack pointer. Stack arguments of calls are below it.
    pub(crate) result_buffer: u32,
    /// Offset of the local variables, in bytes from the stack pointer.
    pub(crate) locals_start: u32,
    /// Whether `alloca`, `stacksave` or `stackrestore` is used.
    pub(crate) has_dynamic_stack: bool,
    /// The variable that holds the current end of the stack, if the stack has no fixed size; created at the first use.
    pub(crate) dynamic_stack: Option<Value>,
    /// The block that returns from a device function; created at the first `ret`.
    pub(crate) return_block: Option<Block>,
    /// The descriptor for global memory, loaded in the entry block at the first use.
    pub(crate) descriptor: Option<Value>,
    /// Start address of this thread block's shared memory, computed in the entry block at the first use.
    pub(crate) shared_start: Option<Value>,
    /// Blocks that are rarely executed; they are moved to the end of the function.
    pub(crate) unlikely: Vec<Block>,
    /// The runtime function that an operation calls for its slow path, if it calls one, by the name of its library function.
    pub(crate) slow_paths: FxHashMap<String, Option<&'static str>>,
    /// The statements of the function that at most one thread of a warp executes at a time.
    elected: Elected,
    /// Whether at most one thread of a warp executes the current instruction at a time.
    pub(crate) is_elected: bool,
    /// The registers that have the same value in all threads of a warp; computed at the first texture or surface instruction.
    pub(crate) invariants: Option<Invariants>,
    /// Whether the current block has ended with an unconditional jump, so that the next instruction is unreachable unless a block starts.
    ended: bool,
}

/// Selects the function `id`, which must have a body. Returns every unsupported construct found, not only the first.
pub fn select_function(module: &Module, id: FunctionId, target: Target, variables: &VariableLayout) -> Result<Selected, Vec<Unsupported>> {
    select_function_with(&mut SelectCaches::new(target), module, id, variables, SelectOptions::default())
}

/// Settings of the caller that change the selected code.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SelectOptions {
    /// Whether every exit waits until errors of earlier memory accesses have been reported.
    pub waits_for_errors: bool,
    /// Whether accesses to global memory have no descriptor, so that they need no uniform registers.
    pub without_descriptors: bool,
    /// Whether operations that occur repeatedly call one function for their slow paths, instead of a copy of the slow path for each.
    pub calls_slow_paths: bool,
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
        frame: Frame::new(module, body, None),
        is_kernel,
        barriers: 0,
        callees: OrderedNames::default(),
        indirect_calls: OrderedNames::default(),
        ignored_register_counts: Vec::new(),
        tensor_memory: TensorMemoryUse::default(),
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

    /// Returns the variable of a register, or of one element of a vector register. Creates the variables of all elements at the first use.
    pub fn variable(&mut self, register: RegisterId, element: u8) -> Value {
        if let Some(&first) = self.frame.registers.get(&register) {
            return Value::new(first.position() + usize::from(element));
        }
        let declaration = self.frame.body.declaration_of(register);
        let (ty, lanes) = (declaration.ty, declaration.lanes.max(1));
        let first = self.b.value(class_of(ty));
        for _ in 1..lanes {
            self.b.value(class_of(ty));
        }
        self.frame.registers.insert(register, first);
        Value::new(first.position() + usize::from(element))
    }

    /// Returns the block that starts at a label. Creates the block at the first use.
    pub fn label(&mut self, label: LabelId) -> Block {
        if let Some(block) = self.frame.labels[label.position()] {
            return block;
        }
        let block = self.b.new_block();
        self.frame.labels[label.position()] = Some(block);
        block
    }

    /// Ends the current block with a branch to the label's block, if it has not ended yet, and continues in that block.
    fn start_label(&mut self, label: LabelId) {
        let block = self.label(label);
        if !self.ended {
            self.b.branch(None, block);
        }
        self.start(block);
    }

    /// Makes `block` the current block, to which code is appended.
    pub fn start(&mut self, block: Block) {
        self.b.start(block);
        self.ended = false;
    }

    /// Marks the current block as ended: code emitted next is unreachable unless [`Select::start`] is called first.
    pub fn end_block(&mut self) {
        self.ended = true;
    }

    /// Emits a jump to `target`. If a guard is in force, the jump is conditional and the code continues in a new block.
    pub fn jump(&mut self, target: Block) {
        match self.b.guard {
            None => {
                self.b.branch(None, target);
                self.end_block();
            }
            Some(guard) => self.jump_if(guard, target),
        }
    }

    /// Emits a jump to `target` that is taken where `condition` holds. The code continues in a new block.
    pub fn jump_if(&mut self, condition: Guard, target: Block) {
        let next = self.b.new_block();
        self.b.branch(Some(condition), target);
        self.b.branch(None, next);
        self.start(next);
    }

    /// Calls `write`, which may emit control flow, with no guard in force. If a guard is in force, emits a branch around that code first.
    /// Needed because a guard on straight-line instructions cannot cover several blocks.
    pub fn branch_around<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        let Some(guard) = self.b.guard.take() else { return write(self) };
        let after = self.b.new_block();
        self.jump_if(Guard { negated: !guard.negated, ..guard }, after);
        let result = write(self);
        if !self.ended {
            self.b.branch(None, after);
        }
        self.start(after);
        self.b.guard = Some(guard);
        result
    }

    /// Converts a predicate operand, possibly inverted, into a guard.
    pub fn condition(&self, predicate: Operand) -> Guard {
        Guard { kind: predicate.kind, negated: predicate.signs.has(oriole_ir::Signs::NOT) }
    }

    /// Returns whether the target has an encoding for an instruction, given in the syntax of nvdisasm.
    pub fn encodes(&self, text: &str) -> bool {
        self.caches.borrow_mut().encodes(text)
    }

    /// Returns the error that the PTX instruction is not supported, with the opcode and modifiers in the message.
    pub fn unsupported<T>(&self, ptx: &Ptx<'_>) -> Result<T, Unsupported> {
        Err(Unsupported::new(spelling(ptx)))
    }
}

/// Returns the opcode and modifiers of an instruction as PTX spells them.
fn spelling(ptx: &Ptx<'_>) -> String {
    // An opcode such as `cvt.pack` contains a modifier; the list of modifiers has it too.
    let mut text = ptx.opcode().spelling().split('.').next().unwrap_or_default().to_owned();
    for value in &ptx.form.modifiers {
        text.push('.');
        text.push_str(value.modifier.spelling());
    }
    text
}

/// Returns the register class that holds a value of a PTX type.
pub fn class_of(ty: ScalarType) -> Class {
    match ty {
        ScalarType::Pred => Class::P,
        _ => match ty.bits() {
            0..=32 => Class::R,
            33..=64 => Class::R2,
            _ => Class::R4,
        },
    }
}
