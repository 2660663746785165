//! Fast lookup in a cubin.
//!
//! A [`Cubin`] can change at any time, so its own methods search all sections and symbols. Code that looks up data for every function
//! builds an [`CubinIndex`] first; the total time is then linear in the size of the file instead of quadratic in the number of functions.

use std::collections::HashMap;

use crate::cubin::Cubin;
use crate::info::{Attribute, AttributeCode, AttributeValue};
use crate::relocation::Relocation;
use crate::section::{Content, Section};
use crate::symbol::{Symbol, SymbolSection};

/// Lookup tables for a cubin.
#[derive(Debug)]
pub struct CubinIndex<'c> {
    cubin: &'c Cubin,
    symbols: &'c [Symbol],
    /// The first section of each name.
    by_name: HashMap<&'c str, usize>,
    /// For each section, the sections with its relocations, in file order.
    tables: HashMap<usize, Vec<usize>>,
    /// For each section, the symbols that are defined in it, in table order.
    symbols_in: HashMap<usize, Vec<usize>>,
    /// The per-symbol numbers of `.nv.info`: registers, frame size, stack size.
    values: HashMap<(AttributeCode, usize), u32>,
}

impl<'c> CubinIndex<'c> {
    /// Builds the tables in one pass over the cubin.
    pub fn new(cubin: &'c Cubin) -> CubinIndex<'c> {
        let symbols = cubin.symbols();
        let (mut by_name, mut tables, mut symbols_in, mut values) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        for (index, section) in cubin.sections().iter().enumerate() {
            by_name.entry(section.name.as_str()).or_insert(index);
            if matches!(section.content, Content::Relocations(_)) {
                tables.entry(section.info as usize).or_insert_with(Vec::new).push(index);
            }
        }
        for (index, symbol) in symbols.iter().enumerate() {
            if let SymbolSection::Section(section) = symbol.section {
                symbols_in.entry(section as usize).or_insert_with(Vec::new).push(index);
            }
        }
        for attribute in cubin.module_attributes() {
            if let AttributeValue::PerSymbol { symbol, value } = attribute.value {
                values.entry((attribute.code, symbol as usize)).or_insert(value);
            }
        }
        CubinIndex { cubin, symbols, by_name, tables, symbols_in, values }
    }

    pub fn cubin(&self) -> &'c Cubin {
        self.cubin
    }

    /// Returns the symbols of `.symtab`.
    pub fn symbols(&self) -> &'c [Symbol] {
        self.symbols
    }

    /// Returns the index of the section with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn section_named(&self, name: &str) -> Option<&'c Section> {
        self.cubin.section(self.find(name)?)
    }

    /// Returns the attributes of `.nv.info.NAME`.
    pub fn function_attributes(&self, name: &str) -> &'c [Attribute] {
        self.section_named(&format!(".nv.info.{name}")).and_then(Section::attributes).unwrap_or_default()
    }

    /// Returns the number that `.nv.info` holds for the function with this symbol: registers, frame size or stack size.
    pub fn function_value(&self, symbol: usize, code: AttributeCode) -> Option<u32> {
        self.values.get(&(code, symbol)).copied()
    }

    /// Returns the number of registers per thread of the function with this symbol.
    pub fn register_count(&self, symbol: usize) -> Option<u32> {
        self.function_value(symbol, AttributeCode::REGCOUNT)
    }

    /// Returns the indices of the sections with relocations for a section.
    pub fn relocation_tables(&self, section: usize) -> &[usize] {
        self.tables.get(&section).map_or(&[], Vec::as_slice)
    }

    /// Returns the relocations of a section sorted by offset, without those of its Mercury form.
    pub fn relocations(&self, section: usize) -> Vec<Relocation> {
        let lists = self.relocation_tables(section).iter().filter_map(|&table| match &self.cubin.section(table)?.content {
            Content::Relocations(list) => Some(list),
            _ => None,
        });
        let is_own = |relocation: &&Relocation| !relocation.relocation_type.is_mercury();
        let mut relocations: Vec<Relocation> = lists.flatten().filter(is_own).copied().collect();
        relocations.sort_by_key(|relocation| relocation.offset);
        relocations
    }

    /// Returns the indices of the symbols that are defined in a section, in table order.
    pub fn symbols_in(&self, section: usize) -> &[usize] {
        self.symbols_in.get(&section).map_or(&[], Vec::as_slice)
    }

    /// Returns the function symbols that are defined in a section.
    pub fn functions_in(&self, section: usize) -> impl Iterator<Item = &'c Symbol> + '_ {
        self.symbols_in(section).iter().map(|&symbol| &self.symbols[symbol]).filter(|symbol| symbol.is_function())
    }
}
