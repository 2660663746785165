//! Copies the DWARF sections that the PTX contains (`.section .debug_info { ... }` and others) into the cubin.
//!
//! References to functions, labels in code and variables become relocations, references to other sections become offsets. Locations in PTX
//! registers are copied unchanged: their register numbers are the characters of the register's name, and debuggers look the machine
//! register up in another section.

use oriole_cubin::build::{self, DebugRelocation, DebugSection, DebugSymbol};
use oriole_cubin::debug::{DEBUG_LINE, DEBUG_STR, frame_location};
use oriole_isel::VariableLocation;
use oriole_ptx::ast::{Body, DwarfItem, DwarfSection, Item, Module, Parameter, Statement, VariableId};
use oriole_support::Name;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compile_function::FinishedFunction;
use crate::emit::EmittedCode;
use crate::job::FunctionJob;
use crate::options::{DebugInfo, DebugKind};
use crate::whole_program::ProgramCompilation;

/// DWARF operator of a location at an address in memory.
const DW_OP_ADDR: u8 = 0x03;
/// Size in bytes of the operand of `DW_OP_addr`.
const ADDRESS_BYTES: usize = 8;

/// A function of the program, and its machine code.
pub type CompiledFunction<'a> = (&'a FunctionJob<'a>, &'a FinishedFunction);

/// The debug sections of the PTX that are copied into the cubin.
pub struct CopiedSections<'a> {
    /// The modules of the program.
    modules: Vec<&'a Module>,
    /// The joined sections, in the order in which the modules first name them.
    sections: Vec<CopiedSection<'a>>,
    /// For each label in a debug section, given by module and name: the index of the section and the offset in it, in bytes.
    labels: FxHashMap<(usize, Name), (usize, i64)>,
}

/// A debug section of the cubin, joined from the sections of all modules that have the same name.
struct CopiedSection<'a> {
    /// Name of the section, such as `.debug_info`.
    name: &'a str,
    /// The parts, one for each section of a module that was joined, as (index of the module, offset in the joined section in bytes,
    /// contents).
    parts: Vec<(usize, i64, &'a DwarfSection)>,
    /// Size of the joined section so far, in bytes.
    size_bytes: i64,
}

/// The meaning in the cubin of a label or name in a debug section.
#[derive(Clone, PartialEq, Eq)]
enum ResolvedName {
    /// An address: name of a symbol, and offset in bytes.
    Symbol(String, i64),
    /// An offset in a copied debug section: index of the section, and offset in bytes.
    Section(usize, i64),
    /// The start of the line table (`.debug_line`).
    LineTable,
    /// A variable on the stack: offset in bytes from the frame base, the end of the frame.
    Stack(i64),
    /// A constant, such as an offset in shared memory.
    Number(i64),
}

/// Returns the debug sections of the PTX to copy: all of them except the line table, which is written anew, or only the strings with names
/// of inlined functions if only line tables are requested.
pub fn copied_sections<'a>(program: &ProgramCompilation<'a>, debug: &DebugInfo) -> CopiedSections<'a> {
    let mut carried = CopiedSections { modules: program.modules.to_vec(), sections: Vec::new(), labels: FxHashMap::default() };
    for number in 0..debug.texts.len().min(program.modules.len()) {
        for item in &program.modules[number].items {
            let Item::Section(section) = item else { continue };
            let is_wanted = debug.kind == DebugKind::Full || is_string_section(&section.name);
            if is_wanted && &*section.name != DEBUG_LINE {
                carried.push(number, section);
            }
        }
    }
    carried
}

/// Returns whether a debug section of the PTX holds the strings that line tables refer to.
fn is_string_section(name: &str) -> bool {
    name == DEBUG_STR
}

impl<'a> CopiedSections<'a> {
    /// Appends a debug section of a module to the joined section of the same name, and records the offsets of its labels.
    fn push(&mut self, module: usize, section: &'a DwarfSection) {
        let known = self.sections.iter().position(|known| known.name == &*section.name);
        let index = known.unwrap_or_else(|| {
            self.sections.push(CopiedSection { name: &section.name, parts: Vec::new(), size_bytes: 0 });
            self.sections.len() - 1
        });
        let joined = &mut self.sections[index];
        joined.parts.push((module, joined.size_bytes, section));
        for item in &section.items {
            match *item {
                DwarfItem::Label(name) => {
                    self.labels.insert((module, name), (index, joined.size_bytes));
                }
                DwarfItem::Integers(bytes, count) => joined.size_bytes += i64::from(bytes) * i64::from(count),
                DwarfItem::Label64(bytes, ..) | DwarfItem::Difference(bytes, ..) => joined.size_bytes += i64::from(bytes),
            }
        }
    }

    /// Returns the offset in `.debug_str` of a label there plus `offset`, in bytes. The name `.debug_str` itself means the start of the
    /// module's part.
    pub fn debug_string_offset(&self, module: usize, name: Name, offset: i64) -> u64 {
        let in_label = self.labels.get(&(module, name)).map(|&(_, start)| start);
        let start = in_label.or_else(|| {
            let index = self.section_named(self.modules[module].name(name))?;
            self.module_part_start(index, module)
        });
        (start.unwrap_or(0) + offset).cast_unsigned()
    }

    /// Returns the index of the joined section with this name; `None` if there is none.
    fn section_named(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.name == name)
    }

    /// Returns the byte offset, in a joined section, of the first part that comes from a module; `None` if there is none.
    fn module_part_start(&self, section: usize, module: usize) -> Option<i64> {
        self.sections[section].parts.iter().find(|part| part.0 == module).map(|part| part.1)
    }

    /// Adds the copied debug sections to `file`, the description of the cubin. Names in them become relocations, offsets or numbers.
    pub fn add(&self, file: &mut build::Module, functions: &[CompiledFunction<'_>]) {
        let first = file.debug.len();
        let line_table = file.debug.iter().position(|section| section.name == DEBUG_LINE).unwrap_or(0);
        let resolver = DebugNameResolver::new(self, file, functions);
        let mut added = Vec::new();
        for section in &self.sections {
            let mut out = DebugSection { name: section.name.to_owned(), ..DebugSection::default() };
            for (module, _, part) in &section.parts {
                resolver.encode_section(&mut out, *module, part, first, line_table);
            }
            added.push(out);
        }
        file.debug.extend(added);
    }
}

/// Resolves labels and names in debug sections to addresses, offsets and numbers in the cubin.
struct DebugNameResolver<'a> {
    /// The debug sections that are copied into the cubin.
    carried: &'a CopiedSections<'a>,
    /// For each label in code, given by module and name: the name of the function and the byte offset in it.
    labels: FxHashMap<(usize, Name), (&'a str, i64)>,
    /// The locations of function-scope variables, by module and name.
    variables: FxHashMap<(usize, Name), ResolvedName>,
    /// Names of the symbols of the cubin.
    symbols: FxHashSet<String>,
}

impl<'a> DebugNameResolver<'a> {
    /// Collects the labels, variables and symbols that names in debug sections may refer to.
    fn new(carried: &'a CopiedSections<'a>, file: &build::Module, functions: &[CompiledFunction<'a>]) -> DebugNameResolver<'a> {
        let mut symbols: FxHashSet<String> = file.functions.iter().map(|function| function.name.clone()).collect();
        symbols.extend(file.variables.iter().map(|variable| variable.name.clone()));
        let shared = file.functions.iter().filter_map(|function| function.shared.as_ref());
        symbols.extend(shared.flat_map(|shared| &shared.variables).map(|variable| variable.name.clone()));
        symbols.extend(file.externs.iter().map(|external| external.name.clone()));
        let mut resolver = DebugNameResolver { carried, labels: FxHashMap::default(), variables: FxHashMap::default(), symbols };
        for &(job, finished) in functions {
            let Some(body) = job.function().body.as_deref() else { continue };
            for (name, address) in label_addresses(body, &finished.code) {
                resolver.labels.entry((job.module_number, name)).or_insert((job.name(), address));
            }
            for id in function_variables(job, body) {
                if let Some(target) = variable_location(job, finished, id, file.reserved_shared()) {
                    resolver.variables.insert((job.module_number, job.module.variables[id].name), target);
                }
            }
        }
        resolver
    }

    /// Returns the meaning of a name plus `offset` in the cubin; `None` if the cubin does not contain the object.
    fn resolve_name(&self, module: usize, name: Name, offset: i64) -> Option<ResolvedName> {
        let moved = |target: ResolvedName| match target {
            ResolvedName::Symbol(symbol, start) => ResolvedName::Symbol(symbol, start + offset),
            ResolvedName::Section(index, start) => ResolvedName::Section(index, start + offset),
            ResolvedName::Stack(start) => ResolvedName::Stack(start + offset),
            ResolvedName::Number(value) => ResolvedName::Number(value + offset),
            ResolvedName::LineTable => ResolvedName::LineTable,
        };
        if let Some(&(function, address)) = self.labels.get(&(module, name)) {
            return Some(moved(ResolvedName::Symbol(function.to_owned(), address)));
        }
        if let Some(&(section, start)) = self.carried.labels.get(&(module, name)) {
            return Some(moved(ResolvedName::Section(section, start)));
        }
        if let Some(target) = self.variables.get(&(module, name)) {
            return Some(moved(target.clone()));
        }
        let text = self.carried.modules[module].name(name);
        if text == DEBUG_LINE {
            return Some(ResolvedName::LineTable);
        }
        if let Some(section) = self.carried.section_named(text) {
            return Some(moved(ResolvedName::Section(section, self.carried.module_part_start(section, module).unwrap_or(0))));
        }
        self.symbols.contains(text).then(|| ResolvedName::Symbol(text.to_owned(), offset))
    }

    /// Appends the contents of a debug section of a module to `out`. `first` is the index, among the sections of the cubin, of the first
    /// copied debug section, and `line_table` that of the line table.
    fn encode_section(&self, out: &mut DebugSection, module: usize, section: &DwarfSection, first: usize, line_table: usize) {
        let mut data = &section.data[..];
        for item in &section.items {
            match *item {
                DwarfItem::Label(_) => {}
                DwarfItem::Integers(bytes, count) => {
                    let (now, rest) = data.split_at((usize::from(bytes) * count as usize).min(data.len()));
                    out.bytes.extend(now);
                    data = rest;
                }
                DwarfItem::Label64(bytes, name, offset) => {
                    let target = self.resolve_name(module, name, offset);
                    push_resolved_value(out, usize::from(bytes), target, first, line_table);
                }
                DwarfItem::Difference(bytes, left, right) => {
                    let value = match (self.resolve_name(module, left, 0), self.resolve_name(module, right, 0)) {
                        (Some(ResolvedName::Symbol(a, x)), Some(ResolvedName::Symbol(b, y))) if a == b => x - y,
                        (Some(ResolvedName::Section(a, x)), Some(ResolvedName::Section(b, y))) if a == b => x - y,
                        _ => 0,
                    };
                    push_resolved_value(out, usize::from(bytes), Some(ResolvedName::Number(value)), first, line_table);
                }
            }
        }
    }
}

/// Appends a number of `size` bytes that stands for `target`, with a relocation if it needs one. References to objects that the cubin does
/// not contain are 0. `first` and `line_table` are indices of sections as in [`DebugNameResolver::encode_section`].
fn push_resolved_value(out: &mut DebugSection, size: usize, target: Option<ResolvedName>, first: usize, line_table: usize) {
    let offset = out.bytes.len() as u64;
    let (symbol, addend) = match target {
        Some(ResolvedName::Symbol(name, addend)) => (DebugSymbol::Named(name), addend),
        Some(ResolvedName::Section(index, addend)) => (DebugSymbol::Section(first + index), addend),
        Some(ResolvedName::LineTable) => (DebugSymbol::Section(line_table), 0),
        Some(ResolvedName::Stack(distance)) if size == ADDRESS_BYTES && out.bytes.last() == Some(&DW_OP_ADDR) => {
            out.bytes.pop();
            // The new location expression has the same length as the one that it replaces, `DW_OP_addr` with its operand.
            out.bytes.extend(frame_location(distance, 1 + ADDRESS_BYTES));
            return;
        }
        Some(ResolvedName::Number(value)) => {
            out.bytes.extend(&value.to_le_bytes()[..size]);
            return;
        }
        Some(ResolvedName::Stack(_)) | None => {
            out.bytes.extend(&[0; ADDRESS_BYTES][..size]);
            return;
        }
    };
    out.bytes.extend(&[0; ADDRESS_BYTES][..size]);
    out.relocations.push(DebugRelocation { offset, size_bytes: size as u8, symbol, addend });
}

/// Returns the parameters of a function and the variables that its body declares.
fn function_variables<'a>(job: &'a FunctionJob<'_>, body: &'a Body) -> impl Iterator<Item = VariableId> + 'a {
    let parameters = job.function().parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Variable(id) => Some(id),
        _ => None,
    });
    let declared = body.statements.iter().filter_map(|statement| match *statement {
        Statement::Variable(id) => Some(id),
        _ => None,
    });
    parameters.chain(declared)
}

/// Returns the location of a function-scope variable, in bytes: an offset from the frame base (the end of the frame), an offset in shared
/// memory, or an offset in constant bank 0. `None` if the variable has none of these. `reserved_shared` is the number of bytes of shared
/// memory before the first variable.
fn variable_location(job: &FunctionJob<'_>, finished: &FinishedFunction, id: VariableId, reserved_shared: u64) -> Option<ResolvedName> {
    match job.variables.get(id)? {
        VariableLocation::Local(offset) => {
            Some(ResolvedName::Stack(i64::from(finished.selection.locals_start) + i64::from(*offset) - i64::from(finished.frame_bytes)))
        }
        VariableLocation::Shared(offset) => Some(ResolvedName::Number(reserved_shared.cast_signed() + i64::from(*offset))),
        VariableLocation::Parameter(offset) => Some(ResolvedName::Number(i64::from(job.variables.parameters_start) + i64::from(*offset))),
        _ => None,
    }
}

/// Returns the byte offset in the code of each label of a body: the offset of the next PTX instruction for which there is code. Labels
/// before the first instruction are at the start of the function, labels after the last one at its end.
fn label_addresses(body: &Body, code: &EmittedCode) -> Vec<(Name, i64)> {
    let mut starts: FxHashMap<u32, u32> = FxHashMap::default();
    for (offset, location) in &code.locations {
        starts.entry(location.statement).and_modify(|start| *start = (*start).min(*offset)).or_insert(*offset);
    }
    let first = body.statements.iter().position(|statement| matches!(statement, Statement::Instruction(_)));
    let mut next = code.bytes.len() as u32;
    let mut found = Vec::new();
    for (number, statement) in body.statements.iter().enumerate().rev() {
        match *statement {
            Statement::Instruction(_) => {
                let statement = body.position(number).map_or(0, |span| span.start + 1);
                next = starts.get(&statement).copied().unwrap_or(next);
            }
            Statement::Label(label) => {
                let address = if first.is_some_and(|first| number < first) { 0 } else { next };
                found.push((body.labels[label].name, i64::from(address)));
            }
            _ => {}
        }
    }
    found
}
