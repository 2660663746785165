//! Names for addresses in code, numbered as nvdisasm numbers them.
//!
//! nvdisasm gives numbers in four rounds: to places that relocations refer to; to places that branches go to; to indirect
//! branches and their targets; to the ends of functions. The first three go through the code sections in the order of the
//! file and through each by address; the last takes the functions in the order of the symbol table. In the first two
//! rounds a place gets a number when it is first met, unless a function starts there. In the last two every place uses up
//! a number, also if it has one already.

use std::collections::HashMap;

use oriole_cubin::symbol::{Symbol, SymbolSection};

use super::program::{CodeSection, Program, SIZE, relative_target};
use super::relocated::code_target;

/// What addresses are called, for each code section of a program.
pub struct Labels {
    sections: Vec<Names>,
}

/// Names of the addresses of one section.
#[derive(Default)]
pub struct Names {
    /// Functions that start here; the first one of the symbol table counts.
    functions: HashMap<u64, String>,
    numbers: HashMap<u64, u32>,
}

impl Labels {
    /// Numbers all labels of a program.
    pub fn new(program: &Program<'_>) -> Labels {
        let mut sections: Vec<Names> = program.sections.iter().map(|section| Names::new(program, section)).collect();
        let mut next = 0;
        let relocations = program.sections.iter().flat_map(|section| &section.relocations);
        for (position, address) in relocations.filter_map(|relocation| code_target(program, relocation)) {
            sections[position].add_reference(address, &mut next);
        }
        for (position, section) in program.sections.iter().enumerate() {
            for address in branch_targets(program, section) {
                sections[position].add_reference(address, &mut next);
            }
        }
        for (position, section) in program.sections.iter().enumerate() {
            for (branch, targets) in &section.indirect {
                let places = std::iter::once(*branch).chain(targets.iter().copied().map(u64::from));
                places.for_each(|address| sections[position].use_number(address, &mut next));
            }
        }
        for symbol in program.cubin.symbols().iter().filter(|symbol| symbol.is_function()) {
            if let Some(position) = section_of(program, symbol) {
                sections[position].use_number(symbol.value.wrapping_add(symbol.size), &mut next);
            }
        }
        Labels { sections }
    }

    /// The names of the code section at a position among the program's.
    pub fn of_section(&self, position: usize) -> &Names {
        &self.sections[position]
    }
}

/// The position of a symbol's section among the code sections.
pub fn section_of(program: &Program<'_>, symbol: &Symbol) -> Option<usize> {
    let SymbolSection::Section(index) = symbol.section else { return None };
    program.sections.iter().position(|section| section.index == index as usize)
}

/// Where the branches of a section go, in order. Those that a relocation fills in or an attribute lists are left out.
fn branch_targets<'p>(program: &'p Program<'_>, section: &'p CodeSection<'_>) -> impl Iterator<Item = u64> + 'p {
    section.words.iter().enumerate().filter_map(|(index, &word)| {
        let address = index as u64 * SIZE;
        let is_listed = section.relocation_at(address).is_some() || section.branch_targets_at(address).is_some();
        if is_listed { None } else { relative_target(word, program.target, address) }
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

    fn add_reference(&mut self, address: u64, next: &mut u32) {
        if !self.functions.contains_key(&address) {
            self.numbers.entry(address).or_insert_with(|| {
                *next += 1;
                *next - 1
            });
        }
    }

    fn use_number(&mut self, address: u64, next: &mut u32) {
        self.numbers.entry(address).or_insert(*next);
        *next += 1;
    }

    /// What an address is called; none if nothing refers to it.
    pub fn name(&self, address: u64) -> Option<String> {
        self.functions.get(&address).cloned().or_else(|| self.label(address))
    }

    /// The label to print in front of an address; none where a function starts.
    pub fn label(&self, address: u64) -> Option<String> {
        let is_function = self.functions.contains_key(&address);
        self.numbers.get(&address).filter(|_| !is_function).map(|number| format!(".L_x_{number}"))
    }
}
