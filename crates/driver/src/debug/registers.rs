//! The machine registers that hold PTX registers, for debuggers.
//!
//! DWARF describes a variable in a PTX register by the name of the register. Two sections map each PTX register to the machine registers
//! that hold it, by address range: `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`.
//!
//! [`definitions`] finds the machine instructions that compute the assigned values, after selection. [`ranges`] tracks their results
//! through the final code, including moves, spill stores and spill loads. A machine register holds a PTX register at a point only if it
//! does so on every path to that point. For example, after
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
//! A guarded assignment has a guarded move whose tied operand is the old value ([`super::assignments`]): its result is the current value of
//! the PTX register whether the guard holds or not.
//!
//! In unoptimized code for debuggers a PTX register may have any number of definitions. In optimized code, unrolling copies instructions
//! and other passes delete copies, so there only PTX registers with exactly one assignment are listed.

use std::collections::{BTreeMap, BTreeSet};

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, RegFile, Signs, Space, Symbol, Value};
use oriole_isa::INSTRUCTION_BYTES;
use oriole_ptx::ast::{Body, Module, RegisterId};
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use super::register_contents::{MachinePlace, PlacesAndWords, PtxRegisterContents, WordNumber};
use super::saved_registers::frame_access_offset;
use crate::convention::{self, STACK_POINTER_REGISTER};

/// A 32-bit word of a PTX register, and the instruction result that holds its value.
#[derive(Clone, Copy, Debug)]
pub struct WordDefinition {
    /// The PTX register.
    register: RegisterId,
    /// Index of the word in the PTX register; 0 for the lowest.
    word: u8,
    /// The instruction that computes the value.
    inst: Inst,
    /// Index of the result in the instruction's list of results.
    result: usize,
    /// The IR value that is this result.
    value: Value,
    /// Index of the register, in the tuple of the value, that holds the word.
    first: u8,
    /// Whether the value is a predicate (one bit) and not a 32-bit word.
    is_predicate: bool,
    /// Whether the instruction is guarded and keeps the old value of the PTX register where the guard does not hold, so that its result is
    /// valid in all threads.
    is_merging: bool,
}

/// A range of addresses in which a machine register or a spill slot holds a word of a PTX register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRange {
    /// The PTX register whose word is held.
    pub register: RegisterId,
    /// Index of the 32-bit word in the PTX register; 0 for the lowest.
    pub word: u8,
    /// The machine register or spill slot that holds the word.
    pub place: MachinePlace,
    /// Start of the range, as a byte offset in the function.
    pub start: u32,
    /// End of the range, exclusive, as a byte offset in the function.
    pub end: u32,
}

/// Returns the name of a PTX register, such as `%r3`.
pub fn register_name(module: &Module, body: &Body, register: RegisterId) -> String {
    let declaration = body.declaration_of(register);
    let mut name = module.name(declaration.name).to_owned();
    if declaration.count.is_some() {
        name += &(register.position() - declaration.first.position()).to_string();
    }
    name
}

/// Maximum number of copies and packs to look through between an assignment and the instruction that computes the value.
const MAX_COPIES_TO_FOLLOW: usize = 16;
/// Maximum number of pairs of place and word in the states at all block starts together. For functions that need more, no ranges are
/// computed.
const MAX_STATE_ENTRIES: usize = 1 << 26;

/// Truth table of `PLOP3` for the conjunction of its sources. If two of them are `PT`, the result is the third one.
const PLOP3_AND_TABLE: i64 = 0x80;
/// Truth table of `LOP3` for the exclusive or of its first two sources, if the third one is zero.
const LOP3_XOR_TABLE: i64 = 0x3c;
/// Truth table of `PLOP3` for the exclusive or of its first two sources, if the third one is true.
const PLOP3_XOR_TABLE: i64 = 0x28;

/// For each value: the instruction that defines it; `None` for values with several definitions.
type DefinitionSites = FxHashMap<Value, Option<ResultSite>>;

/// The definition of a value: an instruction and one of its results.
#[derive(Clone, Copy)]
struct ResultSite {
    /// The instruction that defines the value.
    inst: Inst,
    /// Index of the value in the instruction's list of results.
    result: usize,
}

/// Returns, for each 32-bit word of a PTX register, the instruction results that define it. `registers` maps each PTX register to its value
/// in the IR. The function is not in SSA form yet.
///
/// `has_all_assignments` says that no later pass copies or deletes instructions, and that each assignment has a machine instruction
/// ([`super::assignments`]). If so, the result also has PTX registers with several assignments, otherwise only those with exactly one.
pub fn definitions(function: &Function, registers: &FxHashMap<RegisterId, Value>, has_all_assignments: bool) -> Vec<WordDefinition> {
    let flow = ControlFlow::compute(function);
    let mut sites = DefinitionSites::default();
    let mut all: FxHashMap<Value, Vec<ResultSite>> = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for (result, operand) in function.results(inst).iter().enumerate() {
                let OperandKind::Value(part) = operand.kind else { continue };
                let site = ResultSite { inst, result };
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
            let define = |&site: &ResultSite| {
                let definition = find_computing_inst(function, &sites, site, variable, word)?;
                let is_marked = function.insts[definition.0].location.statement == function.insts[site.inst].location.statement;
                let (inst, result, value, first) = Some(definition).filter(|_| is_marked || !has_all_assignments)?;
                let is_predicate = function.values[variable].file == RegFile::Predicate;
                Some(WordDefinition {
                    register,
                    word,
                    inst,
                    result,
                    value,
                    first,
                    is_predicate,
                    is_merging: function.insts[inst].guard.is_some(),
                })
            };
            // If one definition of a word were missing, the old value would seem to be valid after it. So either all definitions are listed
            // or none.
            let words: Option<Vec<WordDefinition>> = assignments.iter().map(define).collect();
            found.extend(words.into_iter().flatten());
        }
    }
    found
}

/// Finds the machine instruction that computes a 32-bit word of a value, looking through copies and packs; `site` is the definition of the
/// value. Returns the instruction, the index of the result among its results, the value that is this result, and the index of the word in
/// that value; `None` if it is not found.
fn find_computing_inst(
    function: &Function,
    sites: &DefinitionSites,
    mut site: ResultSite,
    mut value: Value,
    mut word: u8,
) -> Option<(Inst, usize, Value, u8)> {
    for _ in 0..MAX_COPIES_TO_FOLLOW {
        let ResultSite { inst, result } = site;
        let data = &function.insts[inst];
        // A guarded instruction defines its result in all threads only if it has a tied operand, which is the result where the guard does
        // not hold.
        let is_complete = data.guard.is_none() || data.op.machine().is_some() && function.tied_to(inst, result).is_some();
        if !is_complete {
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

/// Returns the source of a `PACK` (which builds a tuple) that contains word `word` of its result, and the index of the word in that source;
/// `None` if there is none.
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

/// Removes all definitions of a word of a PTX register if one of the recorded instructions no longer defines the recorded value, because a
/// pass has changed it. Called before registers are allocated.
pub fn retain_valid_definitions(function: &Function, definitions: &mut Vec<WordDefinition>) {
    let is_valid = |definition: &WordDefinition| {
        let result = function.results(definition.inst).get(definition.result);
        result.is_some_and(|operand| matches!(operand.kind, OperandKind::Value(part) if part.value == definition.value))
    };
    let word_of = |definition: &WordDefinition| (definition.register, definition.word);
    let lost: FxHashSet<(RegisterId, u8)> = definitions.iter().filter(|definition| !is_valid(definition)).map(word_of).collect();
    definitions.retain(|definition| !lost.contains(&word_of(definition)));
}

/// Returns the address ranges in which machine registers and spill slots hold words of PTX registers. The function must have physical
/// registers, in its final instruction order.
pub fn ranges(function: &Function, definitions: &[WordDefinition]) -> Vec<RegisterRange> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let analysis = RegisterAvailability::new(function, definitions);
    analysis.collect_register_ranges(function, &analysis.contents_at_block_starts(function))
}

/// A 32-bit word of an instruction's result, as (instruction, index of the result among its results, index of the word in the result).
type ResultWord = (Inst, usize, u8);

/// A forward must-analysis: which words of PTX registers the machine registers and spill slots hold on all paths.
struct RegisterAvailability {
    /// For each word number, the PTX register and the index of the 32-bit word in it.
    words: Vec<(RegisterId, u8)>,
    /// For each 32-bit word of an instruction's result, the words of PTX registers that it is assigned to.
    assigned: FxHashMap<ResultWord, Vec<WordNumber>>,
    /// Numbers of the words that are predicates, not 32-bit words.
    predicate_words: FxHashSet<WordNumber>,
    /// The guarded instructions that keep the old value of the PTX register where the guard does not hold, so that their result is valid in
    /// all threads.
    merging_insts: FxHashSet<Inst>,
    /// The `ENTRY` instructions, which define the parameters that arrive in registers.
    parameter_insts: Vec<Inst>,
}

impl RegisterAvailability {
    /// Numbers the words of the PTX registers, and collects their definitions.
    fn new(function: &Function, definitions: &[WordDefinition]) -> RegisterAvailability {
        let mut analysis = RegisterAvailability {
            words: Vec::new(),
            assigned: FxHashMap::default(),
            predicate_words: FxHashSet::default(),
            merging_insts: FxHashSet::default(),
            parameter_insts: Vec::new(),
        };
        for definition in definitions {
            let word = (definition.register, definition.word);
            if analysis.words.last() != Some(&word) {
                analysis.words.push(word);
            }
            let number = analysis.words.len() as WordNumber - 1;
            analysis.assigned.entry((definition.inst, definition.result, definition.first)).or_default().push(number);
            if definition.is_predicate {
                analysis.predicate_words.insert(number);
            }
            if definition.is_merging {
                analysis.merging_insts.insert(definition.inst);
            }
            if function.insts[definition.inst].is(Pseudo::Entry) && !analysis.parameter_insts.contains(&definition.inst) {
                analysis.parameter_insts.push(definition.inst);
            }
        }
        analysis
    }

    /// Updates `contents`, the words that registers and spill slots hold, along the instructions of a block, and calls `visit` after each
    /// instruction.
    fn apply_insts_in_order(
        &self,
        function: &Function,
        insts: &[Inst],
        contents: &mut PtxRegisterContents,
        mut visit: impl FnMut(&mut PtxRegisterContents),
    ) {
        let mut at = 0;
        while at < insts.len() {
            let swap = insts.get(at..at + 3).and_then(|three| self.swapped_places(function, three));
            if let Some([one, other]) = swap {
                let (of_one, of_other) = (contents.words(one), contents.words(other));
                [one, other].into_iter().for_each(|place| contents.clear(place));
                visit(contents);
                visit(contents);
                of_one.into_iter().for_each(|number| contents.insert(other, number));
                of_other.into_iter().for_each(|number| contents.insert(one, number));
                visit(contents);
                at += 3;
            } else {
                self.apply_inst(function, insts[at], contents);
                visit(contents);
                at += 1;
            }
        }
    }

    /// Returns the two registers that three instructions swap by exclusive or: `a ^= b; b ^= a; a ^= b`. The allocator swaps registers this
    /// way if none is free. `None` if the instructions are not such a swap, or if one of them assigns a PTX register.
    fn swapped_places(&self, function: &Function, three: &[Inst]) -> Option<[MachinePlace; 2]> {
        let mut pairs = three.iter().map(|&inst| match_exclusive_or(function, inst).filter(|_| !self.assigned.contains_key(&(inst, 0, 0))));
        let (first, second, third) = (pairs.next()??, pairs.next()??, pairs.next()??);
        (first == third && [second[1], second[0]] == first).then_some(first)
    }

    /// Updates `contents`, the words that registers and spill slots hold, for the effect of an instruction.
    fn apply_inst(&self, function: &Function, inst: Inst, contents: &mut PtxRegisterContents) {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::CALL) {
            contents.clear_if(|place| match place {
                MachinePlace::General(number) => !convention::is_callee_saved(number),
                MachinePlace::Predicate(_) => true,
                MachinePlace::Slot(_) => false,
            });
        }
        if data.is_machine(Opcode::STL) {
            self.record_spill_store(function, inst, contents);
            return;
        }
        let copied = self.copied_words(function, inst, contents);
        self.write_results(function, inst, contents, copied);
        let moves_stack = |operand: &Operand| operand.kind == general_register(u16::from(STACK_POINTER_REGISTER));
        if function.results(inst).iter().any(moves_stack) {
            contents.clear_if(|place| matches!(place, MachinePlace::Slot(_)));
        }
    }

    /// Records the words of PTX registers that a spill store copies to its slot. Other stores cannot change spill slots.
    fn record_spill_store(&self, function: &Function, inst: Inst, contents: &mut PtxRegisterContents) {
        let (Some(offset), Some(source)) = (spill_access_offset(function, inst), function.sources(inst).last()) else { return };
        let OperandKind::Register { file: RegFile::General, first, count } = source.kind else { return };
        for word in 0..u16::from(count) {
            let slot = MachinePlace::Slot(offset + 4 * u32::from(word));
            let stored = contents.words(MachinePlace::General(first + word));
            contents.clear(slot);
            if function.insts[inst].guard.is_none() {
                stored.into_iter().for_each(|number| contents.insert(slot, number));
            }
        }
    }

    /// Returns, for each word of the first result of an instruction, the words of PTX registers that the instruction copies to it. Copies
    /// are plain moves, spill loads, and the moves of predicates from and to general registers (0 or 1), which the allocator inserts.
    fn copied_words(&self, function: &Function, inst: Inst, contents: &PtxRegisterContents) -> Vec<Vec<WordNumber>> {
        let data = &function.insts[inst];
        let sources = function.sources(inst);
        if data.guard.is_some() {
            return Vec::new();
        }
        let register = |operand: &Operand| match operand.kind {
            OperandKind::Register { file, first, count: 1 } => MachinePlace::register(file, first),
            _ => None,
        };
        let is_plain = |operand: &Operand| operand.signs == Signs::default();
        match (data.op.machine(), sources) {
            (Some(Opcode::LDL), _) => match (spill_access_offset(function, inst), function.results(inst)) {
                (Some(offset), [result]) => {
                    let OperandKind::Register { count, .. } = result.kind else { return Vec::new() };
                    (0..u32::from(count)).map(|word| contents.words(MachinePlace::Slot(offset + 4 * word))).collect()
                }
                _ => Vec::new(),
            },
            (Some(Opcode::MOV), [source]) if is_plain(source) => register(source).map(|place| contents.words(place)).into_iter().collect(),
            // The move of a predicate to a predicate, such as PLOP3.LUT P4, PT, P0, PT, PT, 0x80, 0x8
            (Some(Opcode::PLOP3), [source, second, third, table, _])
                if is_plain(source) && [*second, *third] == [Operand::PT; 2] && table.integer() == Some(PLOP3_AND_TABLE) =>
            {
                register(source).map(|place| contents.words(place)).into_iter().collect()
            }
            // The move of a predicate to a general register, such as SEL R4, RZ, 0x1, !P0
            (Some(Opcode::SEL), [zero, one, predicate])
                if zero.kind == Operand::RZ.kind && one.kind == OperandKind::Integer(1) && predicate.signs == Signs::NOT =>
            {
                register(predicate).map(|place| contents.words(place)).into_iter().collect()
            }
            // The move of a general register to a predicate, such as ISETP.NE.AND P0, PT, R4, RZ, PT
            (Some(Opcode::ISETP), [source, zero, _])
                if zero.kind == Operand::RZ.kind && is_plain(source) && is_nonzero_test(function, inst) =>
            {
                let words = register(source).map(|place| contents.words(place)).unwrap_or_default();
                vec![words.into_iter().filter(|number| self.predicate_words.contains(number)).collect()]
            }
            _ => Vec::new(),
        }
    }

    /// Forgets the old contents of the results of an instruction, and records the new ones: the words of PTX registers that the instruction
    /// defines, and those that it copies to its first result (`copied`). Nothing is recorded if a guard may prevent the write. Other places
    /// that hold a word defined here are forgotten, because they have its old value, for example that of the previous iteration of a loop.
    fn write_results(&self, function: &Function, inst: Inst, contents: &mut PtxRegisterContents, copied: Vec<Vec<WordNumber>>) {
        let is_certain = function.insts[inst].guard.is_none() || self.merging_insts.contains(&inst);
        let mut copied = copied.into_iter();
        for (result, operand) in function.results(inst).iter().enumerate() {
            let OperandKind::Register { file, first, count } = operand.kind else { continue };
            for word in 0..count {
                let mut held = copied.next().unwrap_or_default();
                let Some(place) = MachinePlace::register(file, first + u16::from(word)) else { continue };
                contents.clear(place);
                if let Some(defined) = self.assigned.get(&(inst, result, word)) {
                    defined.iter().for_each(|&number| contents.forget_word(number));
                    held.extend(defined);
                }
                if is_certain {
                    held.into_iter().for_each(|number| contents.insert(place, number));
                }
            }
            // The instruction copies words to its first result only.
            copied = Vec::new().into_iter();
        }
    }

    /// Returns which words registers hold at the start of the function, where parameters may be in registers.
    fn contents_at_entry(&self, function: &Function) -> PtxRegisterContents {
        let mut contents = PtxRegisterContents::default();
        self.parameter_insts.iter().for_each(|&inst| self.write_results(function, inst, &mut contents, Vec::new()));
        contents
    }

    /// Returns which words registers and spill slots hold at the start of each block; `None` for unreachable blocks, and for all blocks if
    /// the states become larger than [`MAX_STATE_ENTRIES`].
    fn contents_at_block_starts(&self, function: &Function) -> Vec<Option<PlacesAndWords>> {
        let next = successors_by_block(function);
        let mut place = vec![0; function.blocks.len()];
        function.layout.iter().enumerate().for_each(|(at, block)| place[block.position()] = at);
        let mut starts: Vec<Option<PlacesAndWords>> = vec![None; function.blocks.len()];
        let mut entries = 0;
        starts[function.entry().position()] = Some(self.contents_at_entry(function).pairs());
        let mut pending: BTreeSet<usize> = BTreeSet::from([place[function.entry().position()]]);
        while let Some(at) = pending.pop_first() {
            let block = function.layout[at];
            let Some(start) = &starts[block.position()] else { continue };
            let mut contents = PtxRegisterContents::from_pairs(start);
            self.apply_insts_in_order(function, &function.blocks[block].insts, &mut contents, |_| {});
            let end = contents.pairs();
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
            if entries > MAX_STATE_ENTRIES {
                return vec![None; function.blocks.len()];
            }
        }
        starts
    }

    /// Walks over the code and collects the address ranges in which registers and spill slots hold words of PTX registers. `starts` has the
    /// contents at the start of each block.
    fn collect_register_ranges(&self, function: &Function, starts: &[Option<PlacesAndWords>]) -> Vec<RegisterRange> {
        // For each machine place and each word of a PTX register that it holds at the current point: the byte offset from which on it holds
        // the word.
        let mut open: BTreeMap<(MachinePlace, WordNumber), u32> = BTreeMap::new();
        let mut list: Vec<RegisterRange> = Vec::new();
        let mut offset = 0;
        for &block in function.layout.iter().filter(|block| !function.blocks[**block].insts.is_empty()) {
            let start = starts[block.position()].as_deref().unwrap_or_default();
            let mut contents = PtxRegisterContents::from_pairs(start);
            open.retain(|&pair, &mut since| {
                let is_kept = contents.contains(pair);
                if !is_kept {
                    list.extend(self.new_register_range(pair, since, offset));
                }
                is_kept
            });
            start.iter().for_each(|&pair| {
                open.entry(pair).or_insert(offset);
            });
            contents.take_changes();
            self.apply_insts_in_order(function, &function.blocks[block].insts, &mut contents, |contents| {
                offset += INSTRUCTION_BYTES as u32;
                for pair in contents.take_changes() {
                    if contents.contains(pair) {
                        open.entry(pair).or_insert(offset);
                    } else if let Some(since) = open.remove(&pair) {
                        list.extend(self.new_register_range(pair, since, offset));
                    }
                }
            });
        }
        list.extend(open.into_iter().filter_map(|(pair, since)| self.new_register_range(pair, since, offset)));
        list.sort_unstable_by_key(|range| (range.register.position(), range.word, range.start, range.place));
        list
    }

    /// Returns the record of the address range in which a machine place holds the word with this number; `None` if the range is empty.
    fn new_register_range(&self, (place, number): (MachinePlace, WordNumber), start: u32, end: u32) -> Option<RegisterRange> {
        let (register, word) = self.words[number as usize];
        (start < end).then_some(RegisterRange { register, word, place, start, end })
    }
}

/// Returns the operand for the general register with this number.
fn general_register(number: u16) -> OperandKind {
    OperandKind::Register { file: RegFile::General, first: number, count: 1 }
}

/// Returns the distance from the stack pointer of an access to a spill slot, in bytes; `None` for other instructions.
fn spill_access_offset(function: &Function, inst: Inst) -> Option<u32> {
    let access = function.insts[inst].memory.filter(|&access| function.accesses[access].space == Space::Spill);
    let offset = access.and_then(|_| frame_access_offset(function, inst))?;
    u32::try_from(offset).ok()
}

/// For an exclusive or of two registers whose destination is also its first source, returns the destination and the second source; `None`
/// for other instructions.
fn match_exclusive_or(function: &Function, inst: Inst) -> Option<[MachinePlace; 2]> {
    let data = &function.insts[inst];
    let operands = function.operands(inst);
    let (to, a, b, table) = match (data.op.machine()?, operands) {
        (Opcode::LOP3, [to, a, b, zero, table, ..]) if zero.kind == Operand::RZ.kind => (to, a, b, (table, LOP3_XOR_TABLE)),
        (Opcode::PLOP3, [to, _, a, b, last, table, ..]) if *last == Operand::PT => (to, a, b, (table, PLOP3_XOR_TABLE)),
        _ => return None,
    };
    let is_plain = data.guard.is_none() && a.signs.is_empty() && b.signs.is_empty() && data.modifiers.iter().all(|&m| m == Symbol::LUT);
    if to.kind != a.kind || table.0.integer() != Some(table.1) || !is_plain {
        return None;
    }
    match (a.kind, b.kind) {
        (OperandKind::Register { file, first, count: 1 }, OperandKind::Register { file: same, first: other, count: 1 }) if file == same => {
            Some([MachinePlace::register(file, first)?, MachinePlace::register(file, other)?])
        }
        _ => None,
    }
}

/// Returns whether a comparison is `ISETP.NE.AND` with `PT` as last source: its result is whether the numbers differ.
fn is_nonzero_test(function: &Function, inst: Inst) -> bool {
    let expected = [Symbol::find(".NE"), Symbol::find(".AND")];
    let is_expected = function.insts[inst].modifiers.iter().copied().map(Some).eq(expected);
    is_expected && function.sources(inst).last().is_some_and(|last| *last == Operand::PT)
}

/// Returns the successors of each block, by block index. Branches to the next block of the layout have been removed, so a block that does
/// not end in an unconditional jump continues with the next one.
fn successors_by_block(function: &Function) -> Vec<Vec<Block>> {
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
