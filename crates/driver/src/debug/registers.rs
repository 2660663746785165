//! The machine registers that hold PTX registers, for debuggers.
//!
//! DWARF describes a variable in a PTX register by the name of the register. Two sections map each PTX register to the machine registers
//! that hold it, by address range: `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`.
//!
//! Only PTX registers with exactly one assignment are listed. Such a register is found wherever a machine register still holds the result
//! of the machine instruction that computes the assigned value. [`definitions`] finds these instructions after selection. [`ranges`] tracks
//! their results through the final code, including moves. A machine register holds a result at a point only if it does so on every path to
//! that point.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, RegFile, Signs, Symbol, Value};
use oriole_isa::INSTRUCTION_BYTES;
use oriole_ptx::ast::{Body, Module, RegisterId};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::convention;

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
    /// Index of the word in the result.
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

/// Returns the definitions of all PTX registers with exactly one assignment. `registers` maps each PTX register to its value in the IR. The
/// function is not in SSA form yet.
pub fn definitions(function: &Function, registers: &FxHashMap<RegisterId, Value>) -> Vec<WordDefinition> {
    let mut sites: FxHashMap<Value, Option<(Inst, usize)>> = FxHashMap::default();
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        for (result, operand) in function.results(inst).iter().enumerate() {
            if let OperandKind::Value(part) = operand.kind {
                sites.entry(part.value).and_modify(|site| *site = None).or_insert(Some((inst, result)));
            }
        }
    }
    let mut sorted: Vec<(RegisterId, Value)> = registers.iter().map(|(&register, &value)| (register, value)).collect();
    sorted.sort_unstable_by_key(|&(register, _)| register.position());
    let mut found = Vec::new();
    for (register, variable) in sorted {
        for word in 0..function.values[variable].width {
            let site = trace(function, &sites, variable, word);
            found.extend(site.map(|(inst, result, value, first)| WordDefinition { register, word, inst, result, value, first }));
        }
    }
    found
}

/// Returns the instruction that computes a word of a value, the index of the result among its results, the result, and the index of the
/// word in the result. Looks through copies and packs. `None` if it is not found.
fn trace(
    function: &Function,
    sites: &FxHashMap<Value, Option<(Inst, usize)>>,
    mut value: Value,
    mut word: u8,
) -> Option<(Inst, usize, Value, u8)> {
    for _ in 0..MOST_STEPS {
        let (inst, result) = (*sites.get(&value)?)?;
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

/// Removes the definitions whose instruction no longer computes the value. Called before registers are allocated.
pub fn retain_valid(function: &Function, definitions: &mut Vec<WordDefinition>) {
    definitions.retain(|definition| {
        let result = function.results(definition.inst).get(definition.result);
        result.is_some_and(|operand| matches!(operand.kind, OperandKind::Value(part) if part.value == definition.value))
    });
}

/// Returns the ranges in which machine registers hold PTX registers. The function has physical registers and its final order.
pub fn ranges(function: &Function, definitions: &[WordDefinition]) -> Vec<RegisterRange> {
    if definitions.is_empty() || REGISTERS.saturating_mul(function.blocks.len()) > MOST_ENTRIES {
        return Vec::new();
    }
    let analysis = Availability::new(definitions);
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

/// For each register, the number of the result word that it holds; [`NOTHING`] if it is unknown.
type State = Vec<u32>;
const NOTHING: u32 = u32::MAX;

/// A forward must-analysis: which results the registers hold on all paths.
struct Availability<'d> {
    definitions: &'d [WordDefinition],
    /// The number of each result word, counted from 0.
    numbers: FxHashMap<ResultWord, u32>,
    /// For each result word, by number: the indices of the definitions with it.
    by_number: Vec<Vec<usize>>,
}

impl<'d> Availability<'d> {
    fn new(definitions: &'d [WordDefinition]) -> Availability<'d> {
        let mut analysis = Availability { definitions, numbers: FxHashMap::default(), by_number: Vec::new() };
        for (position, definition) in definitions.iter().enumerate() {
            let next = analysis.by_number.len() as u32;
            let number = *analysis.numbers.entry((definition.inst, definition.result, definition.first)).or_insert(next);
            if number == next {
                analysis.by_number.push(Vec::new());
            }
            analysis.by_number[number as usize].push(position);
        }
        analysis
    }

    /// Updates the state after an instruction.
    fn step(&self, function: &Function, inst: Inst, state: &mut State) {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::CALL) {
            let is_kept = |slot: usize| slot < FIRST_PREDICATE && convention::is_callee_saved(slot as u16);
            (0..REGISTERS).filter(|&slot| !is_kept(slot)).for_each(|slot| state[slot] = NOTHING);
        }
        let copied = copied_register(function, inst).map(|register| state[register]);
        self.write_results(function, inst, state, data.guard.is_none());
        if let (Some(number), [result]) = (copied.filter(|&number| number != NOTHING), function.results(inst))
            && let OperandKind::Register { file, first, .. } = result.kind
            && let Some(slot) = slot(file, first)
            && state[slot] == NOTHING
        {
            state[slot] = number;
        }
    }

    /// Forgets the old contents of the results of an instruction, and records the new ones unless a guard may prevent the write. Older
    /// copies of the same result are forgotten too: in a loop they hold the value of the previous iteration.
    fn write_results(&self, function: &Function, inst: Inst, state: &mut State, is_certain: bool) {
        for (result, operand) in function.results(inst).iter().enumerate() {
            let OperandKind::Register { file, first, count } = operand.kind else { continue };
            for word in 0..count {
                let Some(slot) = slot(file, first + u16::from(word)) else { continue };
                let number = self.numbers.get(&(inst, result, word)).copied().unwrap_or(NOTHING);
                if number != NOTHING {
                    state.iter_mut().filter(|held| **held == number).for_each(|held| *held = NOTHING);
                }
                state[slot] = if is_certain { number } else { NOTHING };
            }
        }
    }

    /// Returns the state at the start of the function, where registers hold parameters.
    fn at_entry(&self, function: &Function) -> State {
        let mut state = vec![NOTHING; REGISTERS];
        let is_entry = |definition: &&WordDefinition| function.insts[definition.inst].op == Op::Pseudo(Pseudo::Entry);
        for definition in self.definitions.iter().filter(is_entry) {
            self.write_results(function, definition.inst, &mut state, true);
        }
        state
    }

    /// Returns the state at the start of each block; `None` for unreachable blocks.
    fn solve(&self, function: &Function) -> Vec<Option<State>> {
        let next = following_blocks(function);
        let mut starts: Vec<Option<State>> = vec![None; function.blocks.len()];
        starts[function.entry().position()] = Some(self.at_entry(function));
        let mut pending: Vec<Block> = vec![function.entry()];
        while let Some(block) = pending.pop() {
            let Some(mut state) = starts[block.position()].clone() else { continue };
            function.blocks[block].insts.iter().for_each(|&inst| self.step(function, inst, &mut state));
            for &next in &next[block.position()] {
                let changed = match &mut starts[next.position()] {
                    Some(known) => meet(known, &state),
                    empty => {
                        *empty = Some(state.clone());
                        true
                    }
                };
                if changed {
                    pending.push(next);
                }
            }
        }
        starts
    }

    /// Walks over the code and collects the ranges of all definitions.
    fn collect_ranges(&self, function: &Function, starts: &[Option<State>]) -> Vec<RegisterRange> {
        let nothing = vec![NOTHING; REGISTERS];
        let (mut current, mut since) = (nothing.clone(), vec![0_u32; REGISTERS]);
        let mut ranges = Vec::new();
        let mut note = |state: &State, offset: u32| {
            for slot in 0..REGISTERS {
                if current[slot] == state[slot] {
                    continue;
                }
                if current[slot] != NOTHING && since[slot] < offset {
                    ranges.push((current[slot], slot, since[slot], offset));
                }
                (current[slot], since[slot]) = (state[slot], offset);
            }
        };
        let mut offset = 0;
        for &block in &function.layout {
            let mut state = starts[block.position()].clone().unwrap_or_else(|| nothing.clone());
            note(&state, offset);
            for &inst in &function.blocks[block].insts {
                self.step(function, inst, &mut state);
                offset += INSTRUCTION_BYTES as u32;
                note(&state, offset);
            }
        }
        note(&nothing, offset);
        let mut list: Vec<RegisterRange> = Vec::new();
        for (number, slot, start, end) in ranges {
            let (file, number_in_file) = match slot.checked_sub(FIRST_PREDICATE) {
                Some(predicate) => (RegFile::Predicate, predicate as u16),
                None => (RegFile::General, slot as u16),
            };
            list.extend(self.by_number[number as usize].iter().map(|&position| {
                let WordDefinition { register, word, .. } = self.definitions[position];
                RegisterRange { register, word, file, number: number_in_file, start, end }
            }));
        }
        list.sort_unstable_by_key(|range| (range.register.position(), range.word, range.start, range.number));
        list
    }
}

/// Keeps the contents on which two states agree; returns whether the first one changed.
fn meet(known: &mut State, other: &State) -> bool {
    let mut changed = false;
    for (known, &other) in known.iter_mut().zip(other) {
        if *known != NOTHING && *known != other {
            *known = NOTHING;
            changed = true;
        }
    }
    changed
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
    pub fn push(&mut self, function: &str, module: &Module, body: &Body, ranges: &[RegisterRange]) {
        let shown = |range: &&RegisterRange| body.declaration_of(range.register).lanes == 1;
        let ranges: Vec<&RegisterRange> = ranges.iter().filter(shown).collect();
        if ranges.is_empty() {
            return;
        }
        for table in [&mut self.ranges, &mut self.types] {
            table.extend(function.bytes());
            table.push(0);
            table.extend((ranges.len() as u32).to_le_bytes());
        }
        for range in ranges {
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
