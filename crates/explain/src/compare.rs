//! Compares two explanations of the same program: ours against another compiler's, or before against after.
//!
//! Functions are matched by name, then instructions by the PTX line that they come from, otherwise by the source line. Where neither file
//! has lines, blocks are matched by their position.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::model::{Explanation, Function, Instruction};
use crate::text::cycles;

/// Name and version of the JSON format.
pub const SCHEMA: &str = "oriole-explain-comparison/1";

/// A comparison of two files.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the first input.
    pub first: String,
    /// Name of the second input.
    pub second: String,
    /// The functions that both have, in the order of the first.
    pub functions: Vec<FunctionComparison>,
    /// Functions that only the first has.
    pub only_first: Vec<String>,
    /// Functions that only the second has.
    pub only_second: Vec<String>,
}

/// A comparison of two functions.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct FunctionComparison {
    /// Name of the function.
    pub name: String,
    /// The first one.
    pub first: Totals,
    /// The second one.
    pub second: Totals,
    /// What instructions were matched by: `ptx`, `source` or `block`.
    pub matched_by: String,
    /// The places, in the order of lines or blocks.
    pub places: Vec<PlaceComparison>,
}

/// Totals of a function or of a place in it.
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Totals {
    /// Registers of a thread; 0 for a place.
    pub registers: u32,
    /// Instructions.
    pub instructions: u64,
    /// Sum of the stalls of one execution of each instruction.
    pub stalls: u64,
    /// Predicted cycles of waits, of one execution of each instruction.
    pub waits: u64,
    /// Predicted cycles, weighted with the estimated number of executions.
    pub cycles: f64,
}

/// A comparison of the instructions of one line or block.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PlaceComparison {
    /// The line, such as `48` or `kernel.cu:12`, or the block, such as `bb3`; empty for instructions without an origin.
    pub place: String,
    /// Text of the PTX line, if it is known.
    pub text: String,
    /// In the first file.
    pub first: Totals,
    /// In the second file.
    pub second: Totals,
    /// The instructions of both files, aligned by opcode.
    pub pairs: Vec<Pair>,
}

/// Instructions of the two files that correspond to each other.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Pair {
    /// Address in the first file; absent if only the second has such an instruction.
    pub first: Option<u64>,
    /// Address in the second file.
    pub second: Option<u64>,
}

/// What instructions are matched by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchKey {
    Ptx,
    Source,
    Block,
}

/// Compares two explanations.
pub fn compare(first: &Explanation, second: &Explanation) -> Comparison {
    let find = |explanation: &'_ Explanation, name: &str| explanation.functions.iter().position(|function| function.name == name);
    let missing = |of: &Explanation, other: &Explanation| -> Vec<String> {
        of.functions.iter().filter(|function| find(other, &function.name).is_none()).map(|function| function.name.clone()).collect()
    };
    let functions = first.functions.iter().filter_map(|function| {
        let other = &second.functions[find(second, &function.name)?];
        Some(compare_functions(function, other, &first.ptx))
    });
    Comparison {
        schema: SCHEMA.to_owned(),
        first: first.input.clone(),
        second: second.input.clone(),
        functions: functions.collect(),
        only_first: missing(first, second),
        only_second: missing(second, first),
    }
}

fn compare_functions(first: &Function, second: &Function, ptx: &[String]) -> FunctionComparison {
    let all = |test: fn(&Instruction) -> bool| [first, second].iter().all(|function| function.instructions.iter().any(test));
    let key = match () {
        () if all(|instruction| instruction.origin.ptx_line.is_some()) => MatchKey::Ptx,
        () if all(|instruction| !instruction.origin.source.is_empty()) => MatchKey::Source,
        () => MatchKey::Block,
    };
    let mut places: BTreeMap<(String, u64), [PlaceInFile<'_>; 2]> = BTreeMap::new();
    for (side, function) in [first, second].into_iter().enumerate() {
        for instruction in &function.instructions {
            let place = &mut places.entry(place_of(instruction, key)).or_default()[side];
            add(&mut place.totals, function, instruction);
            place.instructions.push(instruction);
        }
    }
    let describe = |((file, number), [first, second]): ((String, u64), [PlaceInFile<'_>; 2])| {
        let text =
            if key == MatchKey::Ptx { ptx.get((number as usize).wrapping_sub(1)).cloned().unwrap_or_default() } else { String::new() };
        let place = match key {
            MatchKey::Ptx if number == 0 => String::new(),
            MatchKey::Ptx => number.to_string(),
            MatchKey::Source if number == 0 => String::new(),
            MatchKey::Source => format!("{file}:{number}"),
            MatchKey::Block => format!("bb{number}"),
        };
        let pairs = align(&first.instructions, &second.instructions);
        PlaceComparison { place, text: text.trim().to_owned(), first: first.totals, second: second.totals, pairs }
    };
    FunctionComparison {
        name: first.name.clone(),
        first: totals(first),
        second: totals(second),
        matched_by: match key {
            MatchKey::Ptx => "ptx",
            MatchKey::Source => "source",
            MatchKey::Block => "block",
        }
        .to_owned(),
        places: places.into_iter().map(describe).collect(),
    }
}

/// The instructions of one file at a place.
#[derive(Default)]
struct PlaceInFile<'a> {
    totals: Totals,
    instructions: Vec<&'a Instruction>,
}

/// Largest table of the alignment. Longer lists are paired in their order.
const LARGEST_TABLE: usize = 1 << 20;

/// Aligns two lists of instructions so that as many as possible have the same opcode as their partner (longest common subsequence).
///
/// For `LDG FFMA STG` and `LDG FADD FFMA STG` the pairs are LDG LDG, none FADD, FFMA FFMA, STG STG.
fn align(first: &[&Instruction], second: &[&Instruction]) -> Vec<Pair> {
    let (rows, columns) = (first.len(), second.len());
    let is_same = |row: usize, column: usize| mnemonic(&first[row].text) == mnemonic(&second[column].text);
    let width = columns + 1;
    let is_small = (rows + 1).saturating_mul(width) <= LARGEST_TABLE;
    // For each pair of positions, the length of the common subsequence of the rests.
    let mut common = vec![0_u32; if is_small { (rows + 1) * width } else { 0 }];
    for row in (0..rows).rev().filter(|_| is_small) {
        for column in (0..columns).rev() {
            common[row * width + column] = match is_same(row, column) {
                true => common[(row + 1) * width + column + 1] + 1,
                false => common[(row + 1) * width + column].max(common[row * width + column + 1]),
            };
        }
    }
    let mut pairs = Vec::with_capacity(rows.max(columns));
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        let both = row < rows && column < columns;
        let takes_both = both && (!is_small || is_same(row, column));
        // Of two equally long alignments, the instruction of the first file comes first.
        let takes_first = takes_both || column == columns || both && common[(row + 1) * width + column] >= common[row * width + column + 1];
        let takes_second = takes_both || !takes_first;
        pairs.push(Pair { first: takes_first.then(|| first[row].address), second: takes_second.then(|| second[column].address) });
        row += usize::from(takes_first);
        column += usize::from(takes_second);
    }
    pairs
}

/// Returns the opcode of an instruction, without guard and modifiers.
fn mnemonic(text: &str) -> &str {
    let text = text.strip_prefix('@').map_or(text, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
    text.split([' ', '.']).next().unwrap_or_default()
}

fn place_of(instruction: &Instruction, key: MatchKey) -> (String, u64) {
    match key {
        MatchKey::Ptx => (String::new(), instruction.origin.ptx_line.unwrap_or(0).into()),
        MatchKey::Source => instruction.origin.source.first().map_or_else(Default::default, |place| (place.file.clone(), place.line)),
        MatchKey::Block => (String::new(), instruction.block.unwrap_or(0) as u64),
    }
}

/// Adds an instruction to the totals of a place.
fn add(totals: &mut Totals, function: &Function, instruction: &Instruction) {
    let executions = instruction.block.and_then(|block| function.blocks.get(block)).map_or(1.0, |block| block.executions);
    // A stall of 0 takes as long as the least that the machine can issue after; one cycle counts for the issue itself.
    let spent = u64::from(instruction.stall.max(1)) + u64::from(instruction.waiting.cycles);
    totals.instructions += 1;
    totals.stalls += u64::from(instruction.stall);
    totals.waits += u64::from(instruction.waiting.cycles);
    totals.cycles += executions * spent as f64;
}

fn totals(function: &Function) -> Totals {
    let mut totals = Totals { registers: function.registers.count, ..Totals::default() };
    function.instructions.iter().for_each(|instruction| add(&mut totals, function, instruction));
    totals
}

/// Returns a comparison as text.
pub fn write(comparison: &Comparison) -> String {
    let mut out = format!("first:  {}\nsecond: {}\n", comparison.first, comparison.second);
    for function in &comparison.functions {
        let _ = writeln!(out, "\n{} (first | second)", function.name);
        let (first, second) = (&function.first, &function.second);
        let _ = writeln!(out, "  registers     {:>8} | {:<8}", first.registers, second.registers);
        let _ = writeln!(out, "  instructions  {:>8} | {:<8}", first.instructions, second.instructions);
        let _ = writeln!(out, "  stalls        {:>8} | {:<8}", first.stalls, second.stalls);
        let _ = writeln!(out, "  waits         {:>8} | {:<8}", first.waits, second.waits);
        let _ = writeln!(out, "  cycles        {:>8} | {:<8}", cycles(first.cycles), cycles(second.cycles));
        let what = if function.matched_by == "block" { "block" } else { "line" };
        let _ = writeln!(out, "  {what:>8}  instructions   stalls        waits         cycles");
        for place in &function.places {
            let name = if place.place.is_empty() { "none" } else { &place.place };
            let (first, second) = (&place.first, &place.second);
            let _ = writeln!(
                out,
                "  {name:>8}  {:>4} | {:<4}  {:>5} | {:<5} {:>5} | {:<5} {:>7} | {:<7} {}",
                first.instructions,
                second.instructions,
                first.stalls,
                second.stalls,
                first.waits,
                second.waits,
                cycles(first.cycles),
                cycles(second.cycles),
                place.text
            );
        }
    }
    for (names, which) in [(&comparison.only_first, "first"), (&comparison.only_second, "second")] {
        if !names.is_empty() {
            let _ = writeln!(out, "\nonly in the {which}: {}", names.join(", "));
        }
    }
    out
}
