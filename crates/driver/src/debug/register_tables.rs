//! The two sections that map PTX registers to machine registers and to types, for debuggers: `.nv_debug_info_reg_sass` and
//! `.nv_debug_info_reg_type`.

use oriole_isa::INSTRUCTION_BYTES;
use oriole_ptx::ast::{Body, Module, RegisterId};
use oriole_ptx::types::ScalarType;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use super::register_contents::MachinePlace;
use super::registers::{RegisterRange, register_name};
use crate::convention::STACK_POINTER_REGISTER;
use crate::emit::EmittedCode;

/// The contents of the two sections that map PTX registers to machine registers and to types.
#[derive(Default)]
pub struct RegisterTables {
    /// Contents of `.nv_debug_info_reg_sass`.
    pub encoded_ranges: Vec<u8>,
    /// Contents of `.nv_debug_info_reg_type`.
    pub types: Vec<u8>,
}

impl RegisterTables {
    /// Appends the table entries of a function: the address ranges in which machine registers hold its PTX registers, and their types.
    pub fn push(&mut self, function: &str, module: &Module, body: &Body, code: &EmittedCode) {
        let mut ranges = with_aliases_corrected(without_overlaps(&code.register_ranges), code);
        ranges.retain(|range| body.declaration_of(range.register).lanes == 1 && is_encodable(range.place));
        if ranges.is_empty() {
            return;
        }
        for table in [&mut self.encoded_ranges, &mut self.types] {
            table.extend(function.bytes());
            table.push(0);
            table.extend((ranges.len() as u32).to_le_bytes());
        }
        for range in &ranges {
            let declaration = body.declaration_of(range.register);
            let name = register_name(module, body, range.register);
            self.encoded_ranges.extend(u32::from(range.word).to_le_bytes());
            self.encoded_ranges.extend(name.bytes());
            self.encoded_ranges.push(0);
            // The last field is the address of the last instruction of the range; debuggers include that instruction. If the field were the
            // end of the range, the table would name two places for an instruction at which a value moves, and cuda-gdb would show
            // `<optimized out>`.
            let last = range.end - INSTRUCTION_BYTES as u32;
            for field in [place_code(range, declaration.ty), range.start, last] {
                self.encoded_ranges.extend(field.to_le_bytes());
            }
            self.types.push(register_type_code(declaration.ty));
        }
    }
}

/// Returns the ranges, shortened so that no two of them name a place for the same word of a PTX register at the same address, as in the
/// tables of ptxas. `ranges` is sorted by PTX register, word and start. The table names a machine place for as long as it holds the word;
/// from then on, it names the place that holds the word for the longest time.
fn without_overlaps(ranges: &[RegisterRange]) -> Vec<RegisterRange> {
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

/// Returns the ranges, corrected for statements at which location lists name the wrong PTX register: there the wrong register gets the
/// places of the register that holds the variable. No two ranges of one word overlap, neither in the input nor in the result.
fn with_aliases_corrected(ranges: Vec<RegisterRange>, code: &EmittedCode) -> Vec<RegisterRange> {
    let mut statements: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for &(offset, location) in &code.locations {
        statements.entry(location.statement).or_default().push(offset);
    }
    // Pairs of a PTX register that a location list names wrongly and the byte offset of an instruction at which it does so.
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
        let continues = (next.register, next.word, next.place) == (range.register, range.word, range.place);
        let joins = continues && next.start == range.end;
        if joins {
            range.end = next.end;
        }
        joins
    });
    list
}

/// Maximum distance of a spill slot from the stack pointer, in bytes, that `.nv_debug_info_reg_sass` can encode.
const MAX_SLOT_OFFSET_BYTES: u32 = 0xffff;

/// Returns whether `.nv_debug_info_reg_sass` can name a machine place: a spill slot may be too far from the stack pointer.
fn is_encodable(place: MachinePlace) -> bool {
    !matches!(place, MachinePlace::Slot(offset) if offset > MAX_SLOT_OFFSET_BYTES)
}

/// Returns the encoding of a machine place in `.nv_debug_info_reg_sass`: the kind of place in the top byte, and the number of the register.
/// For types of at most 16 bits, the number counts half registers. For a spill slot, the third byte has the base register and the lower two
/// the offset in bytes.
fn place_code(range: &RegisterRange, ty: ScalarType) -> u32 {
    const PREDICATE_CLASS: u32 = 2 << 24;
    const HALF_REGISTER_CLASS: u32 = 4 << 24;
    const WHOLE_REGISTER_CLASS: u32 = 5 << 24;
    const LOCAL_MEMORY_CLASS: u32 = 7 << 24;
    match (range.place, register_type_code(ty)) {
        (MachinePlace::Slot(offset), _) => LOCAL_MEMORY_CLASS | u32::from(STACK_POINTER_REGISTER) << 16 | offset,
        (MachinePlace::Predicate(number), _) => PREDICATE_CLASS | u32::from(number),
        (MachinePlace::General(number), 0 | 1 | 4 | 5 | 8 | 9 | 0xc) => HALF_REGISTER_CLASS | (2 * u32::from(number)),
        (MachinePlace::General(number), _) => WHOLE_REGISTER_CLASS | u32::from(number),
    }
}

/// Returns the encoding of a type in `.nv_debug_info_reg_type`. A type that has none is encoded as untyped bits of its size.
fn register_type_code(ty: ScalarType) -> u8 {
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
