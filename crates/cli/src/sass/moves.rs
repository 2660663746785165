//! What refers to places in code follows when the code moves.
//!
//! Lines of a listing carry the address that their instruction had. Where instructions were added or taken out, those
//! addresses and the new ones together say where each place went: symbols, relocations and the attributes that hold
//! offsets of instructions are changed accordingly. Debug sections are not.

use std::collections::BTreeMap;

use oriole_cubin::Cubin;
use oriole_cubin::info::{Attribute, Code, Value};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::section::Content;
use oriole_cubin::symbol::{Symbol, SymbolSection};

use super::program::SIZE;
use super::source::SourceSection;

/// Where the instructions of a section went.
pub struct Moves {
    /// From old to new addresses; the end of the section is one of them.
    places: BTreeMap<u64, u64>,
    /// New addresses of instructions that were not there before.
    added: Vec<u64>,
    moved: bool,
}

/// The lower 12 bits of `EXIT`.
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

    pub fn something_moved(&self) -> bool {
        self.moved
    }

    /// The new address of a place: its instruction's, or that of the next one that is still there.
    fn place(&self, old: u64) -> u64 {
        self.places.range(old..).next().map_or(old, |(_, &new)| new)
    }

    /// The new offset of an instruction; none if it was taken out.
    fn exact(&self, old: u32) -> Option<u32> {
        self.places.get(&u64::from(old)).and_then(|&new| u32::try_from(new).ok())
    }

    /// Changes what refers to the section: `symbols` are those from before, `words` the new code.
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
            // The offset is that of an instruction, or of a part of it.
            let start = relocation.offset / SIZE * SIZE;
            relocation.offset = self.place(start) + (relocation.offset - start);
        }
        if let (Some(symbol), Some(addend)) = (symbol, relocation.addend.filter(|&addend| addend > 0)) {
            let place = self.place(symbol.value.wrapping_add_signed(addend));
            relocation.addend = Some(place.wrapping_sub(self.place(symbol.value)).cast_signed());
        }
    }

    fn follow_attribute(&self, attribute: &mut Attribute, words: &[u128]) {
        let is_offsets = attribute.code.name().is_some_and(|name| name.ends_with("INSTR_OFFSETS") || name == "SYSCALL_OFFSETS");
        match &mut attribute.value {
            Value::Words(offsets) if is_offsets => {
                *offsets = offsets.iter().filter_map(|&offset| self.exact(offset)).collect();
                if attribute.code == Code::EXIT_INSTR_OFFSETS {
                    offsets.extend(self.added.iter().filter(|&&new| is_exit(words, new)).filter_map(|&new| u32::try_from(new).ok()));
                    offsets.sort_unstable();
                }
            }
            Value::BranchTargets(branches) => {
                for branch in branches {
                    branch.branch = self.place(u64::from(branch.branch)) as u32;
                    branch.targets.iter_mut().for_each(|target| *target = self.place(u64::from(*target)) as u32);
                }
            }
            Value::Mbarriers(barriers) => {
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
