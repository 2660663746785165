//! Tests of the rules of `combine`: test programs, at least one for each rule, are interpreted before and after the pass.
//!
//! A logic program is compared for all inputs: the interpreter computes all bits of a register alike, and the words [`LOGIC_WORDS`] contain
//! every combination of bits of the inputs. Of the 65,536 pairs of truth tables, 2,048 are compared, such that each table occurs as the
//! outer and as the inner one. Sums are polynomials modulo 2^32 with the same coefficients before and after, compared on the limits of the
//! number range and on words with all bits in use; right shifts by every distance, and kept bytes for every digit of a selector at every
//! place. Signs are compared on all special values of binary32 and binary64. Inversions are
//! compared for all truth tables of a predicate logic operation.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Pseudo, RegFile, Signs, Target, text};
use oriole_isa::{Opcode, Symbol};
use rustc_hash::FxHashMap;

use oriole_opt::combine::{CombineRule, Stats, run};
use oriole_opt::legalize::EncodabilityCache;

use crate::proofs::Pairs;

/// Four words whose bits form all 16 combinations.
const LOGIC_WORDS: [u32; 4] = [0xff00_ff00, 0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa];
/// Inputs for the integer rules.
pub const WORDS: [u32; 8] = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x89ab_cdef, 0x5555_5555, 0x0001_0000];
/// Inputs for the rules about bytes: words with one byte that is not zero, with and without its sign.
const BYTES: [u32; 10] = [0, 1, 0x80, 0x100, 0x8000, 0x0001_0000, 0x0080_0000, 0x0100_0000, 0x8000_0000, u32::MAX];
/// Inputs for the floating-point rules: zero, subnormal numbers, the smallest normal number, ordinary numbers, infinity, NaN.
const FLOATS: [u32; 10] = [0, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x4049_0fdb, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000, 0x3300_0000];

/// Returns the target that the test programs are compiled for.
pub fn target() -> Target {
    Target::parse("sm_90a").expect("the target exists")
}

/// Returns the bit of a truth table of three inputs for these inputs: the first input is the highest bit of the index.
fn table_output(table: u8, [a, b, c]: [bool; 3]) -> bool {
    table >> (u8::from(a) << 2 | u8::from(b) << 1 | u8::from(c)) & 1 != 0
}

/// The contents of registers, by value and register index within the value.
type RegisterContents = FxHashMap<(ValueKey, u8), u32>;
/// A value, as the key of [`RegisterContents`].
type ValueKey = oriole_ir::Value;

/// Interprets the instructions of one block, with `inputs` as the values of `ENTRY`. Returns the words that `KEEP` reads.
pub fn interpret(function: &Function, inputs: &[u32]) -> Vec<u32> {
    let mut state = RegisterContents::default();
    let mut kept = Vec::new();
    for &inst in &function.blocks[function.entry()].insts {
        match function.insts[inst].op {
            Op::Pseudo(Pseudo::Entry) => {
                let mut words = inputs.iter().copied();
                for part in function.results(inst).iter().filter_map(Operand::part) {
                    for (number, word) in (0..part.count).zip(&mut words) {
                        state.insert((part.value, part.first + number), word);
                    }
                }
            }
            Op::Pseudo(Pseudo::Pack) => {
                let words: Vec<u32> = function.sources(inst).iter().map(|source| read(&state, source)).collect();
                let part = function.results(inst)[0].part().expect("a pack has a result");
                for (number, word) in (0..part.count).zip(words) {
                    state.insert((part.value, part.first + number), word);
                }
            }
            Op::Pseudo(Pseudo::Keep) => kept.extend(function.sources(inst).iter().map(|source| read(&state, source))),
            Op::Pseudo(Pseudo::Copy) => {
                let word = read(&state, &function.sources(inst)[0]);
                write(&mut state, &function.results(inst)[0], word);
            }
            Op::Machine(Opcode::EXIT) => {
                let guard = function.insts[inst].guard;
                if guard.is_none_or(|guard| (bits(&state, &Operand::new(guard.kind)) == 1) != guard.negated) {
                    break;
                }
            }
            Op::Machine(opcode) => execute(function, inst, opcode, &mut state),
            Op::Pseudo(other) => panic!("{other:?} is not interpreted"),
        }
    }
    kept
}

/// Stores a word in the register that a result names; ignores results that are constants.
fn write(state: &mut RegisterContents, result: &Operand, word: u32) {
    if let Some(part) = result.part() {
        state.insert((part.value, part.first), word);
    }
}

/// Returns the bits of an operand, with the signs of integers applied.
fn read(state: &RegisterContents, operand: &Operand) -> u32 {
    let word = bits(state, operand);
    if operand.signs.has(Signs::NEGATE) { word.wrapping_neg() } else { word }
}

/// Returns the bits of an operand without its signs.
fn bits(state: &RegisterContents, operand: &Operand) -> u32 {
    match operand.kind {
        OperandKind::Value(part) => state[&(part.value, part.first)] ^ u32::from(operand.signs.has(Signs::NOT)),
        OperandKind::Zero(RegFile::General) => 0,
        OperandKind::Zero(RegFile::Predicate) => u32::from(!operand.signs.has(Signs::NOT)),
        OperandKind::Integer(number) => number as u32,
        other => panic!("{other:?} is not interpreted"),
    }
}

/// Returns a summand of an addition with carries: `-x` counts as `2^32 - x`, also where `x` is zero.
fn summand(state: &RegisterContents, operand: &Operand) -> u64 {
    let word = u64::from(bits(state, operand));
    match operand.signs {
        Signs::NEGATE => (1 << 32) - word,
        Signs::INVERT => word ^ u64::from(u32::MAX),
        _ => word,
    }
}

/// Executes one instruction on `state`.
fn execute(function: &Function, inst: Inst, opcode: Opcode, state: &mut RegisterContents) {
    let data = &function.insts[inst];
    let sources = function.sources(inst);
    let word = |at: usize| u64::from(read(state, &sources[at]));
    let (result, carry) = match (opcode, data.modifiers.as_slice()) {
        (Opcode::MOV, []) => (word(0), 0),
        (Opcode::LOP3, [Symbol::LUT]) => {
            let table = word(3) as u8;
            let at = |bit: u32| table_output(table, [0, 1, 2].map(|at| word(at) >> bit & 1 != 0));
            let word: u64 = (0..32).fold(0, |result, bit| result | u64::from(at(bit)) << bit);
            // With two results, the first is the predicate: whether the word is not zero, or the predicate source holds.
            let is_test = function.results(inst).len() == 2;
            (if is_test { u64::from(word != 0 || read(state, &sources[4]) == 1) } else { word }, 0)
        }
        (Opcode::PRMT, []) => {
            let pair = word(2) << 32 | word(0);
            let byte = |at: u64| {
                let selector = word(1) >> (4 * at) & 0xf;
                let byte = pair >> (8 * (selector & 7)) & 0xff;
                if selector < 8 { byte } else { (byte >> 7) * 0xff }
            };
            ((0..4).fold(0, |all, at| all | byte(at) << (8 * at)), 0)
        }
        (Opcode::IADD3, []) => {
            let sum = summand(state, &sources[0]) + summand(state, &sources[1]) + summand(state, &sources[2]);
            (sum, sum >> 32)
        }
        (Opcode::IADD3, [Symbol::X]) => {
            let words = summand(state, &sources[0]) + summand(state, &sources[1]) + summand(state, &sources[2]);
            let sum = words + word(3) + word(4);
            (sum, sum >> 32)
        }
        (Opcode::PLOP3, [Symbol::LUT]) => {
            let row = [0, 1, 2].map(|at| word(at) == 1);
            (u64::from(table_output(word(3) as u8, row)), 0)
        }
        (Opcode::ISETP, modifiers) => {
            let [a, b] = [0, 1].map(|at| word(at) as u32);
            let order = if modifiers.contains(&Symbol::U32) { a.cmp(&b) } else { (a as i32).cmp(&(b as i32)) };
            let holds = match modifiers[0] {
                Symbol::LT => order.is_lt(),
                Symbol::GE => order.is_ge(),
                Symbol::EQ => order.is_eq(),
                Symbol::NE => order.is_ne(),
                other => panic!("{other:?} is not interpreted"),
            };
            (u64::from(combined_with_predicate(modifiers, holds, word(2) == 1)), 0)
        }
        (Opcode::DADD | Opcode::DMUL | Opcode::DFMA | Opcode::DSETP, modifiers) => {
            let numbers: Vec<f64> = sources.iter().filter(|source| is_wide(source)).map(|source| double(state, source)).collect();
            let result = match opcode {
                Opcode::DADD => numbers[0] + numbers[1],
                Opcode::DMUL => numbers[0] * numbers[1],
                Opcode::DFMA => numbers[0].mul_add(numbers[1], numbers[2]),
                _ => f64::from(u8::from(combined_with_predicate(modifiers, numbers[0] < numbers[1], word(2) == 1))),
            };
            if opcode == Opcode::DSETP {
                (u64::from(result == 1.0), 0)
            } else {
                let bits = if result.is_nan() { f64::NAN } else { result }.to_bits();
                let part = function.results(inst)[0].part().expect("the result is read");
                state.insert((part.value, part.first), bits as u32);
                state.insert((part.value, part.first + 1), (bits >> 32) as u32);
                return;
            }
        }
        (Opcode::IMAD, []) => (word(0).wrapping_mul(word(1)).wrapping_add(word(2)), 0),
        (Opcode::SEL, []) => (if word(2) == 1 { word(0) } else { word(1) }, 0),
        (Opcode::FSEL, []) => (u64::from(word_with_sign(state, &sources[if word(2) == 1 { 0 } else { 1 }])), 0),
        (Opcode::SHF, modifiers) => (funnel_shift(modifiers, word(2) << 32 | word(0), word(1) as u32), 0),
        (Opcode::VIMNMX, modifiers) => (min_or_max_word(modifiers, &[word(0), word(1)], word(2) == 1), 0),
        (Opcode::VIMNMX3, modifiers) => (min_or_max_word(modifiers, &[word(0), word(1), word(2)], word(3) == 1), 0),
        (Opcode::VIADDMNMX, modifiers) => (min_or_max_word(modifiers, &[word(0) + word(1), word(2)], word(3) == 1), 0),
        (Opcode::LEA, []) => {
            let sum = u64::from((word(0) << word(2)) as u32) + word(1);
            (sum, sum >> 32)
        }
        (Opcode::LEA, [Symbol::HI]) => (((word(2) << 32 | word(0)) << word(3) >> 32) + word(1), 0),
        (Opcode::LEA, [Symbol::HI, Symbol::SX32]) => (((word(0) as i32 as i64 as u64) << word(2) >> 32 & 0xffff_ffff) + word(1), 0),
        (Opcode::LEA, [Symbol::HI, Symbol::X]) => (((word(2) << 32 | word(0)) << word(3) >> 32) + word(1) + word(4), 0),
        (Opcode::FADD | Opcode::FMUL | Opcode::FFMA, modifiers) => {
            let flushes = modifiers.contains(&Symbol::FTZ);
            let numbers: Vec<f32> = sources.iter().map(|source| float(state, source, flushes)).collect();
            let result = match opcode {
                Opcode::FADD => numbers[0] + numbers[1],
                Opcode::FMUL => numbers[0] * numbers[1],
                _ => numbers[0].mul_add(numbers[1], numbers[2]),
            };
            let result = if result.is_nan() { f32::NAN } else { result };
            (u64::from(flush(result, flushes).to_bits()), 0)
        }
        (Opcode::FMNMX | Opcode::FSETP, modifiers) => {
            let flushes = modifiers.contains(&Symbol::FTZ);
            let [a, b] = [0, 1].map(|at| float(state, &sources[at], flushes));
            (
                if opcode == Opcode::FMNMX {
                    u64::from(min_or_max_float(a, b, word(2) == 1))
                } else {
                    u64::from(combined_with_predicate(modifiers, compare(modifiers, a, b), word(2) == 1))
                },
                0,
            )
        }
        (opcode, modifiers) => panic!("{opcode:?} {modifiers:?} is not interpreted"),
    };
    let results: Vec<Operand> = function.results(inst).to_vec();
    write(state, &results[0], result as u32);
    // The first carry is set if the sum exceeds 32 bits at least once, the second if it does twice.
    for (predicate, least) in results[1..].iter().zip(1..) {
        write(state, predicate, u32::from(carry >= least));
    }
}

/// Returns the word that a funnel shift of a pair of words by `distance` bits yields.
fn funnel_shift(modifiers: &[Symbol], pair: u64, distance: u32) -> u64 {
    let has = |symbol| modifiers.contains(&symbol);
    let width = if has(Symbol::U64) || has(Symbol::S64) { 64 } else { 32 };
    let distance = if has(Symbol::W) { distance % width } else { distance.min(width) };
    let shifted = match (has(Symbol::L), has(Symbol::S32) || has(Symbol::S64)) {
        (true, _) => u128::from(pair) << distance,
        (false, true) => (i128::from(pair as i64) >> distance) as u128,
        (false, false) => u128::from(pair) >> distance,
    } as u64;
    if has(Symbol::HI) { shifted >> 32 } else { shifted & 0xffff_ffff }
}

/// Returns the smallest word if `is_minimum`, otherwise the greatest; signed or unsigned as the modifiers say.
fn min_or_max_word(modifiers: &[Symbol], words: &[u64], is_minimum: bool) -> u64 {
    let order = |word: u64| if modifiers == [Symbol::U32] { i64::from(word as u32) } else { i64::from(word as i32) };
    let ordered = words.iter().map(|&word| order(word));
    let found = if is_minimum { ordered.min() } else { ordered.max() };
    u64::from(found.unwrap_or_default() as u32)
}

/// Returns the bits of the smaller of two floating-point numbers if `is_minimum`, otherwise of the greater. NaN is returned only if both
/// are NaN; -0 is smaller than +0.
fn min_or_max_float(a: f32, b: f32, is_minimum: bool) -> u32 {
    let order = |number: f32| (number, !number.is_sign_negative());
    let min_or_max_word = match (a.is_nan(), b.is_nan()) {
        (true, true) => f32::NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            if (order(a) < order(b)) == is_minimum {
                a
            } else {
                b
            }
        }
    };
    min_or_max_word.to_bits()
}

/// Returns the result `holds` of a comparison combined with the predicate `other`, as the modifiers say.
fn combined_with_predicate(modifiers: &[Symbol], holds: bool, other: bool) -> bool {
    match modifiers[modifiers.len() - 1] {
        Symbol::AND => holds && other,
        Symbol::OR => holds || other,
        Symbol::XOR => holds != other,
        other => panic!("{other:?} is not interpreted"),
    }
}

/// Returns the result of a floating-point comparison.
fn compare(modifiers: &[Symbol], a: f32, b: f32) -> bool {
    match modifiers[0] {
        Symbol::LT => a < b,
        Symbol::GTU => a > b || a.is_nan() || b.is_nan(),
        Symbol::LE => a <= b,
        Symbol::EQ => a == b,
        Symbol::NEU => a != b,
        Symbol::NE => a != b && !a.is_nan() && !b.is_nan(),
        Symbol::EQU => a == b || a.is_nan() || b.is_nan(),
        Symbol::NUM => !a.is_nan() && !b.is_nan(),
        Symbol::NAN => a.is_nan() || b.is_nan(),
        Symbol::GEU => a >= b || a.is_nan() || b.is_nan(),
        other => panic!("{other:?} is not interpreted"),
    }
}

/// Returns whether an operand is a pair of registers.
fn is_wide(source: &Operand) -> bool {
    source.part().is_some_and(|part| part.count == 2)
}

/// Returns a pair of registers as a number, with its signs applied to the sign bit.
fn double(state: &RegisterContents, source: &Operand) -> f64 {
    let part = source.part().expect("a pair of registers");
    let [low, high] = [0, 1].map(|number| u64::from(state[&(part.value, part.first + number)]));
    let number = f64::from_bits(high << 32 | low);
    let number = if source.signs.has(Signs::ABSOLUTE) { number.abs() } else { number };
    if source.signs.has(Signs::NEGATE) { -number } else { number }
}

/// Returns a source as a floating-point number, with its signs applied; subnormal numbers become 0 if `flushes`.
fn float(state: &RegisterContents, source: &Operand, flushes: bool) -> f32 {
    let mut number = f32::from_bits(bits(state, source));
    if source.signs.has(Signs::ABSOLUTE) {
        number = number.abs();
    }
    flush(if source.signs.has(Signs::NEGATE) { -number } else { number }, flushes)
}

/// Returns a source of `FSEL`: a word with its signs applied to the top bit.
fn word_with_sign(state: &RegisterContents, source: &Operand) -> u32 {
    let word = bits(state, source) & if source.signs.has(Signs::ABSOLUTE) { u32::MAX >> 1 } else { u32::MAX };
    if source.signs.has(Signs::NEGATE) { word ^ 1 << 31 } else { word }
}

/// Returns 0 for a subnormal number if `flushes`, otherwise the number itself.
fn flush(number: f32, flushes: bool) -> f32 {
    if flushes && number.is_subnormal() { 0.0_f32.copysign(number) } else { number }
}

/// Returns a function of one block with `inputs` input registers and the instructions `body`, which keeps the register `kept`.
pub fn parse(inputs: usize, body: &str, kept: &str) -> Function {
    let registers: Vec<String> = (0..inputs).map(|number| format!("%{number}:R")).collect();
    let program = format!("func kernel @rule ssa {{\nbb0:\n    {} = ENTRY\n{body}\n    KEEP {kept}\n    EXIT\n}}\n", registers.join(", "));
    text::parse(&program).unwrap_or_else(|error| panic!("{error:?}\n{program}")).remove(0)
}

/// Runs the pass and compares the kept words before and after it, for all combinations of inputs from `words`. Returns the counts of the
/// pass.
fn check(function: &Function, inputs: usize, words: &[u32], pairs: &mut Pairs) -> Stats {
    let mut after = function.clone();
    let stats = run(&mut after, &mut EncodabilityCache::new(target()));
    // What floats compute is open in the proofs, so that rules about their signs are compared by execution only.
    if words != FLOATS {
        pairs.add(function, &after);
    }
    for choice in 0..words.len().pow(inputs as u32) {
        let values: Vec<u32> = (0..inputs as u32).map(|at| words[choice / words.len().pow(at) % words.len()]).collect();
        assert_eq!(
            interpret(function, &values),
            interpret(&after, &values),
            "{values:x?}\n{}\n{}",
            text::print(function),
            text::print(&after)
        );
    }
    stats
}

/// Test programs as (number of inputs, body, kept register, words to try); every rule applies in one of them.
fn cases() -> Vec<(usize, String, &'static str, &'static [u32])> {
    let mut cases: Vec<(usize, String, &'static str, &'static [u32])> = Vec::new();
    for (first, second) in [("%0", "%1"), ("-%0", "%1"), ("%0", "-%1"), ("%0", "0x7"), ("-%0", "0x7")] {
        for outer in ["%3, %2, RZ", "-%3, %2, RZ", "%3, -%2, RZ", "%3, 0x9, RZ", "%2, 0x9, %3", "-%3, 0x9, RZ", "%2, %3, %2"] {
            cases.push((3, format!("%3:R = IADD3 {first}, {second}, RZ\n%4:R = IADD3 {outer}"), "%4", &WORDS));
        }
    }
    for addend in ["RZ", "%2"] {
        cases.push((3, format!("%3:R = IMAD %0, %1, {addend}\n%4:R = IADD3 %3, %2, RZ"), "%4", &WORDS));
    }
    for factor in ["0x16", "-1", "0x80000000", "0x1", "%2"] {
        for outer in ["%1, -%3, RZ", "-%3, %1, RZ", "RZ, %1, -%3", "-%1, %3, RZ", "0x7, -%3, RZ"] {
            cases.push((3, format!("%3:R = IMAD %0, {factor}, RZ\n%4:R = IADD3 {outer}"), "%4", &WORDS));
        }
    }
    // Only the last two pairs of constants, which are the same single bit, make tests of a bit.
    for (mask, compared) in [("0x1", "0x2"), ("0x3", "0x1"), ("0x3", "0x3"), ("%1", "0x1"), ("0x1", "0x1"), ("0x80000000", "0x80000000")] {
        for relation in ["NE", "EQ", "NE.U32", "EQ.U32", "LT", "GE"] {
            for table in ["0xc0", "0x3c", "0xfc", "0x0c", "0x30"] {
                let test = format!(
                    "%2:R = LOP3.LUT %0, {mask}, RZ, {table}, !PT\n%3:P, PT = ISETP.{relation}.AND %2, {compared}, PT\n%4:R = SEL %0, %1, %3"
                );
                cases.push((2, test, "%4", &WORDS));
            }
        }
    }
    for selector in 0..=0xffff_u32 {
        // Each place of the byte, each of the 16 digits there, and zeros at the other places.
        if (0..4).filter(|place| selector >> (4 * place) & 0xf != 7).count() <= 1 {
            for relation in ["NE", "EQ"] {
                let test = format!("%2:R = PRMT %0, {selector:#x}, RZ\n%3:P, PT = ISETP.{relation}.AND %2, 0x0, PT\n%4:R = SEL %0, %1, %3");
                cases.push((2, test, "%4", &BYTES));
            }
        }
    }
    for selector in ["0x3210", "0x7710", "0x3254", "0xf2e0", "0x7701"] {
        let test = format!("%2:R = PRMT %0, {selector}, RZ\n%3:P, PT = ISETP.NE.AND %2, 0x0, PT\n%4:R = SEL %0, %1, %3");
        cases.push((2, test, "%4", &BYTES));
    }
    for distance in 1..=31 {
        for ty in ["U32", "S32"] {
            for outer in ["%3, %1, RZ", "%1, %3, RZ", "%3, 0x7, RZ", "-%3, %1, RZ", "%3, -%1, RZ"] {
                let shift = format!("%3:R = SHF.R.{ty}.HI RZ, {distance}, %0\n%4:R = IADD3 {outer}");
                cases.push((2, shift, "%4", &WORDS));
            }
        }
    }
    for distance in 1..=31 {
        for pair in [("%0", "%0"), ("%0", "%1"), ("%1", "%0")] {
            for shift in ["SHF.L.W.U32.HI", "SHF.R.W.U32"] {
                for outer in ["%3, %2, RZ", "%2, %3, RZ", "%3, 0x7, RZ", "-%3, %2, RZ", "%3, %2, %1"] {
                    let shift = format!("%3:R = {shift} {}, {distance}, {}\n%4:R = IADD3 {outer}", pair.0, pair.1);
                    cases.push((3, shift, "%4", &WORDS));
                }
            }
        }
    }
    for distance in [1, 2, 16, 31] {
        cases.push((2, format!("%3:R = SHF.L.U32 %0, {distance}, RZ\n%4:R = IADD3 %3, %1, RZ"), "%4", &WORDS));
        cases.push((2, format!("%3:R = SHF.L.U32 %0, {distance}, RZ\n%4:R = IADD3 %1, -%3, RZ"), "%4", &WORDS));
        let wide = format!(
            "%5:R = SHF.L.U32 %0, {distance}, RZ\n%6:R = SHF.L.U64.HI %0, {distance}, %1\n\
             %7:R, %8:P, PT = IADD3 %5, %2, RZ\n%9:R, PT, PT = IADD3.X %6, %3, RZ, %8, !PT"
        );
        cases.push((4, wide.replace("%3, RZ, %8", "RZ, RZ, %8"), "%7, %9", &WORDS));
        cases.push((4, wide, "%7, %9", &WORDS));
    }
    for relation in ["NE", "NE.U32", "EQ", "EQ.U32"] {
        for (logic, zero) in [("%0, %1, %2, 0x48", "0x0"), ("%0, 0x3, RZ, 0xc0", "RZ"), ("%0, %1, RZ, 0x3c", "0x0")] {
            let test = format!("%3:R = LOP3.LUT {logic}, !PT\n%4:P, PT = ISETP.{relation}.AND %3, {zero}, PT\n%5:R = SEL %0, %1, %4");
            cases.push((3, test, "%5", &WORDS));
        }
    }
    for zero in ["RZ", "%0"] {
        let inner = format!("%5:R, %6:P, PT = IADD3 %0, %1, RZ\n%7:R, PT, PT = IADD3.X %2, {zero}, RZ, %6, !PT\n");
        for (lower, upper) in [("%5, %3, RZ", "%7, %4, RZ"), ("%3, RZ, %5", "%4, %7, RZ"), ("%5, 0x5, RZ", "%7, RZ, RZ")] {
            let outer = format!("%8:R, %9:P, PT = IADD3 {lower}\n%10:R, PT, PT = IADD3.X {upper}, %9, !PT");
            cases.push((5, format!("{inner}{outer}"), "%8, %10", &WORDS));
        }
    }
    // One of the three 64-bit numbers is subtracted.
    let differences = [("IADD3.X %0, ~%1, RZ, PT, !PT", "%2, ~RZ, RZ"), ("IADD3 %0, -%1, RZ", "~RZ, %2, RZ")];
    let outer_sums = [
        ("IADD3 %5, %3, RZ", "%7, %4, RZ"),
        ("IADD3 0x5, %5, RZ", "%7, RZ, RZ"),
        ("IADD3.X %3, ~%5, RZ, PT, !PT", "%4, ~%7, RZ"),
        ("IADD3 %3, -%5, RZ", "%4, ~%7, RZ"),
    ];
    let sums = [("IADD3 %0, %1, RZ", "%2, %3, RZ")];
    let outer_differences = [("IADD3.X %5, ~%3, RZ, PT, !PT", "%7, ~%4, RZ"), ("IADD3 -%3, %5, RZ", "%7, ~RZ, RZ")];
    for (inners, outers) in [(&differences[..], &outer_sums[..]), (&sums[..], &outer_differences[..])] {
        for (&(lower, upper), &(outer_lower, outer_upper)) in inners.iter().flat_map(|inner| outers.iter().map(move |outer| (inner, outer)))
        {
            let inner = format!("%5:R, %6:P, PT = {lower}\n%7:R, PT, PT = IADD3.X {upper}, %6, !PT\n");
            let outer = format!("%8:R, %9:P, PT = {outer_lower}\n%10:R, PT, PT = IADD3.X {outer_upper}, %9, !PT");
            cases.push((5, format!("{inner}{outer}"), "%8, %10", &WORDS));
        }
    }
    for ty in ["", ".U32"] {
        for which in ["PT", "!PT"] {
            for inner in [
                "VIMNMX# %0, %1, PT",
                "VIMNMX# %0, %1, !PT",
                "VIMNMX# %0, 0x7, !PT",
                "IADD3 %0, %1, RZ",
                "IADD3 %0, -%1, RZ",
                "IADD3 %0, -4, RZ",
            ] {
                for outer in ["%3, %2", "%2, %3", "%3, 0x9", "%3, RZ"] {
                    let inner = inner.replace('#', ty);
                    cases.push((3, format!("%3:R = {inner}\n%4:R = VIMNMX{ty} {outer}, {which}"), "%4", &WORDS));
                }
            }
        }
    }
    for sign in ["-%0", "|%0|", "-|%0|", "%0"] {
        for inner in [format!("{sign}, -RZ"), format!("-RZ, {sign}")] {
            for (flush, outer_flush) in [("", ""), (".FTZ", ".FTZ"), (".FTZ", ""), ("", ".FTZ")] {
                for outer in [
                    "%4:R = FADD# %3, %1",
                    "%4:R = FADD# -%3, %1",
                    "%4:R = FADD# |%3|, -%1",
                    "%4:R = FMUL# %3, %1",
                    "%4:R = FFMA# %3, %1, %1",
                    "%4:R = FFMA# %1, %1, -%3",
                    "%4:R = FMNMX# %3, %1, PT",
                    "%4:R = FMNMX# -%3, %1, !PT",
                    "%4:P, PT = FSETP.LT#.AND %3, %1, PT",
                    "%4:P, PT = FSETP.GEU#.AND %1, -|%3|, PT",
                ] {
                    let outer = outer.replace('#', outer_flush);
                    cases.push((2, format!("%3:R = FADD{flush} {inner}\n{outer}"), "%4", &FLOATS));
                }
            }
        }
    }
    // Selections of words whose sign a logic operation changed, and of numbers whose sign a sum or a product changed. The sum at the end gives
    // all NaNs the same bits.
    for outer in ["%3, %1", "%1, %3", "%3, %0", "%3, 0x40400000"] {
        let select = format!("%4:P, PT = ISETP.LT.AND %0, %1, PT\n%5:R = SEL {outer}, %4");
        for (mask, table) in [("0x80000000", "0x3c"), ("0x7fffffff", "0xc0"), ("0x80000000", "0xfc"), ("0x80000000", "0xc0")] {
            cases.push((2, format!("%3:R = LOP3.LUT %0, {mask}, RZ, {table}, !PT\n{select}"), "%5", &WORDS));
        }
        for inner in
            ["FADD -%0, -RZ", "FADD |%0|, -RZ", "FADD.FTZ -%0, -RZ", "FMUL %0, -1", "FMUL -|%0|, -1", "FMUL.FTZ %0, -1", "FMUL %0, 1"]
        {
            let inner = inner.replace("-1", "0xbf800000").replace(", 1", ", 0x3f800000");
            cases.push((2, format!("%3:R = {inner}\n{select}\n%6:R = FADD %5, %1"), "%6", &FLOATS));
        }
    }
    // All functions of two predicates, with either operand inverted; the table has each row twice because the third predicate is true.
    for function in 0..16_u32 {
        let table = (0..4).fold(0, |table, row| table | (function >> row & 1) << (2 * row + 1));
        for signs in ["%3, %4", "!%3, %4", "%4, !%3", "!%4, !%3"] {
            for compares in [
                "%3:P, PT = ISETP.LT.AND %0, %1, PT\n%4:P, PT = ISETP.EQ.AND %1, 0x1, PT",
                "%3:P, PT = ISETP.GE.U32.AND %0, %1, PT\n%4:P, PT = ISETP.NE.AND %0, %1, PT",
            ] {
                cases.push((2, format!("{compares}\n%5:P, PT = PLOP3.LUT {signs}, PT, {table:#x}, 0x0"), "%5", &WORDS));
            }
            for relation in ["LT", "LE", "EQ", "NE", "NUM", "GEU"] {
                let compares = format!("%3:P, PT = FSETP.{relation}.AND %0, %1, PT\n%4:P, PT = FSETP.LT.AND %1, %1, PT");
                cases.push((2, format!("{compares}\n%5:P, PT = PLOP3.LUT {signs}, PT, {table:#x}, 0x0"), "%5", &FLOATS));
            }
        }
    }
    // All functions of one predicate at each source position, read by a source with and without inversion, and by a guard.
    for table in 0..=255_u32 {
        for places in ["%3, PT, PT", "PT, %3, PT", "PT, PT, %3", "!%3, PT, PT", "%3, !PT, PT"] {
            let inverts = format!("%3:P, PT = ISETP.LT.AND %0, %1, PT\n%4:P, PT = PLOP3.LUT {places}, {table:#x}, 0x0");
            for reads in
                ["%5:R = SEL %0, %1, %4", "%5:R = SEL %0, %1, !%4", "%5:R = IADD3 %0, %1, RZ\n@%4 EXIT", "%5:R = MOV %0\n@!%4 EXIT"]
            {
                cases.push((2, format!("{inverts}\n{reads}"), "%5", &WORDS[..4]));
            }
        }
    }
    cases
}

/// Compares programs on doubles with changed signs, for all pairs of special values. Returns the statistics of the pass for each program.
fn wide_cases() -> Vec<Stats> {
    let numbers = [0.0, 1.0, 1.5, f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), f64::INFINITY, f64::NAN];
    let numbers: Vec<f64> = numbers.into_iter().flat_map(|number: f64| [number, -number]).collect();
    let mut stats = Vec::new();
    for (mask, table) in [("0x80000000", "0x3c"), ("0x7fffffff", "0xc0"), ("0x80000000", "0xfc"), ("0x80000000", "0xc0")] {
        for outer in [
            "%4:R2 = DADD %3, %1",
            "%4:R2 = DADD -%3, %1",
            "%4:R2 = DADD |%3|, -%1",
            "%4:R2 = DMUL %3, %1",
            "%4:R2 = DFMA %3, %1, %1",
            "%4:R2 = DFMA %1, %1, -%3",
        ] {
            stats.push(check_wide(
                &format!("%2:R = LOP3.LUT %0[1], {mask}, RZ, {table}, !PT\n%3:R2 = PACK %0[0], %2\n{outer}"),
                "%4[0], %4[1]",
                &numbers,
            ));
        }
        let compares =
            format!("%2:R = LOP3.LUT %0[1], {mask}, RZ, {table}, !PT\n%3:R2 = PACK %0[0], %2\n%4:P, PT = DSETP.LT.AND %3, %1, PT");
        stats.push(check_wide(&compares, "%4", &numbers));
        // The upper word of the packed value has a changed sign, but its lower word comes from another double: no rule may apply.
        let mixed = format!("%2:R = LOP3.LUT %0[1], {mask}, RZ, {table}, !PT\n%3:R2 = PACK %1[0], %2\n%4:R2 = DADD %3, %1");
        assert_eq!(check_wide(&mixed, "%4[0], %4[1]", &numbers).applied[CombineRule::WideSign as usize], 0);
    }
    stats
}

/// Runs the pass on a program with two doubles as inputs, and compares the kept words for all pairs of numbers.
fn check_wide(body: &str, kept: &str, numbers: &[f64]) -> Stats {
    let program = format!("func kernel @rule ssa {{\nbb0:\n    %0:R2, %1:R2 = ENTRY\n{body}\n    KEEP {kept}\n    EXIT\n}}\n");
    let function = text::parse(&program).unwrap_or_else(|error| panic!("{error:?}\n{program}")).remove(0);
    let mut after = function.clone();
    let stats = run(&mut after, &mut EncodabilityCache::new(target()));
    for a in numbers {
        for b in numbers {
            let words: Vec<u32> =
                [a, b].into_iter().flat_map(|number| [number.to_bits() as u32, (number.to_bits() >> 32) as u32]).collect();
            assert_eq!(interpret(&function, &words), interpret(&after, &words), "{a} {b}\n{}", text::print(&after));
        }
    }
    stats
}

/// Checks compositions of two logic operations with all arrangements of their sources. Returns the counts of the pass for each.
fn logic_cases(pairs: &mut Pairs) -> Vec<Stats> {
    let tables: Vec<u8> = (0..=255).collect();
    let mut stats = Vec::new();
    for &outer in &tables {
        // Each table is the inner operation of some outer table: the step is odd, so all tables are visited.
        for step in 0..8_u8 {
            let inner = outer.wrapping_mul(37).wrapping_add(step.wrapping_mul(31));
            for (sources, reader) in
                [("%0, %1, %2", "%4, %0, %1"), ("%0, %1, RZ", "%2, %4, RZ"), ("%0, %1, RZ", "%4, %4, %3"), ("%0, RZ, %0", "%1, %4, -1")]
            {
                let body = format!("%4:R = LOP3.LUT {sources}, {inner:#x}, !PT\n%5:R = LOP3.LUT {reader}, {outer:#x}, !PT");
                let function = parse(4, &body, "%5");
                let mut after = function.clone();
                stats.push(run(&mut after, &mut EncodabilityCache::new(target())));
                pairs.add(&function, &after);
                assert_eq!(
                    interpret(&function, &LOGIC_WORDS),
                    interpret(&after, &LOGIC_WORDS),
                    "{}\n{}",
                    text::print(&function),
                    text::print(&after)
                );
            }
        }
    }
    stats
}

/// Every rule is applied to at least one program, and no result changes.
#[test]
fn every_rule_is_applied_and_keeps_results() {
    let mut applied = [0; CombineRule::ALL.len()];
    let mut pairs = Pairs::default();
    let mut counts = logic_cases(&mut pairs);
    counts.extend(cases().into_iter().map(|(inputs, body, kept, words)| check(&parse(inputs, &body, kept), inputs, words, &mut pairs)));
    for stats in counts.into_iter().chain(wide_cases()) {
        applied.iter_mut().zip(stats.applied).for_each(|(sum, count)| *sum += count);
    }
    pairs.check("combine_rules");
    for (rule, count) in CombineRule::ALL.into_iter().zip(applied) {
        assert!(count > 0, "{rule:?} is not exercised");
        assert_eq!(CombineRule::ALL[rule as usize], rule);
    }
}
