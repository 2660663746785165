//! Assembles a control listing into a cubin.
//!
//! The instructions of each section are encoded for the target, with labels at their new addresses, and replace the code in the
//! skeleton. An instruction without a control word gets one that is safe next to any other instruction: it waits for all six
//! scoreboards and stalls for 15 cycles. If its latency is variable, it also sets scoreboard 5, and the next instruction waits for
//! scoreboard 5.

use std::collections::HashMap;

use oriole_cubin::Cubin;
use oriole_cubin::section::SectionKind;
use oriole_isa::{Control, Effect, Instruction, Latency, OperandValue, RegFile, Target, encode, find_form, parse_at};
use oriole_support::Suffix;

use super::moves::Moves;
use super::program::SIZE;
use super::source::{self, Item, ItemContent, Problem, SourceSection};

/// The scoreboard of instructions without a control word.
const SPARE_SCOREBOARD: u8 = 5;

/// Prefixes of sections whose code addresses are not updated when code moves.
const DEBUG: [&str; 3] = [".debug_line", ".debug_loc", ".nv_debug"];

/// The result of assembling a listing.
pub struct Assembled {
    pub bytes: Vec<u8>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Assembles a listing.
pub fn assemble(text: &str) -> Result<Assembled, Vec<Problem>> {
    let clean = source::without_comments(text).map_err(|problem| vec![problem])?;
    let source = source::read(text, &clean)?;
    let general = |message: String| vec![Problem { line: 1, column: 1, message }];
    let target = source.target.ok_or_else(|| general("the listing has no .target".into()))?;
    let missing = || general("the listing has no .skeleton: `oriole disasm --control` prints it after the code".into());
    let skeleton = source.skeleton.as_deref().ok_or_else(missing)?;
    let mut cubin = Cubin::read(skeleton).map_err(|error| general(format!("the skeleton is no cubin: {error}")))?;
    if !is_for(&cubin, target) {
        return Err(general(format!("the skeleton is a cubin for {}, but .target says {target}", cubin.target_name())));
    }
    // Replacing the code of a section does not change section indices.
    let mut indices: HashMap<String, usize> = HashMap::new();
    for (index, section) in cubin.sections().iter().enumerate() {
        indices.entry(section.name.clone()).or_insert(index);
    }
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    for section in &source.sections {
        match assemble_section(section, target) {
            Ok(words) => {
                if let Err(message) = replace(&mut cubin, &indices, section, &words, &mut notes) {
                    problems.push(Problem { line: section.line, column: 1, message });
                }
            }
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        return Err(problems);
    }
    let bytes = cubin.write().map_err(|error| general(error.to_string()))?;
    Ok(Assembled { bytes, notes })
}

/// Returns whether a cubin is for a target. A cubin does not distinguish `sm_100f` from `sm_100`.
fn is_for(cubin: &Cubin, target: Target) -> bool {
    let stored = if target.suffix() == Suffix::FamilySpecific { target.with_suffix(Suffix::Plain) } else { Some(target) };
    stored.is_some_and(|stored| cubin.target() == Some(stored) || cubin.target() == Some(target))
}

fn assemble_section(section: &SourceSection<'_>, target: Target) -> Result<Vec<u128>, Vec<Problem>> {
    let labels: HashMap<&str, u64> = section.labels.iter().map(|&(name, index)| (name, index as u64 * SIZE)).collect();
    let (mut words, mut problems) = (Vec::with_capacity(section.items.len()), Vec::new());
    let mut spare_is_set = false;
    for (index, item) in section.items.iter().enumerate() {
        match word(item, index as u64 * SIZE, &labels, target, &mut spare_is_set) {
            Ok(word) => words.push(word),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(words) } else { Err(problems) }
}

/// Encodes one instruction. `spare_is_set` says whether the previous instruction set the spare scoreboard, and is updated.
fn word(item: &Item<'_>, address: u64, labels: &HashMap<&str, u64>, target: Target, spare_is_set: &mut bool) -> Result<u128, Problem> {
    let waits = std::mem::take(spare_is_set);
    let (control, text, flips) = match item.content {
        ItemContent::Raw(word) => {
            // A raw word keeps its own control bits; the next instruction waits instead.
            *spare_is_set = waits;
            return Ok(word);
        }
        ItemContent::Text { control, text, flips } => (control, text, flips),
    };
    let problem = |column: usize, message: String| Problem { line: item.line, column: item.column + column, message };
    let parsed = parse_at(text, address, &|name| labels.get(name).copied());
    let mut instruction = parsed.map_err(|error| problem(error.column, error.message))?;
    instruction.control = match control {
        Some(control) => control,
        None => {
            let (control, sets_spare) = safe_control(&instruction, target);
            *spare_is_set = sets_spare;
            control
        }
    };
    if waits {
        instruction.control.wait |= 1 << SPARE_SCOREBOARD;
    }
    let word = encode(&instruction, target).map_err(|error| problem(0, error.to_string()))?;
    Ok(word ^ flips)
}

/// Returns a safe control word for an instruction without one, and whether it sets the spare scoreboard.
fn safe_control(instruction: &Instruction, target: Target) -> (Control, bool) {
    let control = Control { stall: 15, stay: false, write_barrier: None, read_barrier: None, wait: 0b11_1111, reuse: 0 };
    let properties = instruction.opcode.properties();
    if properties.latency(target) == Latency::Fixed || matches!(properties.effect, Effect::Control | Effect::Barrier) {
        return (control, false);
    }
    // An instruction that writes a convergence barrier never releases its write barrier: waiting for it hangs (measured on an H200).
    let to_barrier =
        matches!(instruction.operands.first().map(|operand| &operand.value), Some(OperandValue::Register(RegFile::Convergence, _)));
    let writes = !to_barrier && properties.leading.iter().any(|operand| operand.written);
    let (may_read, may_write) =
        find_form(instruction, target).map_or((true, true), |id| (id.form().sets_read_barrier, id.form().sets_write_barrier));
    let write_barrier = (writes && may_write).then_some(SPARE_SCOREBOARD);
    let read_barrier = may_read.then_some(SPARE_SCOREBOARD);
    (Control { write_barrier, read_barrier, ..control }, write_barrier.is_some() || read_barrier.is_some())
}

/// Replaces the code of a section in the cubin, and updates references to addresses in it.
fn replace(
    cubin: &mut Cubin,
    indices: &HashMap<String, usize>,
    section: &SourceSection<'_>,
    words: &[u128],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let SectionKind::Text(function) = SectionKind::of(section.name) else {
        return Err(format!("{} is not a section of code; those are called .text.NAME", section.name));
    };
    let missing = || format!("the skeleton has no section {}", section.name);
    let index = *indices.get(section.name).ok_or_else(missing)?;
    let old_length = cubin.bytes_of(index).map_or(0, <[u8]>::len) as u64;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(&section.tail);
    let moves = Moves::new(section, old_length, bytes.len() as u64);
    let before = moves.something_moved().then(|| cubin.symbols().to_vec());
    cubin.replace_bytes(index, bytes).map_err(|error| error.to_string())?;
    if let Some(symbols) = before {
        moves.apply(cubin, index, function, &symbols, words);
        if cubin.sections().iter().any(|section| DEBUG.iter().any(|prefix| section.name.starts_with(prefix))) {
            notes.push(format!("code of {function} moved; debug sections still have the old places"));
        }
    }
    Ok(())
}
