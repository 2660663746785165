//! Joins loads of neighbouring words or doubles of shared memory into vector loads, and loads of the words of 64-bit constants
//! ([`constants`]).
//!
//! ```text
//! %2 = LDS [%b+0x10]                         %6:R4 = LDS.128 [%b+0x10]
//! %3 = LDS [%b+0x14]          becomes        %2 = COPY %6[0]
//! %4 = LDS [%b+0x18]                         %3 = COPY %6[1] ...
//! %5 = LDS [%b+0x1c]
//! ```
//!
//! The address of the vector must be a multiple of its size. To prove that, a data-flow analysis computes the number of trailing zero bits
//! of every register ([`TrailingZeros`]): it starts with the maximum, and each instruction lowers the number of its result until nothing
//! changes. The vector load is inserted before the first of the loads. Loads are joined within a block, if nothing between them may write
//! memory or wait for other threads.
//!
//! **Before** and **after**: SSA. Copies are left to copy propagation. The cost is linear in the size of the function for each sweep of the
//! analysis; [`MAX_ANALYSIS_SWEEPS`] limits the number of sweeps.

mod constants;

use oriole_ir::{
    Block, Class, Function, Inst, MemoryAccess, Op, Operand, OperandKind, Order, Part, Pseudo, RegFile, Role, Target, machine,
};
use oriole_isa::{Effect, Opcode, Symbol, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::remarks::Remarks;

/// Maximum number of trailing zero bits to track for an address: vectors have up to 16 bytes.
const MAX_TRAILING_ZEROS: u8 = 4;

/// Maximum number of sweeps of the data-flow analysis over the function; after that, nothing is assumed about the results of phis.
const MAX_ANALYSIS_SWEEPS: usize = 12;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of vector loads created.
    pub vectors: usize,
}

/// Name of the pass in remarks.
const PASS_NAME: &str = "vector-loads";

/// Joins loads of neighbouring words into vector loads, in a whole function.
pub fn run(function: &mut Function, target: Target) -> Stats {
    run_and_record_remarks(function, target, &mut Remarks::default())
}

/// Runs the pass like [`run`], and records which loads were joined, and why other loads of neighbouring words were not.
pub fn run_and_record_remarks(function: &mut Function, target: Target, remarks: &mut Remarks) -> Stats {
    let mut stats = Stats { vectors: constants::run(function, target) };
    let mut zeros: Option<TrailingZeros> = None;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let groups = find_load_groups(function, block);
        if groups.is_empty() {
            continue;
        }
        let zeros = zeros.get_or_insert_with(|| TrailingZeros::compute(function));
        let mut vector_load_before: FxHashMap<Inst, Inst> = FxHashMap::default();
        for group in groups {
            join_loads_of_group(function, target, zeros, group, &mut vector_load_before, remarks);
        }
        if !vector_load_before.is_empty() {
            stats.vectors += vector_load_before.len();
            let insts = std::mem::take(&mut function.blocks[block].insts);
            let place = |inst: Inst| [vector_load_before.get(&inst).copied(), Some(inst)];
            function.blocks[block].insts = insts.into_iter().flat_map(place).flatten().collect();
        }
    }
    stats
}

/// Loads of words of the same size, 32 or 64 bits, from the same base register, in execution order. Each entry is the offset in bytes, the load, and its index in the
/// block.
type LoadGroup = Vec<(i64, Inst, usize)>;

/// Returns the groups of two or more loads of a block from which vector loads may be formed.
fn find_load_groups(function: &Function, block: Block) -> Vec<LoadGroup> {
    let mut closed: Vec<LoadGroup> = Vec::new();
    // The groups that later loads of the block can still be added to, in the order of their first loads.
    let mut open: Vec<LoadGroup> = Vec::new();
    let mut open_indices: FxHashMap<(Part, u8, bool), usize> = FxHashMap::default();
    for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
        if let Some(load) = match_word_load(function, inst) {
            let is_constant = function.insts[inst].memory.is_some_and(|id| function.accesses[id].constant);
            let number = *open_indices.entry((load.base, load.registers, is_constant)).or_insert_with(|| {
                open.push(LoadGroup::new());
                open.len() - 1
            });
            open[number].push((load.offset, inst, position));
        } else if !matches!(function.insts[inst].op.effect(), Effect::None | Effect::State | Effect::Lanes | Effect::Reads) {
            closed.append(&mut open);
            open_indices.clear();
        }
    }
    closed.append(&mut open);
    closed.retain(|group| group.len() > 1);
    closed
}

/// A load of one word of 32 or 64 bits.
struct WordLoad {
    /// The base register of the address.
    base: Part,
    /// The offset of the address, in bytes.
    offset: i64,
    /// Number of registers that are loaded: 1 or 2.
    registers: u8,
}

/// Matches an unguarded weak load of a word of 32 or 64 bits from shared memory.
fn match_word_load(function: &Function, inst: Inst) -> Option<WordLoad> {
    let data = &function.insts[inst];
    let registers = match data.modifiers.as_slice() {
        [] => 1,
        [Symbol::_64] => 2,
        _ => return None,
    };
    let access = function.accesses[data.memory?];
    let is_plain = !access.volatile && access.order == Order::Weak && access.bytes == 4 * registers;
    if !data.is_machine(Opcode::LDS) || data.guard.is_some() || !is_plain {
        return None;
    }
    let [result, address, base, offset] = function.operands(inst) else { return None };
    let is_term = |operand: &Operand| operand.role == Role::Bracket(0) && operand.suffixes().next().is_none() && operand.signs.is_empty();
    let is_address = matches!(address.kind, OperandKind::Address(_)) && is_term(base) && is_term(offset);
    let is_word = result.part().is_some_and(|part| function.values[part.value] == Class::new(RegFile::General, registers));
    let base = base.part().filter(|part| part.count == 1 && function.values[part.value].file == RegFile::General)?;
    Some(WordLoad { base, offset: offset.integer()?, registers }).filter(|_| is_address && is_word)
}

/// Joins the loads of neighbouring words in one group into vector loads. Adds each vector load to `vector_load_before`, with the load
/// before which it is to be inserted as the key.
fn join_loads_of_group(
    function: &mut Function,
    target: Target,
    trailing_zeros: &TrailingZeros,
    mut group: LoadGroup,
    vector_load_before: &mut FxHashMap<Inst, Inst>,
    remarks: &mut Remarks,
) {
    let Some(WordLoad { base, registers, .. }) = match_word_load(function, group[0].1) else { return };
    let word_bytes = 4 * i64::from(registers);
    let lengths: &[usize] = if registers == 1 { &[4, 2] } else { &[2] };
    let alignment = 1_i64 << trailing_zeros.trailing_zeros_of_register(base);
    group.sort_unstable();
    group.dedup_by_key(|load| load.0);
    let mut at = 0;
    while at < group.len() {
        let length = lengths.iter().copied().find(|&length| {
            let bytes = word_bytes * length as i64;
            let start = group[at].0;
            let follows = |number: usize| group.get(at + number).is_some_and(|load| load.0 == start + word_bytes * number as i64);
            start.rem_euclid(bytes) == 0 && alignment >= bytes && (1..length).all(follows)
        });
        let place = function.insts[group[at].1].location;
        let Some(length) = length else {
            let has_neighbour = group.get(at + 1).is_some_and(|load| load.0 == group[at].0 + word_bytes);
            if has_neighbour && alignment < 2 * word_bytes {
                let reason =
                    || format!("a load of the neighbouring word follows, but the address is only known to be a multiple of {alignment}");
                remarks.missed(PASS_NAME, place, reason);
            }
            at += 1;
            continue;
        };
        let loads = &group[at..at + length];
        if let Some((first, vector)) = make_vector_load(function, target, loads, registers) {
            vector_load_before.insert(first, vector);
            let bytes = word_bytes * length as i64;
            remarks.done(PASS_NAME, place, || format!("{length} loads of shared memory were joined into one of {bytes} bytes"));
        }
        at += length;
    }
}

/// Creates a vector load that replaces `loads`, which load `registers` registers each, and turns them into copies of its registers. Returns
/// the first of these loads in execution order, and the vector load; `None` if the target cannot encode the vector load.
fn make_vector_load(function: &mut Function, target: Target, loads: &[(i64, Inst, usize)], registers: u8) -> Option<(Inst, Inst)> {
    let first = loads.iter().min_by_key(|load| load.2)?.1;
    let lowest = loads[0].1;
    let access = function.accesses[function.insts[lowest].memory?];
    let width = loads.len() as u8 * registers;
    let value = function.new_value(Class::new(RegFile::General, width));
    let mut operands: Vec<Operand> = function.operands(lowest).to_vec();
    operands[0] = function.whole(value).into();
    let modifier = if width == 4 { Symbol::_128 } else { Symbol::_64 };
    let vector = function.new_inst(Op::Machine(Opcode::LDS), [modifier].into_iter().collect(), None, &operands, 1);
    function.insts[vector].location = function.insts[first].location;
    function.insts[vector].memory = Some(function.accesses.push(MemoryAccess { bytes: 4 * width, ..access }));
    if !machine::is_encodable(function, vector, target) {
        return None;
    }
    for (number, &(_, load, _)) in loads.iter().enumerate() {
        let result = function.results(load)[0];
        let source = Operand::from(Part { value, first: number as u8 * registers, count: registers });
        function.insts[load].op = Op::Pseudo(Pseudo::Copy);
        function.insts[load].modifiers = Symbols::new();
        function.insts[load].memory = None;
        function.set_operands(load, &[result, source], 1);
    }
    Some((first, vector))
}

/// For each value, the number of its lowest bits that are known to be zero, at most [`MAX_TRAILING_ZEROS`]; 0 for values of several
/// registers.
struct TrailingZeros {
    /// For each value, the number of its lowest bits that are known to be zero.
    bits: Vec<u8>,
}

impl TrailingZeros {
    /// Computes the number of known trailing zero bits of each value, as the greatest fixed point of the data-flow equations.
    fn compute(function: &Function) -> TrailingZeros {
        let mut zeros = TrailingZeros { bits: vec![MAX_TRAILING_ZEROS; function.values.len()] };
        for sweep in 0.. {
            let mut is_changed = false;
            for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
                let first = function.results(inst).first().and_then(Operand::value);
                for value in function.defined(inst) {
                    let is_word = function.values[value].width == 1 && first == Some(value);
                    // After `MAX_ANALYSIS_SWEEPS` sweeps without a fixed point, no bits of the results of phis count as known, so that the
                    // iteration ends. The sweep visits the blocks in layout order and so passes this on to the values that depend on the
                    // phis.
                    let is_unknown = !is_word || sweep >= MAX_ANALYSIS_SWEEPS && function.insts[inst].is(Pseudo::Phi);
                    let found = if is_unknown { 0 } else { zeros.trailing_zeros_of_result(function, inst) };
                    is_changed |= found < zeros.bits[value.position()];
                    zeros.bits[value.position()] = found.min(zeros.bits[value.position()]);
                }
            }
            if !is_changed {
                break;
            }
        }
        zeros
    }

    /// Returns the number of the lowest bits of a register that are known to be zero.
    fn trailing_zeros_of_register(&self, part: Part) -> u8 {
        self.bits[part.value.position()]
    }

    /// Returns the number of the lowest bits of an operand that are known to be zero.
    fn trailing_zeros_of_operand(&self, operand: &Operand) -> u8 {
        match operand.kind {
            OperandKind::Value(part) if part.count == 1 => self.trailing_zeros_of_register(part),
            OperandKind::Integer(number) => (number as u32).trailing_zeros().min(u32::from(MAX_TRAILING_ZEROS)) as u8,
            OperandKind::Zero(RegFile::General | RegFile::Uniform) => MAX_TRAILING_ZEROS,
            _ => 0,
        }
    }

    /// Returns the number of the lowest bits of the first result of an instruction that are known to be zero, given those of its sources.
    /// Negation keeps trailing zero bits; inversion does not.
    fn trailing_zeros_of_result(&self, function: &Function, inst: Inst) -> u8 {
        let data = &function.insts[inst];
        let sources = function.sources(inst);
        if data.guard.is_some() || sources.iter().any(|source| source.signs.has(oriole_ir::Signs::INVERT)) {
            return 0;
        }
        let bits = |at: usize| sources.get(at).map_or(0, |source| self.trailing_zeros_of_operand(source));
        match (data.op, data.modifiers.as_slice()) {
            (Op::Pseudo(Pseudo::Phi), _) => {
                sources.iter().step_by(2).map(|source| self.trailing_zeros_of_operand(source)).min().unwrap_or(0)
            }
            (Op::Pseudo(Pseudo::Copy), _) if data.result_count() == 1 => bits(0),
            (Op::Machine(Opcode::MOV | Opcode::UMOV), []) => bits(0),
            (Op::Machine(Opcode::IADD3), []) => bits(0).min(bits(1)).min(bits(2)),
            (Op::Machine(Opcode::IMAD), []) => (bits(0) + bits(1)).min(bits(2)).min(MAX_TRAILING_ZEROS),
            (Op::Machine(Opcode::SHF), [Symbol::L, Symbol::U32]) if sources[2] == Operand::RZ => {
                self.zeros_of_shifted(&sources[0], &sources[1])
            }
            (Op::Machine(Opcode::LEA), []) if sources.len() == 3 => self.zeros_of_shifted(&sources[0], &sources[2]).min(bits(1)),
            (Op::Machine(Opcode::LOP3), [Symbol::LUT]) if data.result_count() == 1 && sources.len() == 5 => {
                let Some(table) = sources[3].integer() else { return 0 };
                (0..MAX_TRAILING_ZEROS).find(|&bit| !self.is_result_bit_zero(table, &sources[..3], bit)).unwrap_or(MAX_TRAILING_ZEROS)
            }
            _ => 0,
        }
    }

    /// Returns the number of known trailing zero bits of an operand after a left shift by `distance` bits; 0 if `distance` is not a
    /// constant.
    fn zeros_of_shifted(&self, operand: &Operand, distance: &Operand) -> u8 {
        let Some(distance) = distance.integer().filter(|distance| (0..32).contains(distance)) else { return 0 };
        (self.trailing_zeros_of_operand(operand) + distance as u8).min(MAX_TRAILING_ZEROS)
    }

    /// Returns whether bit number `bit` of the result of a `LOP3` is known to be zero: every row of the truth table `table` that agrees
    /// with the known source bits is 0.
    fn is_result_bit_zero(&self, table: i64, sources: &[Operand], bit: u8) -> bool {
        let known = |operand: &Operand| match operand.kind {
            OperandKind::Integer(number) => Some(number >> bit & 1 == 1),
            _ => (self.trailing_zeros_of_operand(operand) > bit).then_some(false),
        };
        let known = [known(&sources[0]), known(&sources[1]), known(&sources[2])];
        let agrees = |row: usize| (0..3).all(|source| known[source].is_none_or(|one| (row >> (2 - source) & 1 == 1) == one));
        (0..8).filter(|&row| agrees(row)).all(|row| table >> row & 1 == 0)
    }
}
