//! Names for addresses in code, numbered as nvdisasm numbers them.
//!
//! nvdisasm gives numbers in three rounds: to places that relocations refer to; to places that branches go to, indirect
//! ones included; to the ends of functions. The first two go through the code sections in the order of the file and
//! through each by address, and number what is referred to in the order in which the references are met; a place at which
//! a function starts needs no number. The third takes the functions in the order of the symbol table and uses up a number
//! for each, also where the place has a number or a name already.

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
    /// Functions that start here; the first one of an address counts.
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
        for position in 0..sections.len() {
            for address in branch_targets(program, position) {
                sections[position].add_reference(address, &mut next);
            }
        }
        for symbol in program.cubin.symbols().iter().filter(|symbol| symbol.is_function()) {
            if let Some(position) = section_of(program, symbol) {
                sections[position].numbers.entry(symbol.value.wrapping_add(symbol.size)).or_insert(next);
                next += 1;
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

/// Where the branches of a section go, in order.
fn branch_targets(program: &Program<'_>, position: usize) -> Vec<u64> {
    let section = &program.sections[position];
    let mut targets = Vec::new();
    for (index, &word) in section.words.iter().enumerate() {
        let address = index as u64 * SIZE;
        if let Some(list) = section.branch_targets_at(address) {
            targets.extend(list.iter().copied().map(u64::from));
        } else if section.relocation_at(address).is_none() {
            targets.extend(relative_target(word, program.target, address));
        }
    }
    targets
}

impl Names {
    fn new(program: &Program<'_>, section: &CodeSection<'_>) -> Names {
        let mut functions = HashMap::new();
        for &index in &section.symbols {
            let symbol = &program.cubin.symbols()[index];
            if !symbol.is_function() {
                continue;
            }
            functions.entry(symbol.value).or_insert_with(|| symbol.name.clone());
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
