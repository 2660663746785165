//! The machine registers that hold PTX registers, for debuggers.
//!
//! DWARF describes a variable in a PTX register by the name of the register. Two sections map each PTX register to the machine registers
//! that hold it, by address range: `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`.
//!
//! [`definitions`] finds the machine instructions that compute the assigned values, after selection. [`ranges`] tracks their results
//! through the final code, including moves. A machine register holds a PTX register at a point only if it does so on every path to that
//! point. For example, after
//!
//! ```text
//!     R5 = MOV RZ         mov.u32 %r1, 0;
//! loop:
//!     R5 = IADD3 R5, 1    add.u32 %r1, %r1, 1;
//!     @P0 BRA loop
//! ```
//!
//! `R5` holds `%r1` at `loop`, because both definitions that reach it write to `R5`.
//!
//! In unoptimized code for debuggers a PTX register may have any number of definitions. Optimized code has copies of instructions in
//! unrolled loops and deleted copies, so there only PTX registers with exactly one assignment are listed.

use std::collections::BTreeSet;

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, RegFile, Signs, Symbol, Value};
use oriole_isa::INSTRUCTION_BYTES;
use oriole_ptx::ast::{Body, Module, RegisterId};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::convention;
use crate::emit::Code;

/// A 32-bit word of a PTX register, and the instruction result that holds its value.
#[derive(Clone, Copy, Debug)]
pub struct WordDefinition {
    register: RegisterId,
    /// Index of the word in the PTX register; 0 for the lowest.
    word: u8,
    /// The instruction that computes the value.
    inst: Inst,
    /// Index of the result among the results of the instruction.
    result: usize,
    /// The value that is the result.
    value: Value,
    /// Index of the first word in the result of the defining instruction.
    first: u8,
}

/// A range of addresses in which a machine register holds a word of a PTX register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRange {
    /// The PTX register.
    pub register: RegisterId,
    /// Index of the 32-bit word in the PTX register; 0 for the lowest.
    pub word: u8,
    /// The file of the machine register.
    pub file: RegFile,
    /// The number of the machine register in its file.
    pub number: u16,
    /// Start of the range, as a byte offset in the function.
    pub start: u32,
    /// End of the range, exclusive, as a byte offset in the function.
    pub end: u32,
}

/// Returns the name of a PTX register.
pub fn register_name(module: &Module, body: &Body, register: RegisterId) -> String {
    let declaration = body.declaration_of(register);
    let mut name = module.name(declaration.name).to_owned();
    if declaration.count.is_some() {
        name += &(register.position() - declaration.first.position()).to_string();
    }
    name
}

/// Maximum number of copies and packs between an assignment and the instruction that computes the value.
const MOST_STEPS: usize = 16;
/// Maximum total number of entries in the states of the analysis. Functions that need more have no ranges.
const MOST_ENTRIES: usize = 1 << 26;

/// The definition of each value; `None` for values with several definitions.
type Sites = FxHashMap<Value, Option<Site>>;

/// A definition of a value: the instruction, and the index of the value among the results of the instruction.
#[derive(Clone, Copy)]
struct Site {
    inst: Inst,
    result: usize,
}

/// Returns the definitions of PTX registers. `registers` maps each PTX register to its value in the IR. The function is not in SSA form yet.
///
/// `has_all_assignments` says that no later pass copies or deletes instructions and that a machine instruction marks each assignment
/// ([`super::assignments`]). Then PTX registers with several assignments are listed, otherwise only those with exactly one.
pub fn definitions(function: &Function, registers: &FxHashMap<RegisterId, Value>, has_all_assignments: bool) -> Vec<WordDefinition> {
    let flow = ControlFlow::compute(function);
    let mut sites = Sites::default();
    let mut all: FxHashMap<Value, Vec<Site>> = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for (result, operand) in function.results(inst).iter().enumerate() {
                let OperandKind::Value(part) = operand.kind else { continue };
                let site = Site { inst, result };
                sites.entry(part.value).and_modify(|site| *site = None).or_insert(Some(site));
                if flow.is_reachable(block) {
                    all.entry(part.value).or_default().push(site);
                }
            }
        }
    }
    let mut sorted: Vec<(RegisterId, Value)> = registers.iter().map(|(&register, &value)| (register, value)).collect();
    sorted.sort_unstable_by_key(|&(register, _)| register.position());
    let mut found = Vec::new();
    for (register, variable) in sorted {
        let assignments = all.get(&variable).map_or(&[][..], Vec::as_slice);
        if assignments.len() > 1 && !has_all_assignments {
            continue;
        }
        for word in 0..function.values[variable].width {
            let define = |&site: &Site| {
                let definition = trace(function, &sites, site, variable, word)?;
                let is_marked = function.insts[definition.0].location.statement == function.insts[site.inst].location.statement;
                let (inst, result, value, first) = Some(definition).filter(|_| is_marked || !has_all_assignments)?;
                Some(WordDefinition { register, word, inst, result, value, first })
            };
            // Without one of the definitions the others would seem to be valid after it.
            let words: Option<Vec<WordDefinition>> = assignments.iter().map(define).collect();
            found.extend(words.into_iter().flatten());
        }
    }
    found
}

/// Returns the instruction that computes a word of a value, the index of the result among its results, the result, and the index of the
/// word in the result. `site` is the definition of the value. Looks through copies and packs. `None` if it is not found.
fn trace(function: &Function, sites: &Sites, mut site: Site, mut value: Value, mut word: u8) -> Option<(Inst, usize, Value, u8)> {
    for _ in 0..MOST_STEPS {
        let Site { inst, result } = site;
        let data = &function.insts[inst];
        if data.guard.is_some() {
            return None;
        }
        let source = match data.op {
            Op::Pseudo(Pseudo::Copy) => function.sources(inst).get(result).map(|source| (source, word)),
            Op::Pseudo(Pseudo::Pack) => packed_word(function.sources(inst), word),
            Op::Pseudo(Pseudo::Entry) | Op::Machine(_) => return Some((inst, result, value, word)),
            Op::Pseudo(_) => None,
        };
        let (&Operand { kind: OperandKind::Value(part), signs, suffixes, .. }, at) = source? else { return None };
        if signs != Signs::default() || suffixes.iter().any(|&suffix| suffix != Symbol::NAME_) {
            return None;
        }
        (value, word) = (part.value, part.first + at);
        site = (*sites.get(&value)?)?;
    }
    None
}

/// Returns the source of a `PACK` that contains word `word` of its result, and the index of the word in that source.
fn packed_word(sources: &[Operand], mut word: u8) -> Option<(&Operand, u8)> {
    for source in sources {
        let count = match source.kind {
            OperandKind::Value(part) => part.count,
            _ => 1,
        };
        if word < count {
            return Some((source, word));
        }
        word -= count;
    }
    None
}

/// Removes the words of PTX registers of which a definition no longer computes the value. Called before registers are allocated.
pub fn retain_valid(function: &Function, definitions: &mut Vec<WordDefinition>) {
    let is_valid = |definition: &WordDefinition| {
        let result = function.results(definition.inst).get(definition.result);
        result.is_some_and(|operand| matches!(operand.kind, OperandKind::Value(part) if part.value == definition.value))
    };
    let word_of = |definition: &WordDefinition| (definition.register, definition.word);
    let lost: FxHashSet<(RegisterId, u8)> = definitions.iter().filter(|definition| !is_valid(definition)).map(word_of).collect();
    definitions.retain(|definition| !lost.contains(&word_of(definition)));
}

/// Returns the ranges in which machine registers hold PTX registers. The function has physical registers and its final order.
pub fn ranges(function: &Function, definitions: &[WordDefinition]) -> Vec<RegisterRange> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let analysis = Availability::new(function, definitions);
    analysis.collect_ranges(function, &analysis.solve(function))
}

/// Number of entries of a [`State`]: general registers, then predicates.
const REGISTERS: usize = FIRST_PREDICATE + 8;
const FIRST_PREDICATE: usize = 256;

/// Returns the index of a register in a [`State`]; `None` for files other than general registers and predicates.
fn slot(file: RegFile, number: u16) -> Option<usize> {
    match file {
        RegFile::General => Some(usize::from(number)).filter(|&slot| slot < FIRST_PREDICATE),
        RegFile::Predicate => Some(FIRST_PREDICATE + usize::from(number)).filter(|&slot| slot < REGISTERS),
        _ => None,
    }
}

/// A word of a result: the instruction, the index of the result among its results, and the index of the word in the result.
type ResultWord = (Inst, usize, u8);

/// The number of a word of a PTX register, counted from 0 in the order of the definitions.
type WordNumber = u32;

/// For each machine register, the words of PTX registers that it holds, in ascending order.
type State = Vec<Vec<WordNumber>>;

/// The machine registers that hold something and what they hold, in ascending order: a [`State`] in compact form.
type Pairs = Vec<(u16, WordNumber)>;

/// A forward must-analysis: which words of PTX registers the machine registers hold on all paths.
struct Availability {
    /// The PTX register and the word in it, by number.
    words: Vec<(RegisterId, u8)>,
    /// The words that a result is assigned to.
    assigned: FxHashMap<ResultWord, Vec<WordNumber>>,
    /// The instructions that define parameters.
    entries: Vec<Inst>,
}

impl Availability {
    fn new(function: &Function, definitions: &[WordDefinition]) -> Availability {
        let mut analysis = Availability { words: Vec::new(), assigned: FxHashMap::default(), entries: Vec::new() };
        for definition in definitions {
            let word = (definition.register, definition.word);
            if analysis.words.last() != Some(&word) {
                analysis.words.push(word);
            }
            let number = analysis.words.len() as WordNumber - 1;
            analysis.assigned.entry((definition.inst, definition.result, definition.first)).or_default().push(number);
            if function.insts[definition.inst].is(Pseudo::Entry) && !analysis.entries.contains(&definition.inst) {
                analysis.entries.push(definition.inst);
            }
        }
        analysis
    }

    /// Updates the state after an instruction.
    fn step(&self, function: &Function, inst: Inst, state: &mut State) {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::CALL) {
            let is_kept = |slot: usize| slot < FIRST_PREDICATE && convention::is_callee_saved(slot as u16);
            (0..REGISTERS).filter(|&slot| !is_kept(slot)).for_each(|slot| state[slot].clear());
        }
        let copied = copied_register(function, inst).map(|slot| state[slot].clone()).unwrap_or_default();
        self.write_results(function, inst, state, copied);
    }

    /// Forgets the old contents of the results of an instruction, and records the new ones: the words that the instruction defines, and
    /// those that it copies from another register (`copied`). Nothing is recorded if a guard may prevent the write. Other registers that
    /// hold a word defined here are forgotten: they have its old value, for example that of the previous iteration of a loop.
    fn write_results(&self, function: &Function, inst: Inst, state: &mut State, mut copied: Vec<WordNumber>) {
        let is_certain = function.insts[inst].guard.is_none();
        for (result, operand) in function.results(inst).iter().enumerate() {
            let OperandKind::Register { file, first, count } = operand.kind else { continue };
            for word in 0..count {
                let Some(slot) = slot(file, first + u16::from(word)) else { continue };
                let mut held = std::mem::take(&mut copied);
                if let Some(defined) = self.assigned.get(&(inst, result, word)) {
                    held.extend(defined);
                    held.sort_unstable();
                    held.dedup();
                    state.iter_mut().for_each(|held| held.retain(|number| !defined.contains(number)));
                }
                state[slot] = if is_certain { held } else { Vec::new() };
            }
        }
    }

    /// Returns the state at the start of the function, where registers hold parameters.
    fn at_entry(&self, function: &Function) -> State {
        let mut state = empty();
        self.entries.iter().for_each(|&inst| self.write_results(function, inst, &mut state, Vec::new()));
        state
    }

    /// Returns the state at the start of each block; `None` for unreachable blocks and if the states are too large.
    fn solve(&self, function: &Function) -> Vec<Option<Pairs>> {
        let next = following_blocks(function);
        let mut place = vec![0; function.blocks.len()];
        function.layout.iter().enumerate().for_each(|(at, block)| place[block.position()] = at);
        let mut starts: Vec<Option<Pairs>> = vec![None; function.blocks.len()];
        let mut entries = 0;
        starts[function.entry().position()] = Some(compact(&self.at_entry(function)));
        let mut pending: BTreeSet<usize> = BTreeSet::from([place[function.entry().position()]]);
        while let Some(at) = pending.pop_first() {
            let block = function.layout[at];
            let Some(start) = &starts[block.position()] else { continue };
            let mut state = expand(start);
            function.blocks[block].insts.iter().for_each(|&inst| self.step(function, inst, &mut state));
            let end = compact(&state);
            for &next in &next[block.position()] {
                let changed = match &mut starts[next.position()] {
                    Some(known) => {
                        let before = known.len();
                        known.retain(|pair| end.binary_search(pair).is_ok());
                        known.len() < before
                    }
                    empty => {
                        entries += end.len();
                        *empty = Some(end.clone());
                        true
                    }
                };
                if changed {
                    pending.insert(place[next.position()]);
                }
            }
            if entries > MOST_ENTRIES {
                return vec![None; function.blocks.len()];
            }
        }
        starts
    }

    /// Walks over the code and collects the ranges of all words.
    fn collect_ranges(&self, function: &Function, starts: &[Option<Pairs>]) -> Vec<RegisterRange> {
        // For each machine register, the words that it holds and the offsets since which it does.
        let mut current: Vec<Vec<(WordNumber, u32)>> = vec![Vec::new(); REGISTERS];
        let mut list: Vec<RegisterRange> = Vec::new();
        let mut note = |state: &State, offset: u32| {
            for slot in 0..REGISTERS {
                let (held, open) = (&state[slot], &mut current[slot]);
                if held.len() == open.len() && held.iter().zip(open.iter()).all(|(number, entry)| *number == entry.0) {
                    continue;
                }
                for &(number, start) in open.iter().filter(|(number, start)| *start < offset && !held.contains(number)) {
                    list.push(self.range(number, slot, start, offset));
                }
                let since = |number: WordNumber| open.iter().find(|entry| entry.0 == number).map_or(offset, |entry| entry.1);
                *open = held.iter().map(|&number| (number, since(number))).collect();
            }
        };
        let mut offset = 0;
        for &block in function.layout.iter().filter(|block| !function.blocks[**block].insts.is_empty()) {
            let mut state = starts[block.position()].as_ref().map_or_else(empty, expand);
            note(&state, offset);
            for &inst in &function.blocks[block].insts {
                self.step(function, inst, &mut state);
                offset += INSTRUCTION_BYTES as u32;
                note(&state, offset);
            }
        }
        note(&empty(), offset);
        list.sort_unstable_by_key(|range| (range.register.position(), range.word, range.start, range.number));
        list
    }

    /// Returns the range in which the machine register at `slot` holds a word.
    fn range(&self, number: WordNumber, slot: usize, start: u32, end: u32) -> RegisterRange {
        let (file, number_in_file) = match slot.checked_sub(FIRST_PREDICATE) {
            Some(predicate) => (RegFile::Predicate, predicate as u16),
            None => (RegFile::General, slot as u16),
        };
        let (register, word) = self.words[number as usize];
        RegisterRange { register, word, file, number: number_in_file, start, end }
    }
}

/// Returns the state in which no register holds anything.
fn empty() -> State {
    vec![Vec::new(); REGISTERS]
}

fn compact(state: &State) -> Pairs {
    let pairs = |(slot, held): (usize, &Vec<WordNumber>)| held.iter().map(|&number| (slot as u16, number)).collect::<Vec<_>>();
    state.iter().enumerate().flat_map(pairs).collect()
}

fn expand(pairs: &Pairs) -> State {
    let mut state = empty();
    pairs.iter().for_each(|&(slot, number)| state[usize::from(slot)].push(number));
    state
}

/// Returns the index in a [`State`] of the register that a plain move copies; `None` for other instructions.
fn copied_register(function: &Function, inst: Inst) -> Option<usize> {
    let data = &function.insts[inst];
    match function.sources(inst) {
        [source] if data.is_machine(Opcode::MOV) && data.guard.is_none() && source.signs == Signs::default() => match source.kind {
            OperandKind::Register { file, first, count: 1 } => slot(file, first),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the successors of each block, by block index. Branches to the next block of the layout have been removed, so a block without an
/// unconditional jump at its end continues with the next one.
fn following_blocks(function: &Function) -> Vec<Vec<Block>> {
    let flow = ControlFlow::compute(function);
    let mut next: Vec<Vec<Block>> = vec![Vec::new(); function.blocks.len()];
    for (position, &block) in function.layout.iter().enumerate() {
        let list = &mut next[block.position()];
        list.extend(flow.successors(block));
        let leaves = |inst: &Inst| {
            let data = &function.insts[*inst];
            data.guard.is_none() && [Opcode::BRA, Opcode::EXIT, Opcode::RET, Opcode::BRX].iter().any(|&opcode| data.is_machine(opcode))
        };
        if !function.blocks[block].insts.last().is_some_and(leaves) {
            list.extend(function.layout.get(position + 1));
        }
    }
    next
}

/// The contents of the two sections that map PTX registers to machine registers and to types.
#[derive(Default)]
pub struct RegisterTables {
    /// Contents of `.nv_debug_info_reg_sass`.
    pub ranges: Vec<u8>,
    /// Contents of `.nv_debug_info_reg_type`.
    pub types: Vec<u8>,
}

impl RegisterTables {
    /// Appends the ranges of a function.
    pub fn push(&mut self, function: &str, module: &Module, body: &Body, code: &Code) {
        let mut ranges = with_aliases(one_register_each(&code.register_ranges), code);
        ranges.retain(|range| body.declaration_of(range.register).lanes == 1);
        if ranges.is_empty() {
            return;
        }
        for table in [&mut self.ranges, &mut self.types] {
            table.extend(function.bytes());
            table.push(0);
            table.extend((ranges.len() as u32).to_le_bytes());
        }
        for range in &ranges {
            let declaration = body.declaration_of(range.register);
            let name = register_name(module, body, range.register);
            self.ranges.extend(u32::from(range.word).to_le_bytes());
            self.ranges.extend(name.bytes());
            self.ranges.push(0);
            for field in [register_code(range, declaration.ty), range.start, range.end] {
                self.ranges.extend(field.to_le_bytes());
            }
            self.types.push(type_code(declaration.ty));
        }
    }
}

/// Returns ranges of which no two of the same word overlap, as in the tables of ptxas. `ranges` is sorted by PTX register, word and start. A
/// machine register is named as long as it holds the word, then the one that holds it longest.
fn one_register_each(ranges: &[RegisterRange]) -> Vec<RegisterRange> {
    let mut chosen: Vec<RegisterRange> = Vec::new();
    for of_word in ranges.chunk_by(|one, next| (one.register, one.word) == (next.register, next.word)) {
        let mut later = of_word.iter().peekable();
        let mut longest: Option<&RegisterRange> = None;
        let mut offset = 0;
        loop {
            while let Some(range) = later.next_if(|range| range.start <= offset) {
                longest = longest.filter(|known| known.end >= range.end).or(Some(range));
            }
            match (longest.filter(|range| range.end > offset), later.peek()) {
                (Some(range), _) => {
                    chosen.push(RegisterRange { start: offset, ..range.clone() });
                    offset = range.end;
                }
                (None, Some(range)) => offset = range.start,
                (None, None) => break,
            }
        }
    }
    chosen
}

/// Returns the ranges, with those of another PTX register at the statements where location lists name the wrong one. No two ranges of a word
/// overlap, before and after.
fn with_aliases(ranges: Vec<RegisterRange>, code: &Code) -> Vec<RegisterRange> {
    let mut statements: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for &(offset, location) in &code.locations {
        statements.entry(location.statement).or_default().push(offset);
    }
    // The named registers, each with the offset of an instruction.
    let mut aliased: FxHashSet<(RegisterId, u32)> = FxHashSet::default();
    for alias in &code.register_aliases {
        aliased.extend(statements.get(&alias.statement).into_iter().flatten().map(|&offset| (alias.named, offset)));
    }
    if aliased.is_empty() {
        return ranges;
    }
    let instruction = INSTRUCTION_BYTES as u32;
    let mut by_register: FxHashMap<RegisterId, Vec<&RegisterRange>> = FxHashMap::default();
    for range in &ranges {
        by_register.entry(range.register).or_default().push(range);
    }
    let named: FxHashSet<RegisterId> = code.register_aliases.iter().map(|alias| alias.named).collect();
    let mut list: Vec<RegisterRange> = Vec::new();
    for range in &ranges {
        if !named.contains(&range.register) {
            list.push(range.clone());
            continue;
        }
        let own = (range.start..range.end).step_by(INSTRUCTION_BYTES).filter(|&start| !aliased.contains(&(range.register, start)));
        list.extend(own.map(|start| RegisterRange { start, end: start + instruction, ..range.clone() }));
    }
    for alias in &code.register_aliases {
        for &start in statements.get(&alias.statement).into_iter().flatten() {
            let held = by_register.get(&alias.holder).into_iter().flatten();
            let here = held.filter(|range| range.start <= start && start < range.end);
            list.extend(here.map(|&range| RegisterRange { register: alias.named, start, end: start + instruction, ..range.clone() }));
        }
    }
    list.sort_unstable_by_key(|range| (range.register.position(), range.word, range.start));
    list.dedup_by(|next, range| {
        let continues = (next.register, next.word, next.file, next.number) == (range.register, range.word, range.file, range.number);
        let joins = continues && next.start == range.end;
        if joins {
            range.end = next.end;
        }
        joins
    });
    list
}

/// Returns the encoding of a machine register in `.nv_debug_info_reg_sass`: its class in the top byte, and its number. For types of at most
/// 16 bits, the number counts half registers.
fn register_code(range: &RegisterRange, ty: ScalarType) -> u32 {
    const PREDICATE: u32 = 2 << 24;
    const HALF: u32 = 4 << 24;
    const WORD: u32 = 5 << 24;
    let number = u32::from(range.number);
    match type_code(ty) {
        _ if range.file == RegFile::Predicate => PREDICATE | number,
        0 | 1 | 4 | 5 | 8 | 9 | 0xc => HALF | (2 * number),
        _ => WORD | number,
    }
}

/// Returns the encoding of a type in `.nv_debug_info_reg_type`. Types without an encoding of their own are encoded as untyped bits.
fn type_code(ty: ScalarType) -> u8 {
    use ScalarType::{B8, B16, B64, B128, F16, F16x2, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U32, U64};
    match ty {
        B8 => 0,
        B16 => 1,
        B64 => 3,
        U8 => 4,
        U16 => 5,
        U32 => 6,
        U64 => 7,
        S8 => 8,
        S16 => 9,
        S32 => 0xa,
        S64 => 0xb,
        F16 => 0xc,
        F16x2 => 0xd,
        F32 => 0xe,
        F64 => 0xf,
        Pred => 0x10,
        B128 => 0x11,
        _ => 2,
    }
}
