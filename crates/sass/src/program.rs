//! The code of a cubin, prepared for listings: sections with their symbols and relocations, and branch targets.

use std::collections::HashMap;

use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::symbol::Symbol;
use oriole_cubin::{Cubin, CubinIndex};
use oriole_isa::table::{Core, NumberFormat};
use oriole_isa::{Target, form_of};

/// Size of an instruction in bytes.
pub const SIZE: u64 = 16;

/// ELF symbol type of a section.
const STT_SECTION: u8 = 3;

/// The code sections of a cubin.
pub struct Program<'c> {
    pub cubin: &'c Cubin,
    pub index: CubinIndex<'c>,
    pub target: Target,
    pub sections: Vec<CodeSection<'c>>,
    /// Positions in `sections` by section index in the cubin.
    positions: HashMap<usize, usize>,
}

/// A section `.text.NAME`.
pub struct CodeSection<'c> {
    /// Section index in the cubin.
    pub index: usize,
    /// Name of the section.
    pub name: &'c str,
    /// Name of the function.
    pub function: &'c str,
    /// Whether the function is a kernel.
    pub is_kernel: bool,
    /// Index of the function's symbol.
    symbol: usize,
    code: &'c [u8],
    /// The instructions.
    pub words: Vec<u128>,
    /// Bytes after the last whole instruction; empty in files that a compiler made.
    pub tail: &'c [u8],
    /// Indices of the symbols of functions in the section and of the section itself, sorted by address. Symbols at the same address are in
    /// the reverse order of the symbol table.
    pub symbols: Vec<usize>,
    /// Relocations that patch the section, sorted by offset.
    pub relocations: Vec<Relocation>,
    /// Offset and possible targets of each indirect branch, sorted by offset.
    pub indirect: Vec<(u64, &'c [u32])>,
}

/// Returns the outcome for a file of several cubins: an error if some of them cannot be read, or if the file has no machine code at all.
pub fn outcome_of_file(mut problems: Vec<String>, instructions: usize) -> Result<(), String> {
    problems.sort_unstable();
    problems.dedup();
    match problems.is_empty() {
        false => Err(problems.join("; ")),
        true if instructions == 0 => Err("there is no machine code in this file".to_owned()),
        true => Ok(()),
    }
}

impl<'c> Program<'c> {
    /// Collects the code of a cubin.
    pub fn new(cubin: &'c Cubin) -> Result<Program<'c>, String> {
        let unknown = || format!("there is no table of instructions for {}", cubin.target_name());
        let target = cubin.target().ok_or_else(unknown)?;
        let index = CubinIndex::new(cubin);
        let sections: Vec<CodeSection<'_>> = cubin.functions().map(|function| section(&index, &function)).collect();
        let mut positions = HashMap::new();
        for (position, section) in sections.iter().enumerate() {
            positions.entry(section.index).or_insert(position);
        }
        Ok(Program { cubin, index, target, sections, positions })
    }

    /// Returns the position among the code sections of a section of the cubin.
    pub fn position(&self, index: usize) -> Option<usize> {
        self.positions.get(&index).copied()
    }
}

fn section<'c>(index: &CubinIndex<'c>, function: &oriole_cubin::Function<'c>) -> CodeSection<'c> {
    let (words, tail) = words_of(function.code);
    CodeSection {
        index: function.section,
        name: &index.cubin().sections()[function.section].name,
        function: function.name,
        is_kernel: function.is_kernel,
        symbol: function.symbol,
        code: function.code,
        words,
        tail,
        symbols: symbols_in(index, function.section),
        relocations: index.relocations(function.section),
        indirect: indirect_branches(index, function.name),
    }
}

/// Splits bytes into instructions and the remaining bytes.
pub fn words_of(bytes: &[u8]) -> (Vec<u128>, &[u8]) {
    let (words, tail) = bytes.as_chunks::<{ SIZE as usize }>();
    (words.iter().map(|word| u128::from_le_bytes(*word)).collect(), tail)
}

fn symbols_in(index: &CubinIndex<'_>, section: usize) -> Vec<usize> {
    let all = index.symbols();
    let is_shown = |symbol: &Symbol| symbol.is_function() || symbol.symbol_type == STT_SECTION;
    let mut symbols: Vec<usize> = index.symbols_in(section).iter().rev().copied().filter(|&symbol| is_shown(&all[symbol])).collect();
    symbols.sort_by_key(|&symbol| all[symbol].value);
    symbols
}

fn indirect_branches<'c>(index: &CubinIndex<'c>, function: &str) -> Vec<(u64, &'c [u32])> {
    let mut branches = Vec::new();
    for attribute in index.function_attributes(function) {
        if let (AttributeCode::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(list)) = (attribute.code, &attribute.value) {
            branches.extend(list.iter().map(|branch| (u64::from(branch.branch), &branch.targets[..])));
        }
    }
    branches.sort_by_key(|branch| branch.0);
    branches
}

impl CodeSection<'_> {
    /// Returns the function of the section.
    pub fn as_function(&self) -> oriole_cubin::Function<'_> {
        let CodeSection { function: name, symbol, index: section, is_kernel, code, .. } = *self;
        oriole_cubin::Function { name, symbol, section, is_kernel, code }
    }

    /// Returns the relocations of the instruction at an address.
    pub(crate) fn relocations_at(&self, address: u64) -> &[Relocation] {
        let start = self.relocations.partition_point(|relocation| relocation.offset < address);
        let count = self.relocations[start..].iter().take_while(|relocation| relocation.offset == address).count();
        &self.relocations[start..start + count]
    }

    /// Returns the possible targets of the indirect branch at an address.
    pub fn branch_targets_at(&self, address: u64) -> Option<&[u32]> {
        let found = self.indirect.binary_search_by_key(&address, |branch| branch.0);
        found.ok().map(|index| self.indirect[index].1)
    }

    /// Returns the size of the code in bytes.
    pub fn length(&self) -> u64 {
        self.words.len() as u64 * SIZE + self.tail.len() as u64
    }
}

/// Returns the address that the relative operand of a word refers to; `None` if it has none.
pub(crate) fn relative_target(word: u128, target: Target, address: u64) -> Option<u64> {
    let form = form_of(word, target)?.form();
    let bits = form.operands.iter().find_map(|slot| match &slot.core {
        Core::Number(NumberFormat::Relative, bits) | Core::RegisterAndNumber(_, _, NumberFormat::Relative, bits) => Some(bits),
        _ => None,
    })?;
    let distance = bits.signed(word);
    u64::try_from((address as i64).checked_add(SIZE as i64)?.checked_add(distance)?).ok()
}
