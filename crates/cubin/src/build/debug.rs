//! Debug sections and their relocations.
//!
//! References to functions have relocations in every file, because the CUDA driver decides where code is. References between debug sections
//! have relocations in relocatable files only, where the linker joins sections; in executable files they are plain offsets.

use super::Module;
use super::relocations::Patch;
use super::roles::Role;
use super::symbols::SymbolRole;
use crate::relocation::RelocationType;

/// A debug section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugSection {
    pub name: String,
    pub bytes: Vec<u8>,
    pub relocations: Vec<DebugRelocation>,
}

/// A field of a debug section that holds an address or an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugRelocation {
    /// Offset of the field in its section.
    pub offset: u64,
    /// Size of the field: 4 or 8 bytes.
    pub size_bytes: u8,
    pub symbol: DebugSymbol,
    pub addend: i64,
}

/// The symbol that a [`DebugRelocation`] refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugSymbol {
    /// The start of a function or the address of a variable, by name.
    Named(String),
    /// The start of a debug section: an index of [`Module::debug`].
    Section(usize),
}

impl Module {
    /// Returns the relocations of a debug section.
    pub(super) fn debug_patches(&self, section: usize) -> Vec<Patch> {
        let written = |relocation: &&DebugRelocation| self.is_relocatable() || matches!(relocation.symbol, DebugSymbol::Named(_));
        let patch = |relocation: &DebugRelocation| Patch {
            offset: relocation.offset,
            relocation_type: if relocation.size_bytes == 8 { RelocationType::R_CUDA_64 } else { RelocationType::R_CUDA_32 },
            symbol: match &relocation.symbol {
                DebugSymbol::Named(name) => Err(name.clone()),
                DebugSymbol::Section(index) => Ok(SymbolRole::Section(Role::Debug(*index))),
            },
            addend: relocation.addend,
        };
        self.debug[section].relocations.iter().filter(written).map(patch).collect()
    }

    /// Returns the content of a debug section. Fields without a relocation hold their value.
    pub(super) fn debug_bytes(&self, section: usize) -> Vec<u8> {
        let DebugSection { bytes, relocations, .. } = &self.debug[section];
        let mut bytes = bytes.clone();
        let plain = |relocation: &&DebugRelocation| !self.is_relocatable() && matches!(relocation.symbol, DebugSymbol::Section(_));
        for relocation in relocations.iter().filter(plain) {
            let (start, size) = (relocation.offset as usize, usize::from(relocation.size_bytes));
            if let Some(field) = bytes.get_mut(start..start + size) {
                field.copy_from_slice(&relocation.addend.to_le_bytes()[..size]);
            }
        }
        bytes
    }
}
