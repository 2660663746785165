//! Names for addresses in code, numbered as nvdisasm numbers them.
//!
//! nvdisasm walks the code sections in the order of the file. Each address that an instruction, a relocation or the list
//! of an indirect branch refers to and at which no function starts gets the next number, in the order in which the
//! references are met. Then the ends of the functions get numbers, in the order of the symbol table, also where another
//! function starts: such a number is used up but never seen, because the function's own name is printed.

use std::collections::HashMap;

use oriole_cubin::symbol::{Symbol, SymbolSection};

use super::program::{CodeSection, Program, SIZE, relative_target};

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
        for position in 0..sections.len() {
            let mut references = Vec::new();
            collect_references(program, position, &mut references);
            for (section, address) in references {
                sections[section].add_reference(address, &mut next);
            }
        }
        for symbol in program.cubin.symbols().iter().filter(|symbol| symbol.is_function()) {
            if let Some(position) = section_of(program, symbol) {
                sections[position].add_end(symbol.value.wrapping_add(symbol.size), &mut next);
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
    program.sections.iter().position(|section| section.index == usize::from(index))
}

/// What the code of a section refers to, in order: position of the section and address.
fn collect_references(program: &Program<'_>, position: usize, references: &mut Vec<(usize, u64)>) {
    let section = &program.sections[position];
    for (index, &word) in section.words.iter().enumerate() {
        let address = index as u64 * SIZE;
        if let Some(relocation) = section.relocation_at(address) {
            references.extend(super::relocated::code_target(program, relocation));
            continue;
        }
        if let Some(targets) = section.branch_targets_at(address) {
            references.extend(targets.iter().map(|&target| (position, u64::from(target))));
        } else if let Some(target) = relative_target(word, program.target, address) {
            references.push((position, target));
        }
    }
}

impl Names {
    fn new(program: &Program<'_>, section: &CodeSection<'_>) -> Names {
        let mut functions = HashMap::new();
        for &index in &section.symbols {
            let symbol = &program.cubin.symbols()[index];
            functions.entry(symbol.value).or_insert_with(|| symbol.name.clone());
        }
        Names { functions, numbers: HashMap::new() }
    }

    fn add_reference(&mut self, address: u64, next: &mut u32) {
        if !self.functions.contains_key(&address) {
            self.add_end(address, next);
        }
    }

    fn add_end(&mut self, address: u64, next: &mut u32) {
        self.numbers.entry(address).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
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
