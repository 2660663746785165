//! Updates everything in a file that refers to addresses of instructions, when instructions move within their blocks.
//!
//! * Relocations of code, and the instruction lists in `.nv.info.NAME` (exits, warp-wide instructions, mbarriers, ...) are updated:
//!   [`relocate_addresses`].
//! * Addresses that other code may jump to, and addresses at which unwinding rules change, must not change: [`fixed_addresses`] returns
//!   them, and no instruction moves across one.
//! * Line tables are written anew ([`oriole_cubin::debug::reorder_lines`]), unless they cannot be read.
//! * Debug information has addresses in many places, and some attributes hold addresses in unknown formats. Functions with either keep
//!   their order.

use std::collections::{BTreeSet, HashMap, HashSet};

use oriole_cubin::debug::{MovedCode, reorder_lines};
use oriole_cubin::info::AttributeCode;
use oriole_cubin::relocation::Relocation;
use oriole_cubin::section::{Content, Section, SectionType};
use oriole_cubin::segment::FileRange;
use oriole_cubin::symbol::SymbolSection;
use oriole_cubin::{Cubin, CubinIndex};
use oriole_isa::{Instruction, Opcode, OperandValue};

use crate::SIZE;

/// Replacement bytes for a part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytePatch {
    /// Offset in the file.
    pub offset: usize,
    pub bytes: Vec<u8>,
}

/// The parts of a cubin that refer to addresses in its code, by index of the code section. Built once for all functions.
pub struct CubinLayout<'a> {
    data: &'a [u8],
    index: &'a CubinIndex<'a>,
    /// Offset and size of each section in the file.
    places: &'a [FileRange],
    /// Addresses in code sections that relocations refer to.
    referred: HashMap<usize, Vec<u64>>,
    /// The unwinding programs of `.debug_frame`, by the offset of their start address in that section.
    frame_programs: HashMap<usize, &'a [u8]>,
    /// The relocations of `.debug_frame`.
    frames: HashMap<usize, Vec<FrameStart>>,
    /// The line tables of the file, with the code sections that they cover.
    line_tables: Vec<(&'static str, LineTableSections)>,
    /// Whether the file has debug information besides line tables.
    has_debug_info: bool,
    /// Why the line tables cannot be rewritten.
    lines_obstacle: Option<String>,
}

/// A relocation of `.debug_frame`.
struct FrameStart {
    /// The address in the code section.
    start: u64,
    /// The offset in `.debug_frame`.
    offset: usize,
}

/// The code sections that a line table covers.
#[derive(Default)]
struct LineTableSections {
    sections: HashSet<usize>,
    /// Whether a relocation of the table refers to no symbol of the file, so that the table may cover any code.
    is_about_any: bool,
}

impl<'a> CubinLayout<'a> {
    /// Collects the references of a file.
    pub fn new(data: &'a [u8], index: &'a CubinIndex<'a>, places: &'a [FileRange]) -> CubinLayout<'a> {
        let mut referred: HashMap<usize, Vec<u64>> = HashMap::new();
        for section in index.cubin().sections() {
            for (relocation, symbol) in located(index, section) {
                if !relocation.relocation_type.is_mercury()
                    && let Some((section, place)) = symbol
                {
                    referred.entry(section).or_default().push(place);
                }
            }
        }
        let mut frames: HashMap<usize, Vec<FrameStart>> = HashMap::new();
        for (relocation, symbol) in relocations_for(index, ".debug_frame") {
            if let Some((section, start)) = symbol {
                frames.entry(section).or_default().push(FrameStart { start, offset: relocation.offset as usize });
            }
        }
        let mut line_tables = Vec::new();
        for name in LINE_TABLES.into_iter().filter(|name| index.find(name).is_some()) {
            let mut lines = LineTableSections::default();
            for (relocation, symbol) in relocations_for(index, name) {
                lines.is_about_any |= index.symbols().get(relocation.symbol as usize).is_none();
                lines.sections.extend(symbol.map(|(section, _)| section));
            }
            line_tables.push((name, lines));
        }
        let frame_bytes = index.find(".debug_frame").and_then(|table| index.cubin().bytes_of(table));
        let frame_programs = frame_programs(frame_bytes.unwrap_or_default());
        let has_debug_info = index.find(".debug_info").is_some();
        let lines_obstacle = if line_tables.is_empty() { None } else { rewrite_lines(data, &MovedCode::new()).err() };
        CubinLayout { data, index, places, referred, frame_programs, frames, line_tables, has_debug_info, lines_obstacle }
    }
}

impl CubinLayout<'_> {
    /// Returns whether the file has a line table.
    pub fn has_line_tables(&self) -> bool {
        !self.line_tables.is_empty()
    }
}

/// Returns the file with line tables for code that moved.
pub fn rewrite_lines(data: &[u8], moved: &MovedCode) -> Result<Vec<u8>, String> {
    let mut cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    for name in LINE_TABLES {
        reorder_lines(&mut cubin, name, moved).map_err(|error| error.to_string())?;
    }
    cubin.write().map_err(|error| error.to_string())
}

/// Returns the relocations in a section, each with the section and offset that its symbol and addend refer to.
fn located<'a>(index: &'a CubinIndex<'a>, section: &'a Section) -> impl Iterator<Item = (&'a Relocation, Option<(usize, u64)>)> {
    let list = if let Content::Relocations(list) = &section.content { list.as_slice() } else { &[] };
    list.iter().map(|relocation| {
        let symbol = index.symbols().get(relocation.symbol as usize);
        let place = symbol.and_then(|symbol| match symbol.section {
            SymbolSection::Section(section) => Some((section as usize, symbol.value.wrapping_add_signed(relocation.addend.unwrap_or(0)))),
            _ => None,
        });
        (relocation, place)
    })
}

/// Returns the relocations of the section with this name.
fn relocations_for<'a>(index: &'a CubinIndex<'a>, name: &str) -> impl Iterator<Item = (&'a Relocation, Option<(usize, u64)>)> {
    let tables = index.find(name).map_or(&[][..], |section| index.relocation_tables(section));
    tables.iter().flat_map(|&table| located(index, &index.cubin().sections()[table]))
}

/// A function in its file.
pub struct FunctionSite<'a> {
    pub cubin: &'a CubinLayout<'a>,
    pub name: &'a str,
    /// Index of the function's symbol.
    pub symbol: usize,
    /// Index of the function's section.
    pub section: usize,
}

/// Names of the sections with line tables.
const LINE_TABLES: [&str; 2] = [".debug_line", ".nv_debug_line_sass"];

/// Names of attributes that hold no addresses of instructions.
const WITHOUT_PLACES: [&str; 44] = [
    "PARAM_CBANK",
    "CBANK_PARAM_SIZE",
    "KPARAM_INFO",
    "KPARAM_INFO_V2",
    "MAXREG_COUNT",
    "MAX_THREADS",
    "REQNTID",
    "CTAIDZ_USED",
    "CRS_STACK_SIZE",
    "FRAME_SIZE",
    "MIN_STACK_SIZE",
    "MAX_STACK_SIZE",
    "REGCOUNT",
    "EXTERNS",
    "WMMA_USED",
    "SW2861232_WAR",
    "SW2393858_WAR",
    "SW1850030_WAR",
    "SW_WAR",
    "CUDA_API_VERSION",
    "NUM_MBARRIERS",
    "CTA_PER_CLUSTER",
    "EXPLICIT_CLUSTER",
    "MAX_CLUSTER_RANK",
    "RESERVED_SMEM_USED",
    "RESERVED_SMEM_0_SIZE",
    "VRC_CTA_INIT_COUNT",
    "NUM_BARRIERS",
    "SPARSE_MMA_MASK",
    "TCGEN05_1CTA_USED",
    "TCGEN05_2CTA_USED",
    "GEN_ERRBAR_AT_EXIT",
    "REG_RECONFIG",
    "MERCURY_ISA_VERSION",
    "BINDLESS_TEXTURE_BANK",
    "BINDLESS_SURFACE_BANK",
    "BINDLESS_IMAGE_OFFSETS",
    "TEXMODE_INDEPENDENT",
    "SAMPLER_INIT",
    "SAMPLER_FORCE_UNNORMALIZED",
    "ISTYPEP_USED",
    "SUQ_USED",
    // It holds addresses of branches and of their targets, which do not move.
    "INDIRECT_BRANCH_TARGETS",
    "BLOCKS_ARE_CLUSTERS",
];

/// Size of a word in bytes.
const WORD: usize = 4;
/// Words per record of `MBARRIER_INSTR_OFFSETS`; the first is the address.
const MBARRIER_WORDS: usize = 4;
/// Words per record of `UNUSED_LOAD_BYTE_OFFSET`: address and mask.
const UNUSED_LOAD_WORDS: usize = 2;

/// Returns the number of words per record of an attribute whose records begin with an address, or `None` if the attribute holds no
/// addresses. Fails for an unknown attribute.
fn record_words(code: AttributeCode) -> Result<Option<usize>, String> {
    match code.name() {
        Some("MBARRIER_INSTR_OFFSETS") => Ok(Some(MBARRIER_WORDS)),
        Some("UNUSED_LOAD_BYTE_OFFSET") => Ok(Some(UNUSED_LOAD_WORDS)),
        Some("SYSCALL_OFFSETS") => Ok(Some(1)),
        Some("COOP_GROUP_MASK_REGIDS") => Ok(None),
        Some(name) if name.ends_with("INSTR_OFFSETS") => Ok(Some(1)),
        Some(name) if WITHOUT_PLACES.contains(&name) => Ok(None),
        _ => Err(format!("it has the attribute {code:?}, which may hold places of instructions")),
    }
}

impl FunctionSite<'_> {
    /// Returns the offset of a section in the file and its first `size` bytes.
    fn bytes_of(&self, section: usize, size: usize) -> Result<(usize, &[u8]), String> {
        let offset = self.cubin.places[section].offset as usize;
        let bytes = self.cubin.data.get(offset..offset + size).ok_or_else(|| "a section is not where the file says".to_owned())?;
        Ok((offset, bytes))
    }
}

/// Returns the changes to the file after instructions moved; `places` holds the new number of each instruction. An error says why the
/// instructions must not move.
pub fn relocate_addresses(site: &FunctionSite<'_>, places: &[usize]) -> Result<Vec<BytePatch>, String> {
    refuse_line_tables(site)?;
    let mut patches = Vec::new();
    let new_offset = |old: u64| -> Option<u64> {
        let place = places.get(old as usize / SIZE)?;
        Some((place * SIZE) as u64 + old % SIZE as u64)
    };
    for &index in site.cubin.index.relocation_tables(site.section) {
        let table = &site.cubin.index.cubin().sections()[index];
        let Content::Relocations(list) = &table.content else { continue };
        let size = if table.section_type == SectionType::RELA { 24 } else { 16 };
        let (start, _) = site.bytes_of(index, list.len() * size)?;
        for (number, relocation) in list.iter().enumerate().filter(|(_, relocation)| !relocation.relocation_type.is_mercury()) {
            let new = new_offset(relocation.offset).ok_or("a relocation is outside of the code")?;
            patches.push(BytePatch { offset: start + number * size, bytes: new.to_le_bytes().to_vec() });
        }
    }
    relocate_attributes(site, places, &mut patches)?;
    Ok(patches)
}

/// An attribute with a length field: its code and the range of its bytes.
type SizedAttribute = (AttributeCode, std::ops::Range<usize>);

/// Parses a `.nv.info` section and returns its attributes that have a length field.
fn sized_attributes(bytes: &[u8]) -> Vec<SizedAttribute> {
    const SIZED: u8 = 4;
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(&[format, code, low, high]) = bytes.get(at..at + WORD).and_then(|word| <&[u8; WORD]>::try_from(word).ok()) {
        at += WORD;
        if format == SIZED {
            let end = at + usize::from(u16::from_le_bytes([low, high]));
            found.push((AttributeCode(code), at..end.min(bytes.len())));
            at = end;
        }
    }
    found
}

/// Updates the lists of instructions in `.nv.info.NAME`. The lists stay sorted by address.
fn relocate_attributes(site: &FunctionSite<'_>, places: &[usize], patches: &mut Vec<BytePatch>) -> Result<(), String> {
    let Some(index) = site.cubin.index.find(&format!(".nv.info.{}", site.name)) else { return Ok(()) };
    for attribute in site.cubin.index.function_attributes(site.name) {
        record_words(attribute.code)?;
    }
    let size = site.cubin.index.cubin().bytes_of(index).map(<[u8]>::len);
    let (start, bytes) = site.bytes_of(index, size.unwrap_or(site.cubin.places[index].size as usize))?;
    let attributes = sized_attributes(bytes);
    let masks = attributes.iter().find(|(code, _)| code.name() == Some("COOP_GROUP_MASK_REGIDS"));
    for (code, range) in &attributes {
        let Some(words) = record_words(*code)? else { continue };
        let mut records: Vec<(u32, Vec<u8>)> = Vec::new();
        for record in bytes[range.clone()].chunks_exact(words * WORD) {
            let old = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
            let new = places.get(old as usize / SIZE).filter(|_| (old as usize).is_multiple_of(SIZE));
            let new = (*new.ok_or_else(|| format!("{code:?} holds {old:#x}, which is no instruction's place"))? * SIZE) as u32;
            records.push((new, [&new.to_le_bytes(), &record[WORD..]].concat()));
        }
        // The masks of these instructions are in a separate list in the same order, so that list is permuted in the same way.
        if code.name() == Some("COOP_GROUP_INSTR_OFFSETS")
            && let Some((_, mask_range)) = masks
        {
            let old_masks = &bytes[mask_range.clone()];
            if old_masks.len() != records.len() * WORD {
                return Err("the lists of warp-wide instructions and of their masks differ in length".to_owned());
            }
            let mut paired: Vec<(u32, &[u8])> = records.iter().map(|record| record.0).zip(old_masks.chunks_exact(WORD)).collect();
            paired.sort_by_key(|pair| pair.0);
            patches.push(BytePatch { offset: start + mask_range.start, bytes: paired.iter().flat_map(|pair| pair.1).copied().collect() });
        }
        records.sort_by_key(|record| record.0);
        patches.push(BytePatch { offset: start + range.start, bytes: records.into_iter().flat_map(|record| record.1).collect() });
    }
    Ok(())
}

/// Fails if a line table covers the function and cannot be rewritten, or if there is debug information of variables.
fn refuse_line_tables(site: &FunctionSite<'_>) -> Result<(), String> {
    let cubin = site.cubin;
    let Some((name, _)) = cubin.line_tables.iter().find(|(_, lines)| lines.is_about_any || lines.sections.contains(&site.section)) else {
        return Ok(());
    };
    if cubin.has_debug_info {
        return Err("its debug information (.debug_info) would not fit a new order; compile without -g".to_owned());
    }
    match &cubin.lines_obstacle {
        Some(reason) => Err(format!("its line table ({name}) cannot be rewritten: {reason}")),
        None => Ok(()),
    }
}

/// Returns the numbers of instructions whose addresses may be known elsewhere: symbols, relocation targets, branch targets, instructions
/// after a `BSYNC`, return addresses, rows of unwinding tables. Nothing moves across them.
pub fn fixed_addresses(site: &FunctionSite<'_>, decoded: &[Instruction]) -> Result<BTreeSet<usize>, String> {
    let mut places: BTreeSet<u64> = BTreeSet::new();
    let (index, symbols) = (site.cubin.index, site.cubin.index.symbols());
    places.extend(index.symbols_in(site.section).iter().map(|&symbol| symbols[symbol].value));
    places.extend(site.cubin.referred.get(&site.section).into_iter().flatten());
    for (number, instruction) in decoded.iter().enumerate() {
        let next = (number as u64 + 1) * SIZE as u64;
        places.extend(instruction.operands.iter().filter_map(|operand| match operand.value {
            OperandValue::Relative(distance) => Some(next.wrapping_add_signed(distance)),
            _ => None,
        }));
        if instruction.opcode == Opcode::BSYNC {
            places.insert(next);
        }
    }
    if decoded.iter().any(is_indirect_jump) {
        // Return addresses are immediates, and any immediate may be one.
        let numbers = decoded.iter().flat_map(|instruction| &instruction.operands).filter_map(|operand| match operand.value {
            OperandValue::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        });
        places.extend(numbers);
    }
    places.extend(unwinding_rows(site)?);
    let size = SIZE as u64;
    Ok(places
        .into_iter()
        .filter(|place| place % size == 0 && *place < decoded.len() as u64 * size)
        .map(|place| (place / size) as usize)
        .collect())
}

/// Returns whether an instruction jumps to an address in a register, or handles such an address.
fn is_indirect_jump(instruction: &Instruction) -> bool {
    matches!(instruction.opcode, Opcode::RET | Opcode::BRX | Opcode::BRXU | Opcode::LEPC | Opcode::RPCMOV)
        || instruction.opcode == Opcode::CALL
            && !instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Relative(_)))
}

/// Returns the addresses at which the unwinding rules change. A kernel without a stack frame is never unwound, so its rows do not matter.
fn unwinding_rows(site: &FunctionSite<'_>) -> Result<Vec<u64>, String> {
    let index = site.cubin.index;
    let has_frame = index.function_value(site.symbol, AttributeCode::FRAME_SIZE).is_none_or(|size| size != 0);
    let mut rows = Vec::new();
    for frame in site.cubin.frames.get(&site.section).into_iter().flatten().filter(|_| has_frame) {
        if let Some(program) = site.cubin.frame_programs.get(&frame.offset) {
            let found = rows_of(program).ok_or("its rules for unwinding cannot be read")?;
            rows.extend(found.into_iter().map(|row| frame.start + row));
        }
    }
    Ok(rows)
}

/// Returns the unwinding program of each frame description entry of `.debug_frame`, by the offset of its start address. Relocations for
/// other fields than the start address are ignored by their offset.
fn frame_programs(bytes: &[u8]) -> HashMap<usize, &[u8]> {
    const LENGTH: usize = 12;
    const IS_COMMON: u64 = u64::MAX;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let mut programs = HashMap::new();
    let mut at = 0_usize;
    while let Some(length) = word(at + 4).and_then(|length| usize::try_from(length).ok()) {
        let Some(end) = (at + LENGTH).checked_add(length) else { break };
        let Some(kind) = word(at + LENGTH) else { break };
        let address = at + LENGTH + 8;
        if kind != IS_COMMON
            && let Some(program) = bytes.get(address + 16..end)
        {
            programs.insert(address, program);
        }
        at = end;
    }
    programs
}

/// Returns the addresses at which an unwinding program starts a new row, in bytes from the start of the code. Returns `None` for an unknown
/// operation.
fn rows_of(program: &[u8]) -> Option<Vec<u64>> {
    const UNIT: u64 = 4;
    let mut program = program.iter().copied();
    let leb = |program: &mut dyn Iterator<Item = u8>| -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = program.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    let (mut rows, mut at) = (Vec::new(), 0);
    while let Some(op) = program.next() {
        // Opcodes of DWARF call frame instructions: advance_loc (0x40..), offset (0x80..), restore (0xc0..), and so on.
        match op {
            0x00 => {}
            0x02..=0x04 => {
                let width = 1 << (op - 2);
                let mut distance = 0;
                for byte in 0..width {
                    distance |= u64::from(program.next()?) << (8 * byte);
                }
                at += distance * UNIT;
                rows.push(at);
            }
            0x40..=0x7f => {
                at += u64::from(op & 0x3f) * UNIT;
                rows.push(at);
            }
            0x80..=0xbf => {
                leb(&mut program)?;
            }
            0xc0..=0xff | 0x0a | 0x0b => {}
            0x06..=0x08 | 0x0d | 0x0e => {
                leb(&mut program)?;
            }
            0x05 | 0x09 | 0x0c => {
                leb(&mut program)?;
                leb(&mut program)?;
            }
            0x10 | 0x16 => {
                leb(&mut program)?;
                let length = leb(&mut program)?;
                for _ in 0..length {
                    program.next()?;
                }
            }
            _ => return None,
        }
    }
    Some(rows)
}
