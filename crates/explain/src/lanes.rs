//! How addresses change from a thread to the next: the distance in bytes between the addresses of neighbouring threads, where the code
//! proves it.
//!
//! A forward data-flow analysis on machine registers. Each register has the factor of `tid.x` (or of the lane number) in its value:
//!
//! ```text
//! S2R R0, SR_TID.X               factor 1
//! IMAD R2, R0, 0x40, R5          factor 64, if R5 has the factor 0
//! LDG.E R4, [R2.64]              neighbouring threads read words that are 64 bytes apart
//! ```
//!
//! A register whose factor depends on the path, or that another instruction computes, is unknown, and nothing is said about its accesses.
//! Of a 64-bit address only the low word is followed. Where paths meet, the threads of a warp are assumed to have taken the same path.

use oriole_isa::{Instruction, Opcode, Operand, OperandValue, RegFile};

use crate::code::DecodedFunction;

/// The factor of `tid.x` in a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Factor {
    /// Not computed yet.
    Open,
    /// The value is this number in all threads.
    Constant(i64),
    /// The value is this number times `tid.x`, plus a number that all threads share.
    Known(i64),
    Unknown,
}

impl Factor {
    /// Returns what is known where two paths meet, if all threads of a warp take the same path.
    fn meet(self, other: Factor) -> Factor {
        match (self, other) {
            (Factor::Open, other) | (other, Factor::Open) => other,
            (one, two) if one == two => one,
            (one, two) if one.without_value() == two.without_value() => one.without_value(),
            _ => Factor::Unknown,
        }
    }

    /// Forgets the value of a constant.
    fn without_value(self) -> Factor {
        if let Factor::Constant(_) = self { Factor::Known(0) } else { self }
    }

    fn differs_in_threads(self) -> bool {
        matches!(self, Factor::Known(factor) if factor != 0)
    }

    fn is_equal_in_threads(self) -> bool {
        self.without_value() == Factor::Known(0)
    }

    fn add(self, other: Factor) -> Factor {
        match (self, other) {
            (Factor::Constant(one), Factor::Constant(two)) => one.checked_add(two).map_or(Factor::Unknown, Factor::Constant),
            _ => self.without_value().combine(other.without_value(), i64::checked_add),
        }
    }

    fn combine(self, other: Factor, operation: fn(i64, i64) -> Option<i64>) -> Factor {
        match (self, other) {
            (Factor::Known(one), Factor::Known(two)) => operation(one, two).map_or(Factor::Unknown, Factor::Known),
            (Factor::Open, _) | (_, Factor::Open) => Factor::Open,
            _ => Factor::Unknown,
        }
    }

    fn times(self, number: i64) -> Factor {
        match self {
            Factor::Constant(value) => value.checked_mul(number).map_or(Factor::Unknown, Factor::Constant),
            _ => self.combine(Factor::Known(number), i64::checked_mul),
        }
    }
}

/// The factors of all general registers and of all predicates.
type RegisterFactors = Vec<Factor>;

/// Largest number of blocks that are analysed.
const MOST_BLOCKS: usize = 4096;

/// What is known about the threads of a warp at each instruction.
pub struct Lanes {
    /// The distance in bytes between the addresses of neighbouring threads, if the instruction accesses memory through a general register
    /// and the distance is known.
    pub strides: Vec<Option<i64>>,
    /// Whether the guard of the instruction provably depends on the number of the thread.
    pub is_divergent: Vec<bool>,
}

/// Number of general registers; the predicate registers follow in a state.
const GENERAL: usize = 256;
/// Number of predicate registers.
const PREDICATES: usize = 8;

/// Analyses a function.
pub fn analyse(code: &DecodedFunction<'_>) -> Lanes {
    let count = code.instructions().len();
    let mut lanes = Lanes { strides: vec![None; count], is_divergent: vec![false; count] };
    if code.blocks().len() > MOST_BLOCKS {
        return lanes;
    }
    let mut entry: Vec<RegisterFactors> = vec![vec![Factor::Open; GENERAL + PREDICATES]; code.blocks().len()];
    let mut pending: Vec<usize> = Vec::new();
    for &root in code.blocks().first().map_or(&[][..], |block| &block.successors) {
        entry[root].fill(Factor::Unknown);
        pending.push(root);
    }
    let mut is_pending = vec![false; code.blocks().len()];
    while let Some(block) = pending.pop() {
        is_pending[block] = false;
        let mut state = entry[block].clone();
        for number in code.blocks()[block].range.clone() {
            step(code, number, &mut state);
        }
        for &next in &code.blocks()[block].successors {
            let mut is_changed = false;
            for (known, &other) in entry[next].iter_mut().zip(&state) {
                let met = known.meet(other);
                is_changed |= met != *known;
                *known = met;
            }
            if is_changed && !std::mem::replace(&mut is_pending[next], true) {
                pending.push(next);
            }
        }
    }
    for block in code.real_blocks() {
        let mut state = entry[block].clone();
        for number in code.blocks()[block].range.clone() {
            if let Some(Factor::Known(stride)) = address_factor(&code.instructions()[number], &state).map(Factor::without_value) {
                lanes.strides[number] = Some(stride);
            }
            lanes.is_divergent[number] = guard_factor(code, number, &state).is_some_and(Factor::differs_in_threads);
            step(code, number, &mut state);
        }
    }
    lanes
}

/// Returns the factor of the guard of an instruction; `None` if it has no guard in a predicate register.
fn guard_factor(code: &DecodedFunction<'_>, number: usize, state: &RegisterFactors) -> Option<Factor> {
    if code.is_unguarded(number) {
        return None;
    }
    let mut read = code.accesses[number].iter().filter(|access| access.file == RegFile::Predicate && !access.written);
    let register = read.next()?.registers().next()?;
    state.get(GENERAL + usize::from(register)).copied()
}

/// Returns the factor of the address of a memory access; `None` if the address has no general register.
fn address_factor(instruction: &Instruction, state: &RegisterFactors) -> Option<Factor> {
    let address = instruction.operands.iter().find_map(|operand| match &operand.value {
        OperandValue::Address(address) if address.word.spelling() != "c" && address.word.spelling() != "cx" => Some(address),
        _ => None,
    })?;
    let mut sum = None;
    for register in address.parts.iter().flat_map(|part| &part.registers) {
        if let (RegFile::General, Some(number)) = (register.file, register.number) {
            let factor = state[usize::from(number)];
            // `.X4`, `.X8` and `.X16` multiply the register.
            let scale = register.suffixes.iter().find_map(|suffix| suffix.spelling().strip_prefix(".X")?.parse::<i64>().ok());
            let factor = factor.times(scale.unwrap_or(1));
            sum = Some(sum.map_or(factor, |sum: Factor| sum.add(factor)));
        }
    }
    sum
}

/// Updates the factors after an instruction.
fn step(code: &DecodedFunction<'_>, number: usize, state: &mut RegisterFactors) {
    let instruction = &code.instructions()[number];
    let result = result_factor(instruction, state);
    let written = code.writes(number);
    let mut registers = written.iter();
    let first = registers.next();
    for register in registers {
        // The high word of a 64-bit sum.
        state[usize::from(register)] = Factor::Unknown;
    }
    let compared = compared_factor(instruction, state);
    for access in code.accesses[number].iter().filter(|access| access.file == RegFile::Predicate && access.written) {
        for register in access.registers() {
            if let Some(known) = state.get_mut(GENERAL + usize::from(register)) {
                *known = if code.is_unguarded(number) { compared } else { known.meet(compared) };
            }
        }
    }
    if let Some(first) = first {
        let old = state[usize::from(first)];
        state[usize::from(first)] = if code.is_unguarded(number) { result } else { old.meet(result) };
    }
    if code.is_call(number) {
        state.fill(Factor::Unknown);
    }
}

/// Returns the factor of the predicates that a comparison writes: 0 if all its operands are equal in all threads, 1 if one of them is known
/// to differ.
fn compared_factor(instruction: &Instruction, state: &RegisterFactors) -> Factor {
    let sources: Vec<Factor> = instruction
        .operands
        .iter()
        .zip(instruction.written())
        .filter(|(operand, written)| !written && !is_constant_predicate(operand))
        .map(|(operand, _)| operand_factor(operand, state))
        .collect();
    match () {
        () if instruction.opcode != Opcode::ISETP => Factor::Unknown,
        () if sources.contains(&Factor::Open) => Factor::Open,
        () if sources.iter().all(|factor| factor.is_equal_in_threads()) => Factor::Known(0),
        () if sources.iter().any(|factor| factor.differs_in_threads()) => Factor::Known(1),
        () => Factor::Unknown,
    }
}

/// Returns whether an operand is `PT`, which changes nothing.
fn is_constant_predicate(operand: &Operand) -> bool {
    matches!(operand.value, OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, None))
}

/// Returns the factor of the first result of an instruction.
fn result_factor(instruction: &Instruction, state: &RegisterFactors) -> Factor {
    let sources: Vec<&Operand> =
        instruction.operands.iter().zip(instruction.written()).filter(|(_, written)| !written).map(|(operand, _)| operand).collect();
    // Carry inputs and other predicates do not count.
    let sources: Vec<&Operand> = sources.into_iter().filter(|operand| !is_predicate(operand)).collect();
    let modifiers: Vec<&str> = instruction.modifiers.iter().map(|modifier| modifier.spelling()).collect();
    let factor = |at: usize| sources.get(at).map_or(Factor::Constant(0), |operand| operand_factor(operand, state));
    let number = |at: usize| match factor(at) {
        Factor::Constant(number) if sources.len() > at => Some(number),
        _ => None,
    };
    let is_high = modifiers.iter().any(|modifier| matches!(*modifier, ".HI" | ".X"));
    match instruction.opcode {
        Opcode::S2R | Opcode::S2UR | Opcode::CS2R => match sources.first().map(|operand| &operand.value) {
            Some(OperandValue::Name(name)) if matches!(name.spelling(), "SR_TID.X" | "SR_LANEID") => Factor::Known(1),
            Some(OperandValue::Name(name)) if is_same_in_warp(name.spelling()) => Factor::Known(0),
            _ => Factor::Unknown,
        },
        _ if is_high => Factor::Unknown,
        Opcode::MOV => factor(0),
        Opcode::IADD3 => factor(0).add(factor(1)).add(factor(2)),
        Opcode::IMAD if modifiers.contains(&".MOV") => factor(2),
        Opcode::IMAD => product(factor(0), number(0), factor(1), number(1)).add(factor(2)),
        Opcode::LEA => number(2).map_or(Factor::Unknown, |shift| shifted(factor(0), shift)).add(factor(1)),
        Opcode::SHF if modifiers.contains(&".L") => number(1).map_or(Factor::Unknown, |shift| shifted(factor(0), shift)),
        Opcode::LDC | Opcode::LDG if sources.iter().all(|operand| operand_factor(operand, state).is_equal_in_threads()) => Factor::Known(0),
        // Any computation on values that are equal in all threads gives equal values.
        _ if !sources.is_empty() && instruction.opcode.properties().effect == oriole_isa::Effect::None => {
            let all_equal = (0..sources.len()).all(|at| factor(at).is_equal_in_threads());
            if all_equal { Factor::Known(0) } else { open_or_unknown(&sources, state) }
        }
        _ => Factor::Unknown,
    }
}

/// Returns `Open` if a source is not computed yet, so that a loop does not make it unknown too early.
fn open_or_unknown(sources: &[&Operand], state: &RegisterFactors) -> Factor {
    let is_open = sources.iter().any(|operand| operand_factor(operand, state) == Factor::Open);
    if is_open { Factor::Open } else { Factor::Unknown }
}

fn is_predicate(operand: &Operand) -> bool {
    matches!(operand.value, OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, _))
}

/// Returns whether all threads of a warp have the same value of a special register.
fn is_same_in_warp(name: &str) -> bool {
    // A warp has one `tid.y` if blocks are a multiple of 32 threads wide; docs/explain.md states that assumption.
    matches!(name, "SR_TID.Y" | "SR_TID.Z")
        || name.starts_with("SR_CTAID")
        || name.starts_with("SR_NCTAID")
        || name.starts_with("SR_NTID")
        || name == "SR_CgaCtaId"
}

fn shifted(factor: Factor, shift: i64) -> Factor {
    if (0..32).contains(&shift) { factor.times(1 << shift) } else { Factor::Unknown }
}

/// Returns the factor of a product: known if one of the numbers is a constant, or if both are equal in all threads.
fn product(one: Factor, one_number: Option<i64>, two: Factor, two_number: Option<i64>) -> Factor {
    match (one_number, two_number) {
        (_, Some(number)) => one.times(number),
        (Some(number), _) => two.times(number),
        _ if one.is_equal_in_threads() && two.is_equal_in_threads() => Factor::Known(0),
        _ if one == Factor::Open || two == Factor::Open => Factor::Open,
        _ => Factor::Unknown,
    }
}

/// Returns the factor of an operand.
fn operand_factor(operand: &Operand, state: &RegisterFactors) -> Factor {
    let factor = match &operand.value {
        OperandValue::Register(RegFile::General, Some(number)) => state[usize::from(*number)],
        OperandValue::Register(RegFile::Predicate, Some(number)) => {
            state.get(GENERAL + usize::from(*number)).copied().unwrap_or(Factor::Unknown)
        }
        OperandValue::Register(_, None) => Factor::Constant(0),
        OperandValue::Register(..) => Factor::Known(0),
        OperandValue::Integer(number) => Factor::Constant(i64::from(*number as i32)),
        OperandValue::Address(address) => {
            let is_uniform = |register: &oriole_isa::AddressRegister| register.file == RegFile::Uniform || register.number.is_none();
            let all_uniform = address.parts.iter().flat_map(|part| &part.registers).all(is_uniform);
            if all_uniform { Factor::Known(0) } else { Factor::Unknown }
        }
        _ => Factor::Unknown,
    };
    if operand.invert || operand.absolute {
        return if factor.is_equal_in_threads() { Factor::Known(0) } else { Factor::Unknown };
    }
    if operand.negate { factor.times(-1) } else { factor }
}
