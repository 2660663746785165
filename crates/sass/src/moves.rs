//! Updates references to code addresses when instructions move.
//!
//! Each line of a listing has the original address of its instruction. Together with the new addresses this gives a map from old to new
//! addresses after instructions were added or removed. Symbols, relocations and the attributes that hold instruction offsets are
//! updated. Debug sections are not.
//!
//! Example: an instruction X is added after A, and B is removed.
//!
//! ```text
//! old:  0x00 A   0x10 B   0x20 C   end 0x30
//! new:  0x00 A   0x10 X   0x20 C   end 0x30
//! map:  0x00 -> 0x00, 0x20 -> 0x20, 0x30 -> 0x30; a symbol at B (0x10) moves to C, the next instruction that still exists
//! ```

use std::collections::BTreeMap;

use oriole_cubin::Cubin;
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::section::Content;
use oriole_cubin::symbol::{Symbol, SymbolSection};

use super::program::SIZE;
use super::source::SourceSection;

/// The map from old to new addresses in a section.
pub struct Moves {
    /// New address by old address, including the end of the section.
    places: BTreeMap<u64, u64>,
    /// New addresses of added instructions.
    added: Vec<u64>,
    /// Whether any address changed.
    moved: bool,
}

/// The lowest 12 bits of `EXIT`.
const EXIT: u128 = 0x94d;

impl Moves {
    pub fn new(section: &SourceSection<'_>, old_length: u64, new_length: u64) -> Moves {
        let (mut places, mut added) = (BTreeMap::new(), Vec::new());
        for (index, item) in section.items.iter().enumerate() {
            let address = index as u64 * SIZE;
            match item.old_address {
                Some(old) => {
                    places.entry(old).or_insert(address);
                }
                None => added.push(address),
            }
        }
        let moved = old_length != new_length || places.iter().any(|(old, new)| old != new);
        places.entry(old_length).or_insert(new_length);
        Moves { places, added, moved }
    }

    pub(crate) fn something_moved(&self) -> bool {
        self.moved
    }

    /// Returns the new address of an instruction, or, if it was removed, of the next instruction that still exists.
    fn place(&self, old: u64) -> u64 {
        self.places.range(old..).next().map_or(old, |(_, &new)| new)
    }

    /// Returns the new offset of an instruction; `None` if it was removed.
    fn exact(&self, old: u32) -> Option<u32> {
        self.places.get(&u64::from(old)).and_then(|&new| u32::try_from(new).ok())
    }

    /// Updates the references to a section. `symbols` are the symbols before the change, `words` is the new code.
    pub fn apply(&self, cubin: &mut Cubin, section: usize, function: &str, symbols: &[Symbol], words: &[u128]) {
        let is_inside = |symbol: &Symbol| matches!(symbol.section, SymbolSection::Section(index) if index as usize == section);
        for (symbol, old) in cubin.symbols_mut().into_iter().flatten().zip(symbols).filter(|(_, old)| is_inside(old)) {
            symbol.value = self.place(old.value);
            symbol.size = if old.size == 0 { 0 } else { self.place(old.value.wrapping_add(old.size)).saturating_sub(symbol.value) };
        }
        for index in 0..cubin.sections().len() {
            let Some(table) = cubin.section_mut(index) else { continue };
            let patches_code = table.info as usize == section;
            let Content::Relocations(list) = &mut table.content else { continue };
            for relocation in list.iter_mut().filter(|relocation| !relocation.relocation_type.is_mercury()) {
                self.follow(relocation, patches_code, symbols.get(relocation.symbol as usize).filter(|symbol| is_inside(symbol)));
            }
        }
        if let Ok(attributes) = cubin.attributes_mut(&format!(".nv.info.{function}")) {
            attributes.iter_mut().for_each(|attribute| self.follow_attribute(attribute, words));
        }
    }

    fn follow(&self, relocation: &mut Relocation, patches_code: bool, symbol: Option<&Symbol>) {
        if patches_code {
            // The offset may point into the middle of an instruction.
            let start = relocation.offset / SIZE * SIZE;
            relocation.offset = self.place(start) + (relocation.offset - start);
        }
        if let (Some(symbol), Some(addend)) = (symbol, relocation.addend.filter(|&addend| addend > 0)) {
            let place = self.place(symbol.value.wrapping_add_signed(addend));
            relocation.addend = Some(place.wrapping_sub(self.place(symbol.value)).cast_signed());
        }
    }

    /// Updates an attribute that holds instruction offsets. Entries of removed instructions are removed; added `EXIT`s are added.
    fn follow_attribute(&self, attribute: &mut Attribute, words: &[u128]) {
        let is_offsets = attribute.code.name().is_some_and(|name| name.ends_with("INSTR_OFFSETS") || name == "SYSCALL_OFFSETS");
        match &mut attribute.value {
            AttributeValue::Words(offsets) if is_offsets => {
                *offsets = offsets.iter().filter_map(|&offset| self.exact(offset)).collect();
                if attribute.code == AttributeCode::EXIT_INSTR_OFFSETS {
                    offsets.extend(self.added.iter().filter(|&&new| is_exit(words, new)).filter_map(|&new| u32::try_from(new).ok()));
                    offsets.sort_unstable();
                }
            }
            AttributeValue::BranchTargets(branches) => {
                for branch in branches {
                    branch.branch = self.place(u64::from(branch.branch)) as u32;
                    branch.targets.iter_mut().for_each(|target| *target = self.place(u64::from(*target)) as u32);
                }
            }
            AttributeValue::Mbarriers(barriers) => {
                barriers.retain(|barrier| self.exact(barrier.instruction).is_some());
                for barrier in barriers {
                    barrier.instruction = self.exact(barrier.instruction).unwrap_or(barrier.instruction);
                }
            }
            _ => {}
        }
    }
}

fn is_exit(words: &[u128], address: u64) -> bool {
    words.get((address / SIZE) as usize).is_some_and(|word| word & 0xfff == EXIT)
}
