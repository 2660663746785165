//! Adds the debug sections of the cubin: line tables, the PTX text, and the DWARF that the PTX contains.
//!
//! Runs after all functions are encoded. The source positions come from [`EmittedCode::locations`](crate::emit::EmittedCode): passes keep
//! the location of an instruction, and copy it to the instructions that they insert for it. `docs/debugging.md` describes the sections.

pub(crate) mod assignments;
mod dwarf;
pub(crate) mod joins;
mod lines;
pub(crate) mod location_lists;
mod ptx_text;
pub(crate) mod register_contents;
mod register_tables;
pub(crate) mod registers;
pub(crate) mod saved_registers;
mod source_places;
pub(crate) mod variables;

use oriole_cubin::build::{self, DebugRelocation, DebugSection, DebugSymbol};
use oriole_cubin::debug::{DEBUG_LINE, DEBUG_LINE_SASS, DEBUG_PTX_TEXT, DEBUG_STR, EncodedLines, LineProgram, SourceFile};
use oriole_cubin::target::LayoutGeneration;
use oriole_ptx::ast::Item;
use oriole_ptx::source::LineIndex;
use rustc_hash::FxHashMap;

use crate::error::ErrorCause;
use crate::options::{DebugInfo, DebugKind, Options};
use crate::whole_program::ProgramCompilation;

use self::dwarf::CompiledFunction;

/// Name of the section with the machine registers that hold PTX registers.
const DEBUG_REGISTERS_SECTION: &str = ".nv_debug_info_reg_sass";
/// Name of the section with the types of the PTX registers in [`DEBUG_REGISTERS_SECTION`].
const DEBUG_REGISTER_TYPES_SECTION: &str = ".nv_debug_info_reg_type";

/// Adds the debug sections that the options request to the description of the cubin.
pub(crate) fn add_debug_sections(file: &mut build::Module, program: &ProgramCompilation<'_>, options: &Options) -> Result<(), ErrorCause> {
    let Some(debug) = &options.debug else { return Ok(()) };
    let compiled: FxHashMap<&str, CompiledFunction<'_>> =
        program.jobs.iter().zip(program.finished).map(|(job, finished)| (job.name(), (job, finished))).collect();
    let functions: Vec<CompiledFunction<'_>> =
        file.functions.iter().filter_map(|function| compiled.get(function.name.as_str()).copied()).collect();
    let mut writer = DebugSectionWriter { program, debug, functions, carried: dwarf::copied_sections(program, debug) };
    writer.add(file).map_err(|error| ErrorCause::Limit(error.to_string()))
}

/// Builds the debug sections of a cubin.
struct DebugSectionWriter<'a> {
    /// The compiled program.
    program: &'a ProgramCompilation<'a>,
    /// The debug information that the options request.
    debug: &'a DebugInfo,
    /// The functions in the order in which the cubin has them.
    functions: Vec<CompiledFunction<'a>>,
    /// The debug sections of the PTX that are copied into the cubin.
    carried: dwarf::CopiedSections<'a>,
}

impl DebugSectionWriter<'_> {
    /// Adds all requested debug sections to the description of the cubin. Fails if one is too large for 32-bit DWARF.
    fn add(&mut self, file: &mut build::Module) -> oriole_cubin::Result<()> {
        let is_relocatable = file.is_relocatable();
        let source_line_table = self.source_line_table()?;
        let text = self.joined_ptx_text();
        let text_name = if is_relocatable { format!("{DEBUG_PTX_TEXT}.{}", ptx_text_hash(&text.bytes)) } else { DEBUG_PTX_TEXT.to_owned() };
        let text_file = is_relocatable.then(|| SourceFile { name: text_name.clone(), time: 0, size: 0 });
        let ptx_line_table = self.ptx_line_table(&text, text_file)?;
        let string_fields = source_line_table.string_fields.clone();
        file.debug.push(line_table_section(DEBUG_LINE, source_line_table));
        file.debug.push(line_table_section(DEBUG_LINE_SASS, ptx_line_table));
        file.debug.push(DebugSection { name: text_name, bytes: text.bytes, relocations: Vec::new() });
        if self.debug.kind == DebugKind::Full {
            file.debug.extend(self.register_sections());
        }
        self.carried.add(file, &self.functions);
        if file.traits.style == LayoutGeneration::Ampere {
            add_string_relocations(file, &string_fields);
        }
        Ok(())
    }

    /// Returns the line table of the source files: one unit for each module.
    fn source_line_table(&self) -> oriole_cubin::Result<EncodedLines> {
        let mut programs = Vec::new();
        for number in 0..self.debug.texts.len() {
            let Some(module) = self.program.modules.get(number) else { continue };
            let mut files: Vec<(u32, SourceFile)> = module.items.iter().filter_map(match_source_file).collect();
            files.sort_by_key(|file| file.0);
            let numbers: FxHashMap<u32, u64> = files.iter().zip(1..).map(|((index, _), number)| (*index, number)).collect();
            let names = |name, offset| self.carried.debug_string_offset(number, name, offset);
            let of_module = self.functions.iter().filter(|(job, _)| job.module_number == number);
            let sequences =
                of_module.filter_map(|(job, finished)| lines::source_line_sequence(job, &finished.code, &numbers, &names)).collect();
            programs.push(LineProgram { files: files.into_iter().map(|(_, file)| file).collect(), sequences });
        }
        EncodedLines::new(&programs)
    }

    /// Returns the two sections that map PTX registers to machine registers and to types.
    fn register_sections(&self) -> Vec<DebugSection> {
        let mut tables = register_tables::RegisterTables::default();
        for (job, finished) in self.functions.iter().filter(|(job, _)| job.module_number < self.debug.texts.len()) {
            if let Some(body) = job.function().body.as_deref() {
                tables.push(job.name(), job.module, body, &finished.code);
            }
        }
        let section = |name: &str, bytes| DebugSection { name: name.to_owned(), bytes, relocations: Vec::new() };
        let sections = [section(DEBUG_REGISTERS_SECTION, tables.encoded_ranges), section(DEBUG_REGISTER_TYPES_SECTION, tables.types)];
        sections.into_iter().filter(|section| !section.bytes.is_empty()).collect()
    }

    /// Returns the PTX text of all modules in the form of the section `.nv_debug_ptx_txt`.
    fn joined_ptx_text(&self) -> ptx_text::PtxText {
        let mut text = ptx_text::PtxText::default();
        self.debug.texts.iter().for_each(|module| text.push(module));
        text
    }

    /// Returns the line table of the PTX text. `file` is the name of the text in relocatable files; `None` otherwise.
    fn ptx_line_table(&self, text: &ptx_text::PtxText, file: Option<SourceFile>) -> oriole_cubin::Result<EncodedLines> {
        let file_number = u64::from(file.is_some());
        let indices: Vec<LineIndex> = self.debug.texts.iter().map(|text| LineIndex::new(text)).collect();
        let mut program = LineProgram { files: file.into_iter().collect(), sequences: Vec::new() };
        for (job, finished) in &self.functions {
            let (Some(index), Some(source)) = (indices.get(job.module_number), self.debug.texts.get(job.module_number)) else { continue };
            let first_line = text.first_lines[job.module_number];
            let line_of = |offset: u32| first_line + u64::from(index.line_column(offset).0);
            program.sequences.push(lines::ptx_line_sequence(job, &finished.code, source, file_number, &line_of));
        }
        EncodedLines::new(&[program])
    }
}

/// Returns the number and description of a `.file` directive; `None` for other items.
fn match_source_file(item: &Item) -> Option<(u32, SourceFile)> {
    match item {
        Item::File { index, name, stamp } => {
            let (time, size) = stamp.unwrap_or_default();
            Some((*index, SourceFile { name: name.to_string(), time, size }))
        }
        _ => None,
    }
}

/// Returns a debug section with a line table, and with a relocation for the start address of each function.
fn line_table_section(name: &str, lines: EncodedLines) -> DebugSection {
    let relocation =
        |(offset, function): (u64, String)| DebugRelocation { offset, size_bytes: 8, symbol: DebugSymbol::Named(function), addend: 0 };
    DebugSection { name: name.to_owned(), bytes: lines.bytes, relocations: lines.addresses.into_iter().map(relocation).collect() }
}

/// Adds relocations for the fields of the line table that hold an offset in `.debug_str`; `fields` has the byte offsets of the fields. For
/// Hopper and later GPUs ptxas writes no such relocations.
fn add_string_relocations(file: &mut build::Module, fields: &[u64]) {
    let index = |name: &str| file.debug.iter().position(|section| section.name == name);
    let (Some(lines), Some(strings)) = (index(DEBUG_LINE), index(DEBUG_STR)) else { return };
    let relocation = |&offset: &u64| DebugRelocation { offset, size_bytes: 4, symbol: DebugSymbol::Section(strings), addend: 0 };
    file.debug[lines].relocations.extend(fields.iter().map(relocation));
}

/// Returns the 32-bit FNV-1a hash of a PTX text. It distinguishes the PTX texts of the objects that a linker joins.
fn ptx_text_hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
