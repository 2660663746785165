//! Builder that appends instructions to the blocks of a function.
//!
//! The builder holds the current block, the guard that every new instruction receives, and the current source location. It owns the
//! function while the function is being built.

use std::sync::Arc;

use oriole_isa::{Opcode, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::function::Function;
use crate::ids::{Block, Inst, Location, Value};
use crate::instruction::{Op, Pseudo};
use crate::memory::MemoryAccess;
use crate::operand::{Class, Guard, Operand, OperandKind, Part, Role, Signs};
use crate::template::{Template, TemplateSlot};

/// Builds a function.
pub struct Builder {
    /// The function built so far.
    pub function: Function,
    /// The guard of new instructions; `None` for no guard.
    pub guard: Option<Guard>,
    /// The source location of new instructions.
    pub location: Location,
    /// The current block.
    block: Block,
    /// The position of each name in the function's list of symbols.
    symbols: FxHashMap<String, u32>,
    /// The templates parsed so far.
    pub templates: TemplateCache,
}

impl Builder {
    /// Creates a builder and the entry block of the function.
    pub fn new(mut function: Function) -> Builder {
        let block = function.new_block();
        function.layout.push(block);
        let symbols = function.symbols.iter().cloned().zip(0..).collect();
        Builder { function, guard: None, location: Location::default(), block, symbols, templates: TemplateCache::default() }
    }

    /// Returns the current block, to which instructions are appended.
    pub fn block(&self) -> Block {
        self.block
    }

    /// Creates a block that is not in the layout yet.
    pub fn new_block(&mut self) -> Block {
        self.function.new_block()
    }

    /// Appends a block to the layout and makes it the current block.
    pub fn start(&mut self, block: Block) {
        self.function.layout.push(block);
        self.block = block;
    }

    /// Returns the position of a name in the list of symbols; adds the name if it is missing. Constant time on average.
    pub fn symbol(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.symbols.get(name) {
            return known;
        }
        let position = if self.symbols.len() == self.function.symbols.len() {
            self.function.symbols.push(name.to_owned());
            self.function.symbols.len() as u32 - 1
        } else {
            self.function.symbol(name)
        };
        self.symbols.insert(name.to_owned(), position);
        position
    }

    /// Creates a value.
    pub fn value(&mut self, class: Class) -> Value {
        self.function.new_value(class)
    }

    /// Returns an operand that stands for all registers of a value.
    pub fn whole(&self, value: Value) -> Operand {
        self.function.whole(value).into()
    }

    /// Returns an operand that stands for `count` registers of a value, starting at register `first` of the value.
    pub fn part(&self, value: Value, first: u8, count: u8) -> Operand {
        Part { value, first, count }.into()
    }

    /// Appends an instruction without results, or whose results are among the arguments.
    pub fn emit(&mut self, template: &str, arguments: &[Operand]) -> Inst {
        self.instantiate(template, &[], arguments).0
    }

    /// Appends an instruction with one result, a new value of `class`; returns the result.
    pub fn define(&mut self, class: Class, template: &str, arguments: &[Operand]) -> Operand {
        let (_, results) = self.instantiate(template, &[class], arguments);
        self.whole(results[0])
    }

    /// Appends an instruction with two results, new values of `classes`; returns the results.
    pub fn define_two(&mut self, classes: [Class; 2], template: &str, arguments: &[Operand]) -> (Operand, Operand) {
        let (_, results) = self.instantiate(template, &classes, arguments);
        (self.whole(results[0]), self.whole(results[1]))
    }

    /// Appends an instruction with any number of results, new values of `classes`; returns the results.
    pub fn define_all(&mut self, classes: &[Class], template: &str, arguments: &[Operand]) -> Vec<Operand> {
        let (_, results) = self.instantiate(template, classes, arguments);
        results.iter().map(|&result| self.whole(result)).collect()
    }

    /// Attaches the description of its memory access to the instruction appended last.
    pub fn describe(&mut self, access: MemoryAccess) {
        let id = self.function.accesses.push(access);
        let last = self.function.blocks[self.block].insts.last().copied();
        self.function.insts[last.expect("an instruction was written")].memory = Some(id);
    }

    /// Lets the instruction appended last, a floating-point product or sum, be rounded together with another one.
    pub fn allow_contraction(&mut self) {
        let last = self.function.blocks[self.block].insts.last().copied();
        self.function.insts[last.expect("an instruction was written")].may_contract = true;
    }

    /// Appends a copy to an existing value (a variable), which keeps its old content in threads where the guard does not hold.
    pub fn assign(&mut self, destination: Value, source: Operand) -> Inst {
        let whole = self.whole(destination);
        let tied = whole.with_role(Role::Tied(0));
        let operands = [whole, source, tied];
        let count = if self.guard.is_some() { 3 } else { 2 };
        self.append(Op::Pseudo(Pseudo::Copy), Symbols::new(), &operands[..count], 1)
    }

    /// Appends a `PACK` of operands into one new value; returns the value.
    pub fn pack(&mut self, class: Class, parts: &[Operand]) -> Operand {
        let value = self.value(class);
        let whole = self.whole(value);
        let operands: SmallVec<[Operand; 8]> = std::iter::once(whole).chain(parts.iter().copied()).collect();
        self.append(Op::Pseudo(Pseudo::Pack), Symbols::new(), &operands, 1);
        whole
    }

    /// Appends an instruction given by its components.
    pub fn append(&mut self, op: Op, modifiers: Symbols, operands: &[Operand], result_count: usize) -> Inst {
        let inst = self.function.new_inst(op, modifiers, self.guard, operands, result_count);
        self.place(inst)
    }

    /// Makes `block`, which is already in the layout, the current block; returns the previous one.
    pub fn swap_block(&mut self, block: Block) -> Block {
        std::mem::replace(&mut self.block, block)
    }

    /// Calls `write` to insert instructions without guard at the start of the entry block. The current block and guard do not change.
    pub fn at_entry(&mut self, write: impl FnOnce(&mut Builder)) {
        let entry = self.function.entry();
        let existing = std::mem::take(&mut self.function.blocks[entry].insts);
        // The code serves the whole function, so it has no location of its own.
        let (block, guard, location) = (self.block, self.guard.take(), std::mem::take(&mut self.location));
        self.block = entry;
        write(self);
        (self.block, self.guard, self.location) = (block, guard, location);
        self.function.blocks[entry].insts.extend(existing);
    }

    /// Appends a branch to a block, conditional if `condition` is given.
    pub fn branch(&mut self, condition: Option<Guard>, target: Block) -> Inst {
        let saved = std::mem::replace(&mut self.guard, condition);
        let inst = self.append(Op::Machine(Opcode::BRA), Symbols::new(), &[target.into()], 0);
        self.guard = saved;
        inst
    }

    /// Appends an instance of a template; returns the instruction and the new values.
    fn instantiate(&mut self, text: &str, classes: &[Class], arguments: &[Operand]) -> (Inst, SmallVec<[Value; 2]>) {
        let template = self.templates.parsed(text);
        let mut results: SmallVec<[Value; 2]> = SmallVec::new();
        let mut arguments = arguments.iter();
        let mut classes = classes.iter();
        let function = &mut self.function;
        let first = function.operands.len();
        for slot in &template.operands {
            let operand = match slot {
                TemplateSlot::Given(operand) => *operand,
                TemplateSlot::Result(operand) => {
                    let class = classes.next().unwrap_or_else(|| panic!("template `{text}` has more results than classes"));
                    let value = function.new_value(*class);
                    results.push(value);
                    Operand { kind: OperandKind::Value(function.whole(value)), ..*operand }
                }
                TemplateSlot::Argument(place) => {
                    let argument = arguments.next().unwrap_or_else(|| panic!("template `{text}` needs more arguments"));
                    merged(template.opcode, *place, *argument)
                }
                TemplateSlot::ConstantOffset(bank, place) => {
                    let offset = arguments.next().and_then(Operand::integer).unwrap_or_else(|| panic!("template `{text}` needs an offset"));
                    Operand { kind: OperandKind::Constant { bank: *bank, offset: offset as u32 }, ..*place }
                }
            };
            function.operands.push(operand);
        }
        assert!(arguments.next().is_none() && classes.next().is_none(), "template `{text}` does not take all arguments");
        let result_count = written_count(function, template.opcode, &function.operands[first..]);
        // The results are arguments, so they are variables: under a guard they must keep their old content, hence the tied operands.
        if self.guard.is_some() && results.is_empty() {
            for number in 0..result_count {
                let result = function.operands[first + number];
                if result.value().is_some() {
                    function.operands.push(result.with_role(Role::Tied(number as u8)));
                }
            }
        }
        let modifiers = Symbols::from_slice(&template.modifiers);
        let inst = function.inst_of_last(Op::Machine(template.opcode), modifiers, self.guard, first, result_count);
        (self.place(inst), results)
    }

    /// Appends an instruction to the current block and gives it the current location.
    fn place(&mut self, inst: Inst) -> Inst {
        self.function.insts[inst].location = self.location;
        self.function.blocks[self.block].insts.push(inst);
        inst
    }
}

/// Size limit of the template cache. All functions use the same few hundred templates; only unusual inputs reach the limit.
const MOST_TEMPLATES: usize = 1 << 14;

/// Templates that were parsed before, by their text. Builders of several functions may use one cache after the other.
#[derive(Default)]
pub struct TemplateCache {
    templates: FxHashMap<Box<str>, Arc<Template>>,
}

impl TemplateCache {
    /// Returns the parsed form of a template.
    fn parsed(&mut self, text: &str) -> Arc<Template> {
        if let Some(known) = self.templates.get(text) {
            return Arc::clone(known);
        }
        let template = Template::parse(text).unwrap_or_else(|error| panic!("template `{text}`: {error}"));
        if self.templates.len() == MOST_TEMPLATES {
            self.templates.clear();
        }
        let template = Arc::new(template);
        self.templates.insert(text.into(), Arc::clone(&template));
        template
    }
}

/// Puts an argument into a hole of a template: combines the signs of both, and folds signs into an immediate.
fn merged(opcode: Opcode, place: Operand, argument: Operand) -> Operand {
    let signs = if place.signs.has(Signs::ABSOLUTE) { place.signs } else { argument.signs.toggled(place.signs) };
    let suffixes = if place.suffixes[0] == oriole_isa::Symbol::NAME_ { argument.suffixes } else { place.suffixes };
    Operand { kind: argument.kind, role: place.role, signs, suffixes }.with_signs_folded(opcode)
}

/// Returns the number of leading operands that a machine instruction writes.
pub(crate) fn written_count(function: &Function, opcode: Opcode, operands: &[Operand]) -> usize {
    let mut at = 0;
    for leading in opcode.properties().leading {
        let file = operands.get(at).and_then(|operand| match operand.kind {
            OperandKind::Value(part) => Some(function.values[part.value].file),
            OperandKind::Register { file, .. } | OperandKind::Zero(file) => Some(file),
            _ => None,
        });
        if file.is_some_and(|file| leading.files.contains(&file)) {
            if !leading.written {
                return at;
            }
            at += 1;
        }
    }
    at
}
