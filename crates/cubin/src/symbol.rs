//! Symbols.
//!
//! In addition to ELF's fields, a cubin uses the byte `st_other`:
//!
//! | bits | meaning |
//! |---|---|
//! | 2 | a managed variable |
//! | 4 | a kernel, as opposed to a device function |
//! | 7:5 | the memory of an object of type `CUDA_OBJECT`: 1 global, 2 shared, 4 constant, 5 reserved shared |
//!
//! In files for Hopper, the empty symbol in the place of the end of reserved shared memory has bit 0 set.

use object::LittleEndian as LE;
use object::elf;
use object::elf::Sym64;
use object::pod::bytes_of;

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::read::NameBudget;
use crate::strings::Names;

/// Symbol types of texture, sampler and surface references.
pub const STT_CUDA_TEXTURE: u8 = 10;
pub const STT_CUDA_SAMPLER: u8 = 11;
pub const STT_CUDA_SURFACE: u8 = 12;
/// Symbol type of variables in relocatable and debug files.
pub const STT_CUDA_OBJECT: u8 = 13;

/// A symbol; the fields are those of ELF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub value: u64,
    pub size: u64,
    pub binding: u8,
    pub symbol_type: u8,
    pub other: u8,
    pub section: SymbolSection,
    /// Offset of the name in `.strtab` when the file was read.
    pub(crate) name_offset: Option<u32>,
}

/// The section in which a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSection {
    Undefined,
    Section(u32),
    /// `SHN_ABS`, `SHN_COMMON` and the like.
    Reserved(u16),
}

impl Symbol {
    /// Returns a symbol with value, size and `st_other` 0.
    pub fn new(name: impl Into<String>, binding: u8, symbol_type: u8, section: SymbolSection) -> Symbol {
        Symbol { name: name.into(), value: 0, size: 0, binding, symbol_type, other: 0, section, name_offset: None }
    }

    /// Returns the symbol of a section.
    pub fn for_section(name: impl Into<String>, section: u32) -> Symbol {
        Symbol::new(name, elf::STB_LOCAL, elf::STT_SECTION, SymbolSection::Section(section))
    }

    pub fn is_function(&self) -> bool {
        self.symbol_type == elf::STT_FUNC
    }

    /// Returns whether the symbol is a kernel, which the host can launch.
    pub fn is_kernel(&self) -> bool {
        self.is_function() && self.other & other::ENTRY != 0
    }
}

/// Bits of `st_other`.
pub mod other {
    /// On the empty symbol that files for Hopper have in the place of the end of reserved shared memory.
    pub const NULL_MARK: u8 = 0x01;
    /// `STV_INTERNAL`
    pub const INTERNAL: u8 = 0x01;
    pub const MANAGED: u8 = 0x04;
    pub const ENTRY: u8 = 0x10;
    pub const GLOBAL: u8 = 0x20;
    pub const SHARED: u8 = 0x40;
    pub const CONSTANT: u8 = 0x80;
    pub const RESERVED_SHARED: u8 = 0xa0;
}

pub(crate) const SIZE: u64 = size_of::<Sym64<LE>>() as u64;

/// Section indices from here on do not fit into `st_shndx` and are stored in `.symtab_shndx`.
const LARGE: u32 = elf::SHN_LORESERVE as u32;

/// Decodes a symbol table. `strings` is the string table that the section links to. `indices` is `.symtab_shndx`, in files with more than
/// 65279 sections.
pub(crate) fn decode(data: Bytes<'_>, strings: Bytes<'_>, indices: Option<Bytes<'_>>, budget: &mut NameBudget) -> Result<Vec<Symbol>> {
    if !data.len().is_multiple_of(SIZE) {
        return Err(Error::at(data.place(0), format!("the symbol table has {:#x} bytes, not a multiple of {SIZE:#x}", data.len())));
    }
    let mut symbol = |at| {
        let record: &Sym64<LE> = data.record(at, "a symbol")?;
        let name_offset = record.st_name.get(LE);
        Ok(Symbol {
            name: budget.name(strings, name_offset, "the name of a symbol")?.to_owned(),
            value: record.st_value.get(LE),
            size: record.st_size.get(LE),
            binding: record.st_bind(),
            symbol_type: record.st_type(),
            other: record.st_other,
            section: match (record.st_shndx.get(LE), indices) {
                (elf::SHN_UNDEF, _) => SymbolSection::Undefined,
                (elf::SHN_XINDEX, Some(indices)) => {
                    let index = indices.u32(at / SIZE * 4, "the section of a symbol")?;
                    if index < LARGE {
                        return Err(Error::at(indices.place(at / SIZE * 4), format!("section {index} of a symbol needs no place here")));
                    }
                    SymbolSection::Section(index)
                }
                (index, _) if index < elf::SHN_LORESERVE => SymbolSection::Section(u32::from(index)),
                (index, _) => SymbolSection::Reserved(index),
            },
            name_offset: Some(name_offset),
        })
    };
    (0..data.len()).step_by(SIZE as usize).map(&mut symbol).collect()
}

pub(crate) fn encode(symbols: &[Symbol], names: &mut Names) -> Vec<u8> {
    let mut out = Vec::with_capacity(symbols.len() * SIZE as usize);
    for symbol in symbols {
        let name = names.offset(&symbol.name, symbol.name_offset);
        let section = match symbol.section {
            SymbolSection::Undefined => elf::SHN_UNDEF,
            SymbolSection::Section(index) if index >= LARGE => elf::SHN_XINDEX,
            SymbolSection::Section(index) => index as u16,
            SymbolSection::Reserved(index) => index,
        };
        let record: Sym64<LE> = Sym64 {
            st_name: object::U32::new(LE, name),
            st_info: symbol.binding << 4 | symbol.symbol_type & 0xf,
            st_other: symbol.other,
            st_shndx: object::U16::new(LE, section),
            st_value: object::U64::new(LE, symbol.value),
            st_size: object::U64::new(LE, symbol.size),
        };
        out.extend(bytes_of(&record));
    }
    out
}

/// Returns whether some symbols need `.symtab_shndx`.
pub(crate) fn need_indices(symbols: &[Symbol]) -> bool {
    symbols.iter().any(|symbol| matches!(symbol.section, SymbolSection::Section(index) if index >= LARGE))
}

/// Decodes `.symtab_shndx`, which has one word per symbol.
pub(crate) fn decode_indices(data: Bytes<'_>) -> Result<Vec<u32>> {
    if !data.len().is_multiple_of(4) {
        return Err(Error::at(data.place(0), format!("the table of section indices has {:#x} bytes, not a multiple of 4", data.len())));
    }
    (0..data.len()).step_by(4).map(|at| data.u32(at, "a section index")).collect()
}

/// Encodes `.symtab_shndx`: large indices from the symbols, the other words unchanged.
pub(crate) fn encode_indices(symbols: &[Symbol], words: &[u32]) -> Vec<u8> {
    let words = words.iter().copied().chain(std::iter::repeat(0));
    let index = |(symbol, word): (&Symbol, u32)| match symbol.section {
        SymbolSection::Section(index) if index >= LARGE => index,
        _ => word,
    };
    symbols.iter().zip(words).map(index).flat_map(u32::to_le_bytes).collect()
}
