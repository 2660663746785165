//! Assigns labels to addresses in code, with the numbers that nvdisasm uses.
//!
//! nvdisasm assigns numbers in five rounds: (1) addresses that relocations of code refer to; (2) branch targets; (3) indirect branches
//! and their targets; (4) addresses that relocations of other sections, such as debug data, refer to; (5) ends of functions. Rounds 1 to
//! 3 go through the code sections in file order and through each section by address; round 5 goes through the functions in the order of
//! the symbol table. An address gets a number when it first occurs, unless a function starts there. In rounds 3 and 5 each occurrence
//! consumes a number, even if the address already has one or is a function.
//!
//! Relocatable files consume further numbers that are never printed: in round 2 one for the base of each indirect branch, and after
//! round 3 one for each jump table entry.

use std::collections::HashMap;

use oriole_cubin::FileType;
use oriole_cubin::relocation::{Relocation, RelocationType};
use oriole_cubin::section::Content;
use oriole_cubin::symbol::{Symbol, SymbolSection};

use super::program::{CodeSection, Program, SIZE, relative_target};
use super::relocated::code_target;

/// The labels of each code section of a program.
pub struct Labels {
    sections: Vec<Names>,
}

/// The labels of one section.
#[derive(Default)]
pub struct Names {
    /// Functions by start address; of several at the same address, the first in the symbol table.
    functions: HashMap<u64, String>,
    /// Label numbers by address.
    numbers: HashMap<u64, u32>,
}

impl Labels {
    /// Assigns all labels of a program.
    pub fn new(program: &Program<'_>) -> Labels {
        let mut sections: Vec<Names> = program.sections.iter().map(|section| Names::new(program, section)).collect();
        let mut next = 0;
        let relocations = program.sections.iter().flat_map(|section| &section.relocations);
        for (position, address) in relocations.filter_map(|relocation| code_target(program, relocation)) {
            sections[position].add_reference(address, &mut next);
        }
        let is_relocatable = program.cubin.header.file_type == FileType::Relocatable;
        for (position, section) in program.sections.iter().enumerate() {
            for branch in branches(program, section) {
                match branch {
                    Branch::Direct(target) => sections[position].add_reference(target, &mut next),
                    Branch::Indirect => next += u32::from(is_relocatable),
                }
            }
        }
        let mut jump_table_entries = 0;
        for (position, section) in program.sections.iter().enumerate() {
            for (branch, targets) in &section.indirect {
                let places = std::iter::once(*branch).chain(targets.iter().copied().map(u64::from));
                places.for_each(|address| sections[position].use_number(address, &mut next));
                jump_table_entries += targets.len() as u32;
            }
        }
        if is_relocatable {
            next += jump_table_entries;
        }
        for relocation in other_relocations(program) {
            if let Some((position, address)) = code_target(program, &relocation) {
                sections[position].add_reference(address, &mut next);
            }
        }
        for symbol in program.cubin.symbols().iter().filter(|symbol| symbol.is_function()) {
            if let Some(position) = section_of(program, symbol) {
                sections[position].use_number(symbol.value.wrapping_add(symbol.size), &mut next);
            }
        }
        Labels { sections }
    }

    /// Returns the labels of the code section at a position in the program.
    pub(crate) fn of_section(&self, position: usize) -> &Names {
        &self.sections[position]
    }
}

/// Returns the position of a symbol's section among the code sections.
pub(crate) fn section_of(program: &Program<'_>, symbol: &Symbol) -> Option<usize> {
    let SymbolSection::Section(index) = symbol.section else { return None };
    program.position(index as usize)
}

/// Returns the relocations that patch sections other than code: debug sections and data.
fn other_relocations(program: &Program<'_>) -> Vec<Relocation> {
    let is_code = |index: usize| program.position(index).is_some();
    let mut all = Vec::new();
    for table in program.cubin.sections().iter().filter(|table| !is_code(table.info as usize)) {
        if let Content::Relocations(list) = &table.content {
            let start = all.len();
            let patched = program.cubin.bytes_of(table.info as usize).unwrap_or_default();
            let own = list.iter().filter(|relocation| !relocation.relocation_type.is_mercury());
            all.extend(
                own.map(|relocation| Relocation {
                    addend: relocation.addend.or_else(|| stored_addend(relocation, patched)),
                    ..*relocation
                }),
            );
            all[start..].sort_by_key(|relocation| relocation.offset);
        }
    }
    all
}

/// Returns the addend stored in the patched bytes, for relocations without an explicit addend.
fn stored_addend(relocation: &Relocation, patched: &[u8]) -> Option<i64> {
    let rest = patched.get(usize::try_from(relocation.offset).ok()?..)?;
    match relocation.relocation_type {
        RelocationType::R_CUDA_64 => rest.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        RelocationType::R_CUDA_32 => rest.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
        _ => None,
    }
}

/// A branch instruction.
enum Branch {
    /// A branch to an address.
    Direct(u64),
    /// A branch by a register; an attribute lists the targets.
    Indirect,
}

/// Returns the branches of a section, in order. Branches whose target is set by a relocation are omitted.
fn branches<'p>(program: &'p Program<'_>, section: &'p CodeSection<'_>) -> impl Iterator<Item = Branch> + 'p {
    section.words.iter().enumerate().filter_map(|(index, &word)| {
        let address = index as u64 * SIZE;
        if !section.relocations_at(address).is_empty() {
            None
        } else if section.branch_targets_at(address).is_some() {
            Some(Branch::Indirect)
        } else {
            relative_target(word, program.target, address).map(Branch::Direct)
        }
    })
}

impl Names {
    fn new(program: &Program<'_>, section: &CodeSection<'_>) -> Names {
        let mut functions = HashMap::new();
        for &index in &section.symbols {
            let symbol = &program.cubin.symbols()[index];
            if !symbol.is_function() {
                continue;
            }
            functions.insert(symbol.value, symbol.name.clone());
        }
        Names { functions, numbers: HashMap::new() }
    }

    /// Assigns the next number to an address, unless it has one or is the start of a function.
    fn add_reference(&mut self, address: u64, next: &mut u32) {
        if !self.functions.contains_key(&address) {
            self.numbers.entry(address).or_insert_with(|| {
                *next += 1;
                *next - 1
            });
        }
    }

    /// Consumes the next number, and assigns it to the address unless the address already has one.
    fn use_number(&mut self, address: u64, next: &mut u32) {
        self.numbers.entry(address).or_insert(*next);
        *next += 1;
    }

    /// Returns the name of an address: a function or a label; `None` if there is neither.
    pub fn name(&self, address: u64) -> Option<String> {
        self.functions.get(&address).cloned().or_else(|| self.label(address))
    }

    /// Returns the label to print before an address; `None` where a function starts.
    pub fn label(&self, address: u64) -> Option<String> {
        let is_function = self.functions.contains_key(&address);
        self.numbers.get(&address).filter(|_| !is_function).map(|number| format!(".L_x_{number}"))
    }
}
