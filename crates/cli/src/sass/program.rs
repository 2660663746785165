//! The code of a cubin, ready to be listed: sections, the symbols and relocations inside them, and where branches go.

use oriole_cubin::Cubin;
use oriole_cubin::info::{Code as AttributeCode, Value};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::section::Content;
use oriole_cubin::symbol::{Symbol, SymbolSection};
use oriole_isa::table::{Core, Format};
use oriole_isa::{Target, form_of};

/// Bytes of an instruction.
pub const SIZE: u64 = 16;

/// ELF's type of a symbol that stands for a section.
const STT_SECTION: u8 = 3;

/// Every code section of a cubin.
pub struct Program<'c> {
    pub cubin: &'c Cubin,
    pub target: Target,
    pub sections: Vec<CodeSection<'c>>,
}

/// A section `.text.NAME`.
pub struct CodeSection<'c> {
    /// Index in the cubin.
    pub index: usize,
    /// Name of the section.
    pub name: &'c str,
    /// Name of the function it is for.
    pub function: &'c str,
    /// Its instructions.
    pub words: Vec<u128>,
    /// Bytes behind the last whole instruction; none in files that a compiler made.
    pub tail: &'c [u8],
    /// Indices of the symbols of functions in it and of its own, by address; of those at the same address the last one of
    /// the table comes first.
    pub symbols: Vec<usize>,
    /// Relocations that patch it, by offset.
    pub relocations: Vec<Relocation>,
    /// For each indirect branch its offset and where it can go, by offset.
    pub indirect: Vec<(u64, &'c [u32])>,
}

impl<'c> Program<'c> {
    /// Finds the code of a cubin.
    pub fn new(cubin: &'c Cubin) -> Result<Program<'c>, String> {
        let name = cubin.target_name();
        let unknown = || format!("there is no table of instructions for {name}");
        let target = Target::parse(&name).ok_or_else(unknown)?;
        let sections = cubin.functions().map(|function| section(cubin, &function)).collect();
        Ok(Program { cubin, target, sections })
    }
}

fn section<'c>(cubin: &'c Cubin, function: &oriole_cubin::Function<'c>) -> CodeSection<'c> {
    let (words, tail) = words_of(function.code);
    CodeSection {
        index: function.section,
        name: &cubin.sections()[function.section].name,
        function: function.name,
        words,
        tail,
        symbols: symbols_in(cubin, function.section),
        relocations: relocations_of(cubin, function.section),
        indirect: indirect_branches(cubin, function.name),
    }
}

/// Bytes as instructions, and what is left over.
pub fn words_of(bytes: &[u8]) -> (Vec<u128>, &[u8]) {
    let (words, tail) = bytes.as_chunks::<{ SIZE as usize }>();
    (words.iter().map(|word| u128::from_le_bytes(*word)).collect(), tail)
}

fn symbols_in(cubin: &Cubin, section: usize) -> Vec<usize> {
    let all = cubin.symbols();
    let inside = |symbol: &Symbol| matches!(symbol.section, SymbolSection::Section(index) if index as usize == section);
    let is_shown = |symbol: &Symbol| (symbol.is_function() || symbol.symbol_type == STT_SECTION) && inside(symbol);
    let mut symbols: Vec<usize> = (0..all.len()).rev().filter(|&index| is_shown(&all[index])).collect();
    symbols.sort_by_key(|&index| all[index].value);
    symbols
}

fn relocations_of(cubin: &Cubin, section: usize) -> Vec<Relocation> {
    let tables = cubin.sections().iter().filter(|table| table.info as usize == section);
    let lists = tables.filter_map(|table| match &table.content {
        Content::Relocations(list) => Some(list),
        _ => None,
    });
    let is_own = |relocation: &&Relocation| !relocation.relocation_type.is_mercury();
    let mut relocations: Vec<Relocation> = lists.flatten().filter(is_own).copied().collect();
    relocations.sort_by_key(|relocation| relocation.offset);
    relocations
}

fn indirect_branches<'c>(cubin: &'c Cubin, function: &str) -> Vec<(u64, &'c [u32])> {
    let mut branches = Vec::new();
    for attribute in cubin.function_attributes(function) {
        if let (AttributeCode::INDIRECT_BRANCH_TARGETS, Value::BranchTargets(list)) = (attribute.code, &attribute.value) {
            branches.extend(list.iter().map(|branch| (u64::from(branch.branch), &branch.targets[..])));
        }
    }
    branches.sort_by_key(|branch| branch.0);
    branches
}

impl CodeSection<'_> {
    /// The relocations of the instruction at an address.
    pub fn relocations_at(&self, address: u64) -> &[Relocation] {
        let start = self.relocations.partition_point(|relocation| relocation.offset < address);
        let count = self.relocations[start..].iter().take_while(|relocation| relocation.offset == address).count();
        &self.relocations[start..start + count]
    }

    /// Where the indirect branch at an address can go.
    pub fn branch_targets_at(&self, address: u64) -> Option<&[u32]> {
        let found = self.indirect.binary_search_by_key(&address, |branch| branch.0);
        found.ok().map(|index| self.indirect[index].1)
    }

    /// Bytes of code.
    pub fn length(&self) -> u64 {
        self.words.len() as u64 * SIZE + self.tail.len() as u64
    }
}

/// The address that the relative operand of a word names, if it has one.
pub fn relative_target(word: u128, target: Target, address: u64) -> Option<u64> {
    let form = form_of(word, target)?.form();
    let bits = form.operands.iter().find_map(|slot| match &slot.core {
        Core::Number(Format::Relative, bits) | Core::RegisterAndNumber(_, _, Format::Relative, bits) => Some(bits),
        _ => None,
    })?;
    let distance = bits.signed(word);
    u64::try_from((address as i64).checked_add(SIZE as i64)?.checked_add(distance)?).ok()
}
