//! The context of selection, and the walk over a function's statements.

use std::cell::RefCell;
use std::rc::Rc;

use oriole_ir::{Block, Builder, Class, Function, FunctionKind, Guard, Location, Operand, OperandKind, Target, Value};
use oriole_ptx::ast::{self, Body, FunctionId, GuardSource, LabelId, Module, RegisterDeclarationId, RegisterId, Statement, VariableId};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls;
use crate::dispatch;
use crate::error::Unsupported;
use crate::integer::Carry;
use crate::layout::is_opaque;
use crate::parameters::{TouchedWords, Words, parameter_variable};
use crate::ptx::Ptx;
use crate::runtime;
use crate::variables::Homes;

/// A function after selection.
pub struct Selected {
    /// The code.
    pub function: Function,
    /// Highest number of a named barrier plus one; 16 if one is known at run time only.
    pub barriers: u32,
    /// Names of the functions it calls.
    pub callees: Vec<String>,
    /// Prototypes of the functions it calls through pointers.
    pub indirect_calls: Vec<String>,
    /// Names of the functions whose addresses it takes.
    pub taken_functions: Vec<String>,
    /// Whether its stack has no fixed size.
    pub has_dynamic_stack: bool,
}

/// One function body being read: the function itself, or a library function inlined into it.
pub(crate) struct Frame<'m> {
    pub module: &'m Module,
    pub body: &'m Body,
    /// The variable of each register, made when it is first mentioned; elements of vector registers follow one another.
    registers: FxHashMap<RegisterId, Value>,
    labels: Vec<Option<Block>>,
    /// Where `ret` goes, in an inlined function.
    pub exit: Option<Block>,
    /// The carry flag.
    pub carry: Carry,
}

impl<'m> Frame<'m> {
    pub(crate) fn new(module: &'m Module, body: &'m Body, exit: Option<Block>) -> Frame<'m> {
        Frame { module, body, registers: FxHashMap::default(), labels: vec![None; body.labels.len()], exit, carry: Carry::default() }
    }
}

/// Texts in the order in which they were first mentioned.
#[derive(Default)]
pub(crate) struct Mentioned {
    names: Vec<String>,
    known: FxHashSet<String>,
}

impl Mentioned {
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

/// Selection of one function.
pub struct Select<'m> {
    /// Writes the code.
    pub b: Builder,
    /// What it is compiled for.
    pub target: Target,
    /// Where variables live.
    pub homes: &'m Homes,
    pub(crate) frame: Frame<'m>,
    pub(crate) is_kernel: bool,
    pub(crate) barriers: u32,
    pub(crate) callees: Mentioned,
    pub(crate) indirect_calls: Mentioned,
    pub(crate) taken_functions: Mentioned,
    /// `.param` variables of functions and calls, word by word.
    pub(crate) parameters: FxHashMap<VariableId, Rc<Words>>,
    /// Which words of them exist.
    pub(crate) touched_words: TouchedWords,
    /// The same for `.reg` parameters.
    pub(crate) register_words: FxHashMap<RegisterDeclarationId, Vec<Value>>,
    /// Parameters in the frame: offset from the stack pointer.
    pub(crate) parameter_slots: FxHashMap<VariableId, u32>,
    /// Variable arguments: offset from the caller's stack pointer.
    pub(crate) open_parameter: Option<(VariableId, u32)>,
    /// Where in the frame results in memory go; parameters of calls are below.
    pub(crate) result_buffer: u32,
    /// Where in the frame variables start.
    pub(crate) locals_start: u32,
    /// Whether `alloca` and its like are used.
    pub(crate) has_dynamic_stack: bool,
    /// The end of the stack, where it has no fixed size.
    pub(crate) dynamic_stack: Option<Value>,
    /// The end of a function that is called.
    pub(crate) return_block: Option<Block>,
    /// The descriptor for global memory, loaded where it is first needed in the entry block.
    pub(crate) descriptor: Option<Value>,
    /// Where this block's shared memory starts, worked out likewise.
    pub(crate) shared_start: Option<Value>,
    /// Blocks that are rarely reached, which go behind all others.
    pub(crate) unlikely: Vec<Block>,
    /// Whether the current block has ended.
    ended: bool,
}

thread_local! {
    /// Answers of [`Select::encodes`], as long as the thread lives: handlers ask for a handful of instructions.
    static ENCODINGS: RefCell<FxHashMap<Target, FxHashMap<String, bool>>> = RefCell::default();
}

/// Selects one function with a body.
pub fn select_function(module: &Module, id: FunctionId, target: Target, homes: &Homes) -> Result<Selected, Vec<Unsupported>> {
    let function = &module.functions[id];
    let Some(body) = function.body.as_deref() else { return Err(vec![Unsupported::new("a function without body")]) };
    let is_kernel = function.kind == ast::FunctionKind::Entry;
    let kind = if is_kernel { FunctionKind::Kernel } else { FunctionKind::Device };
    let mut select = Select {
        b: Builder::new(Function::new(module.name(function.name), kind)),
        target,
        homes,
        frame: Frame::new(module, body, None),
        is_kernel,
        barriers: 0,
        callees: Mentioned::default(),
        indirect_calls: Mentioned::default(),
        taken_functions: Mentioned::default(),
        parameters: FxHashMap::default(),
        touched_words: TouchedWords::default(),
        register_words: FxHashMap::default(),
        parameter_slots: FxHashMap::default(),
        open_parameter: None,
        result_buffer: 0,
        locals_start: 0,
        has_dynamic_stack: false,
        dynamic_stack: None,
        return_block: None,
        descriptor: None,
        shared_start: None,
        unlikely: Vec::new(),
        ended: false,
    };
    // What is no single statement's fault is reported at the first one.
    let start = (0..body.statements.len()).find_map(|number| body.position(number));
    let at_start = |error: Unsupported| Unsupported { span: error.span.or(start), ..error };
    if let Some(name) = opaque_parameter(module, id) {
        return Err(vec![at_start(Unsupported::new(format!("the texture, sampler or surface {name} as a parameter")))]);
    }
    calls::prepare(&mut select, id).map_err(|error| vec![at_start(error)])?;
    let mut errors = select.walk();
    if !is_kernel && let Err(error) = select.write_ends(id) {
        errors.push(at_start(error));
    }
    if errors.is_empty() { Ok(select.finish()) } else { Err(errors) }
}

/// The name of a parameter that is a texture, sampler or surface.
fn opaque_parameter(module: &Module, id: FunctionId) -> Option<&str> {
    let mut variables = module.functions[id].parameters.iter().filter_map(parameter_variable).map(|id| &module.variables[id]);
    variables.find(|variable| is_opaque(variable)).map(|variable| module.name(variable.name))
}

impl<'m> Select<'m> {
    /// Reads every statement of the current body, and goes on after errors.
    pub(crate) fn walk(&mut self) -> Vec<Unsupported> {
        let body = self.frame.body;
        let mut errors = Vec::new();
        let mut line = 0;
        for (number, statement) in body.statements.iter().enumerate() {
            match *statement {
                Statement::Label(label) => self.start_label(label),
                Statement::Location(position) => line = position + 1,
                Statement::Instruction(id) => {
                    let span = body.position(number);
                    if self.frame.exit.is_none() {
                        self.b.location = Location { statement: span.map_or(0, |span| span.start + 1), line };
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

    fn finish(mut self) -> Selected {
        self.b.function.layout.retain(|block| !self.unlikely.contains(block));
        self.b.function.layout.append(&mut self.unlikely);
        Selected {
            // Whoever calls a function of the runtime says which barriers that may use.
            barriers: if runtime::is_runtime(&self.b.function.name) { 0 } else { self.barriers },
            function: self.b.function,
            callees: self.callees.names,
            indirect_calls: self.indirect_calls.names,
            taken_functions: self.taken_functions.names,
            has_dynamic_stack: self.has_dynamic_stack,
        }
    }

    pub(crate) fn instruction(&mut self, instruction: &'m ast::Instruction) -> Result<(), Unsupported> {
        if self.ended {
            let unreachable = self.b.new_block();
            self.start(unreachable);
        }
        let ptx = Ptx { form: &self.frame.module.forms[instruction.form], operands: self.frame.body.operands_of(instruction) };
        let guard = match instruction.guard {
            None => None,
            Some(guard) => Some(self.guard(guard)?),
        };
        // An inlined function's own guard cannot be combined with that of the instruction it stands for: `expand` branches then.
        let saved = self.b.guard;
        self.b.guard = guard.or(saved);
        let result = dispatch::select(self, &ptx);
        self.b.guard = saved;
        result
    }

    fn guard(&mut self, guard: ast::Guard) -> Result<Guard, Unsupported> {
        let kind = match guard.source {
            GuardSource::Register(register) => {
                let value = self.variable(register, 0);
                OperandKind::Value(self.b.function.whole(value))
            }
            GuardSource::Special(special) => self.special_predicate(special)?.kind,
        };
        Ok(Guard { kind, negated: guard.negated })
    }

    /// The variable of a register or of one element of a vector register.
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

    /// The block a label stands for.
    pub fn label(&mut self, label: LabelId) -> Block {
        if let Some(block) = self.frame.labels[label.position()] {
            return block;
        }
        let block = self.b.new_block();
        self.frame.labels[label.position()] = Some(block);
        block
    }

    fn start_label(&mut self, label: LabelId) {
        let block = self.label(label);
        if !self.ended {
            self.b.branch(None, block);
        }
        self.start(block);
    }

    /// Goes on in a block.
    pub fn start(&mut self, block: Block) {
        self.b.start(block);
        self.ended = false;
    }

    /// Ends the current block: what is written next cannot be reached unless a block starts.
    pub fn end_block(&mut self) {
        self.ended = true;
    }

    /// Jumps, always or where the guard in force holds, in which case the code goes on in a new block.
    pub fn jump(&mut self, target: Block) {
        match self.b.guard {
            None => {
                self.b.branch(None, target);
                self.end_block();
            }
            Some(guard) => self.jump_if(guard, target),
        }
    }

    /// Jumps where a predicate holds and goes on in a new block elsewhere.
    pub fn jump_if(&mut self, condition: Guard, target: Block) {
        let next = self.b.new_block();
        self.b.branch(Some(condition), target);
        self.b.branch(None, next);
        self.start(next);
    }

    /// Writes something without guard that may contain control flow: where a guard is in force, it is branched around.
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

    /// The guard that a predicate operand makes.
    pub fn condition(&self, predicate: Operand) -> Guard {
        Guard { kind: predicate.kind, negated: predicate.signs.has(oriole_ir::Signs::NOT) }
    }

    /// Whether the target has an encoding for an instruction, given as text.
    pub fn encodes(&self, text: &str) -> bool {
        ENCODINGS.with_borrow_mut(|targets| {
            let answers = targets.entry(self.target).or_default();
            if let Some(&known) = answers.get(text) {
                return known;
            }
            let answer = oriole_isa::parse(text).is_ok_and(|instruction| oriole_isa::encode(&instruction, self.target).is_ok());
            answers.insert(text.to_owned(), answer);
            answer
        })
    }

    /// Refuses the instruction by name.
    pub fn unsupported<T>(&self, ptx: &Ptx<'_>) -> Result<T, Unsupported> {
        Err(Unsupported::new(spelling(ptx)))
    }
}

/// The head of an instruction as it is written.
fn spelling(ptx: &Ptx<'_>) -> String {
    // The modifiers that are part of the opcode's name stand among the modifiers too.
    let mut text = ptx.opcode().spelling().split('.').next().unwrap_or_default().to_owned();
    for value in &ptx.form.modifiers {
        text.push('.');
        text.push_str(value.modifier.spelling());
    }
    text
}

/// The registers that a PTX type lives in.
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
