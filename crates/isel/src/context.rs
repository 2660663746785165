//! The selection context [`Select`]: the state of selecting one function, and the emission of code and control flow.

use std::cell::RefCell;
use std::rc::Rc;

use oriole_ir::{Block, Builder, Class, Guard, Location, Operand, Target, Value};
use oriole_ptx::ast::{Body, LabelId, Module, RegisterDeclarationId, RegisterId, VariableId};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::caches::SelectCaches;
use crate::elected::Elected;
use crate::error::Unsupported;
use crate::parameter_words::{TouchedWords, Words};
use crate::ptx::Ptx;
use crate::tensor::TensorMemoryUse;
use crate::texture::Invariants;
use crate::variable_layout::VariableLayout;

/// State kept for one function body: that of the function being selected, or that of a library function inlined into it.
pub(crate) struct BodyState<'m> {
    pub module: &'m Module,
    pub body: &'m Body,
    /// The variable of each PTX register, created at the first use. The elements of a vector register have consecutive value numbers.
    pub(crate) registers: FxHashMap<RegisterId, Value>,
    /// The block of each label, created at the first use.
    pub(crate) labels: Vec<Option<Block>>,
    /// The block that `ret` jumps to in an inlined function; `None` in the function being selected.
    pub exit: Option<Block>,
    /// The variable that holds the PTX carry flag; `None` until the flag is first used.
    pub carry_flag: Option<Value>,
}

impl<'m> BodyState<'m> {
    pub(crate) fn new(module: &'m Module, body: &'m Body, exit: Option<Block>) -> BodyState<'m> {
        BodyState { module, body, registers: FxHashMap::default(), labels: vec![None; body.labels.len()], exit, carry_flag: None }
    }
}

/// A set of strings that keeps the order of insertion.
#[derive(Default)]
pub(crate) struct OrderedNames {
    pub(crate) names: Vec<String>,
    pub(crate) known: FxHashSet<String>,
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
    pub(crate) frame: BodyState<'m>,
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
    /// As [`Selected::reads_reserved_shared`](crate::Selected::reads_reserved_shared).
    pub(crate) reads_reserved_shared: bool,
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
    pub(crate) elected: Elected,
    /// Whether at most one thread of a warp executes the current instruction at a time.
    pub(crate) is_elected: bool,
    /// The registers that have the same value in all threads of a warp; computed at the first texture or surface instruction.
    pub(crate) invariants: Option<Invariants>,
    /// Whether the current block has ended with an unconditional jump, so that the next instruction is unreachable unless a block starts.
    pub(crate) ended: bool,
}

/// Settings of the caller that change the selected code.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SelectOptions {
    /// Whether `setmaxnreg` changes the number of registers; otherwise it is ignored.
    pub follows_register_counts: bool,
    /// Whether every exit waits until errors of earlier memory accesses have been reported.
    pub waits_for_errors: bool,
    /// Whether accesses to global memory have no descriptor, so that they need no uniform registers.
    pub without_descriptors: bool,
    /// Whether operations that occur repeatedly call one function for their slow paths, instead of a copy of the slow path for each.
    pub calls_slow_paths: bool,
    /// Whether shared variables start at address 0 instead of after the part that the system reserves.
    pub without_shared_reservation: bool,
}

impl<'m> Select<'m> {
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
pub(crate) fn spelling(ptx: &Ptx<'_>) -> String {
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
