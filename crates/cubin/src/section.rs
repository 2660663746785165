//! Sections: types, kinds and contents.

use std::fmt;

use object::elf;

use crate::callgraph::CallEdge;
use crate::compat::CompatAttribute;
use crate::info::{Attribute, AttributeCode, AttributeValue};
use crate::note::Note;
use crate::relocation::Relocation;
use crate::strings::StringTable;
use crate::symbol::Symbol;

/// `sh_type`, with the names that cuobjdump prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SectionType(pub u32);

impl SectionType {
    pub const NULL: Self = Self(elf::SHT_NULL);
    pub const PROGBITS: Self = Self(elf::SHT_PROGBITS);
    pub const SYMTAB: Self = Self(elf::SHT_SYMTAB);
    pub const STRTAB: Self = Self(elf::SHT_STRTAB);
    pub const RELA: Self = Self(elf::SHT_RELA);
    pub const NOTE: Self = Self(elf::SHT_NOTE);
    pub const NOBITS: Self = Self(elf::SHT_NOBITS);
    pub const REL: Self = Self(elf::SHT_REL);
    pub const SYMTAB_SHNDX: Self = Self(elf::SHT_SYMTAB_SHNDX);
    pub const CUDA_INFO: Self = Self(0x7000_0000);
    pub const CUDA_CALLGRAPH: Self = Self(0x7000_0001);
    pub const CUDA_PROTOTYPE: Self = Self(0x7000_0002);
    pub const CUDA_GLOBAL: Self = Self(0x7000_0007);
    pub const CUDA_GLOBAL_INIT: Self = Self(0x7000_0008);
    pub const CUDA_LOCAL: Self = Self(0x7000_0009);
    pub const CUDA_SHARED: Self = Self(0x7000_000a);
    pub const CUDA_RELOCINFO: Self = Self(0x7000_000b);
    pub const CUDA_RESERVED_SHARED: Self = Self(0x7000_0015);
    pub const CUDA_CAPMERC: Self = Self(0x7000_0016);
    pub const CUDA_CONSTANT_B0: Self = Self(0x7000_0064);
    pub const MERCURY_RELA: Self = Self(0x7000_0082);
    pub const MERCURY_INFO: Self = Self(0x7000_0083);
    pub const MERCURY_SYMTAB: Self = Self(0x7000_0085);
    pub const CUDA_COMPAT_INFO: Self = Self(0x7000_0086);

    /// Returns the name that cuobjdump prints, if the type has one.
    pub fn name(self) -> Option<&'static str> {
        TYPE_NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// Returns whether a section has a size but no bytes in the file. Reserved shared memory has bytes only in its Mercury counterpart.
    pub(crate) fn occupies_no_file(self, flags: u64) -> bool {
        let reserved = self == Self::CUDA_RESERVED_SHARED && flags & flags::MERCURY == 0;
        reserved || [Self::NOBITS, Self::CUDA_GLOBAL, Self::CUDA_LOCAL, Self::CUDA_SHARED].contains(&self)
    }
}

impl fmt::Debug for SectionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// The names that cuobjdump 13.2 prints, found with a cubin in which the type of one section was set to each number. cuobjdump prints the
/// Mercury variants of `RELA`, `CUDA_INFO` and `SYMTAB` under the same names as the originals; here they have names of their own.
const TYPE_NAMES: &[(u32, &str)] = &[
    (elf::SHT_NULL, "NULL"),
    (elf::SHT_PROGBITS, "PROGBITS"),
    (elf::SHT_SYMTAB, "SYMTAB"),
    (elf::SHT_STRTAB, "STRTAB"),
    (elf::SHT_RELA, "RELA"),
    (elf::SHT_HASH, "HASH"),
    (elf::SHT_DYNAMIC, "DYNAMIC"),
    (elf::SHT_NOTE, "NOTE"),
    (elf::SHT_NOBITS, "NOBITS"),
    (elf::SHT_REL, "REL"),
    (elf::SHT_SHLIB, "SHLIB"),
    (elf::SHT_INIT_ARRAY, "INIT_ARRAY"),
    (elf::SHT_FINI_ARRAY, "FINI_ARRAY"),
    (elf::SHT_PREINIT_ARRAY, "PREINIT_ARRAY"),
    (elf::SHT_SYMTAB_SHNDX, "SYMTAB_SHNDX"),
    (0x7000_0000, "CUDA_INFO"),
    (0x7000_0001, "CUDA_CALLGRAPH"),
    (0x7000_0002, "CUDA_PROTOTYPE"),
    (0x7000_0003, "CUDA_RESOLVED_RELA"),
    (0x7000_0004, "CUDA_METADATA"),
    (0x7000_0006, "CUDA_CONSTANT"),
    (0x7000_0007, "CUDA_GLOBAL"),
    (0x7000_0008, "CUDA_GLOBAL_INIT"),
    (0x7000_0009, "CUDA_LOCAL"),
    (0x7000_000a, "CUDA_SHARED"),
    (0x7000_000b, "CUDA_RELOCINFO"),
    (0x7000_000c, "CUDA_MERCURY"),
    (0x7000_000d, "CUDA_MERCURY_SASS_MAP"),
    (0x7000_000e, "CUDA_UFT"),
    (0x7000_0010, "CUDA_UIDX"),
    (0x7000_0011, "CUDA_UFT_ENTRY"),
    (0x7000_0012, "CUDA_UDT"),
    (0x7000_0014, "CUDA_UDT_ENTRY"),
    (0x7000_0015, "CUDA_RESERVED_SHARED"),
    (0x7000_0016, "CUDA_CAPMERC"),
    (0x7000_0064, "CUDA_CONSTANT_B0"),
    (0x7000_0065, "CUDA_CONSTANT_B1"),
    (0x7000_0066, "CUDA_CONSTANT_B2"),
    (0x7000_0067, "CUDA_CONSTANT_B3"),
    (0x7000_0068, "CUDA_CONSTANT_B4"),
    (0x7000_0069, "CUDA_CONSTANT_B5"),
    (0x7000_006a, "CUDA_CONSTANT_B6"),
    (0x7000_006b, "CUDA_CONSTANT_B7"),
    (0x7000_0078, "CUDA_MERCURY_CONSTANT_PARAMS"),
    (0x7000_0079, "CUDA_MERCURY_CONSTANT_IMGHDR"),
    (0x7000_007a, "CUDA_MERCURY_CONSTANT_DRIVER"),
    (0x7000_007b, "CUDA_MERCURY_CONSTANT_OPT"),
    (0x7000_007c, "CUDA_MERCURY_CONSTANT_USER"),
    (0x7000_007d, "CUDA_MERCURY_CONSTANT_PIC"),
    (0x7000_007e, "CUDA_MERCURY_CONSTANT_TOOLS"),
    (0x7000_0082, "MERCURY_RELA"),
    (0x7000_0083, "MERCURY_INFO"),
    (0x7000_0084, "CUDA_MERCURY_CONSTANT_OPT"),
    (0x7000_0085, "MERCURY_SYMTAB"),
    (0x7000_0086, "CUDA_COMPAT_INFO"),
    (0x7000_0087, "CUDA_EMBEDDED_HOST"),
    (0x7000_0088, "CUDA_MERCURY_RESOLVED_RELA"),
];

/// The purpose of a section, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind<'a> {
    Null,
    /// `.shstrtab`, `.strtab`
    Strings,
    /// `.symtab`, `.nv.merc.symtab`
    Symbols,
    /// `.text.NAME`: SASS of a function
    Text(&'a str),
    /// `.nv.info`: attributes of the whole file
    ModuleInfo,
    /// `.nv.info.NAME`: attributes of a function
    FunctionInfo(&'a str),
    /// `.nv.compat`
    Compat,
    /// `.nv.constantBANK` or `.nv.constantBANK.NAME`
    Constant(u8, Option<&'a str>),
    /// `.nv.global`, `.nv.global.init`
    Global,
    /// `.nv.shared.NAME`
    Shared(&'a str),
    /// `.nv.local.NAME`
    Local(&'a str),
    /// `.nv.callgraph`
    CallGraph,
    /// `.nv.prototype`
    Prototype,
    /// `.nv.rel.action`
    RelocationActions,
    /// `.rel…`, `.rela…`
    Relocations,
    /// `.note.nv.NAME`
    Note(&'a str),
    /// `.debug_…`, `.nv_debug_…`, `.nv_debug.…`
    Debug,
    /// `.nv.capmerc.text.NAME`: Mercury capsule of a function
    Capsule(&'a str),
    /// `.nv.merc.…`: the Mercury counterpart of another section
    MercuryTwin(&'a str),
    Other,
}

/// Makes a kind from the part of the name after a prefix.
type FromRest<'a> = fn(&'a str) -> SectionKind<'a>;

impl<'a> SectionKind<'a> {
    /// Returns the kind of a section with this name.
    pub fn of(name: &'a str) -> SectionKind<'a> {
        let prefixes: [(&str, FromRest<'a>); 14] = [
            (".text.", SectionKind::Text),
            (".nv.info.", SectionKind::FunctionInfo),
            (".nv.shared.", SectionKind::Shared),
            (".nv.local.", SectionKind::Local),
            (".note.nv.", SectionKind::Note),
            (".nv.capmerc.text.", SectionKind::Capsule),
            (".nv.merc.symtab", |_| SectionKind::Symbols),
            (".nv.merc.", SectionKind::MercuryTwin),
            (".nv.constant", constant),
            (".nv.global", |_| SectionKind::Global),
            (".nv.rel.action", |_| SectionKind::RelocationActions),
            (".rel", |_| SectionKind::Relocations),
            (".debug_", |_| SectionKind::Debug),
            (".nv_debug", |_| SectionKind::Debug),
        ];
        match name {
            "" => SectionKind::Null,
            ".shstrtab" | ".strtab" => SectionKind::Strings,
            ".symtab" => SectionKind::Symbols,
            ".nv.info" => SectionKind::ModuleInfo,
            ".nv.compat" => SectionKind::Compat,
            ".nv.callgraph" => SectionKind::CallGraph,
            ".nv.prototype" => SectionKind::Prototype,
            _ => prefixes.iter().find_map(|(prefix, kind)| name.strip_prefix(prefix).map(kind)).unwrap_or(SectionKind::Other),
        }
    }
}

/// Parses the part of the name after `.nv.constant`: `3.NAME` or `3`.
fn constant(rest: &str) -> SectionKind<'_> {
    let (bank, name) = match rest.split_once('.') {
        Some((bank, name)) => (bank, Some(name)),
        None => (rest, None),
    };
    bank.parse().map_or(SectionKind::Other, |bank| SectionKind::Constant(bank, name))
}

/// The content of a section, decoded as far as its format is known.
///
/// Decoding is lossless: a section whose decoded form would not encode to the same bytes stays `Bytes`.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// No bytes in the file; the size in memory.
    NoBits(u64),
    /// Raw bytes: code, constants, initial values, `.debug_*`, Mercury capsules, and everything unknown.
    Bytes(Vec<u8>),
    /// The bytes of another section: some `.nv.merc.*` sections point to the same part of the file as their original.
    SameAs(usize),
    Strings(StringTable),
    Symbols(Vec<Symbol>),
    /// `.symtab_shndx`, in files with more than 65279 sections. Large section indices are taken from the symbols. The words of other
    /// symbols have no meaning, but ptxas leaves old numbers in them, so they are kept.
    SymbolSections(Vec<u32>),
    Info(Vec<Attribute>),
    Compat(Vec<CompatAttribute>),
    CallGraph(Vec<CallEdge>),
    Relocations(Vec<Relocation>),
    Notes(Vec<Note>),
}

/// A section: its content, and the fields of its header that do not follow from the content.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub name: String,
    pub section_type: SectionType,
    pub flags: u64,
    pub address: u64,
    pub link: u32,
    pub info: u32,
    pub alignment: u64,
    pub entry_size: u64,
    pub content: Content,
    /// Offset of the name in `.shstrtab` when the file was read.
    pub(crate) name_offset: Option<u32>,
    /// File offset of a section without bytes, if it differs from the usual one.
    pub(crate) fixed_offset: Option<u64>,
}

/// `sh_flags`: the flags of ELF and those that only cubins use.
pub mod flags {
    pub const WRITE: u64 = object::elf::SHF_WRITE as u64;
    pub const ALLOC: u64 = object::elf::SHF_ALLOC as u64;
    pub const EXECINSTR: u64 = object::elf::SHF_EXECINSTR as u64;
    /// `info` is the index of a section.
    pub const INFO_LINK: u64 = object::elf::SHF_INFO_LINK as u64;
    /// Set on `.note.nv.cuinfo`.
    pub const CUINFO: u64 = 0x0100_0000;
    /// Set on `.note.nv.tkinfo`.
    pub const TKINFO: u64 = 0x0200_0000;
    /// Set on every Mercury section.
    pub const MERCURY: u64 = 0x1000_0000;
    /// In code sections of CUDA 12 and before: the number of named barriers of the function. Later files have `EIATTR_NUM_BARRIERS`
    /// instead.
    pub const BARRIERS: u64 = 0x07f0_0000;
}

impl Section {
    /// Returns a section whose remaining header fields are 0.
    pub fn new(name: impl Into<String>, section_type: SectionType, flags: u64, alignment: u64, content: Content) -> Section {
        Section {
            name: name.into(),
            section_type,
            flags,
            address: 0,
            link: 0,
            info: 0,
            alignment,
            entry_size: 0,
            content,
            name_offset: None,
            fixed_offset: None,
        }
    }

    /// Returns the kind of the section.
    pub fn kind(&self) -> SectionKind<'_> {
        SectionKind::of(&self.name)
    }

    /// Returns the bytes of a section that is kept as raw bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the attributes of a section of the kind `.nv.info`.
    pub fn attributes(&self) -> Option<&[Attribute]> {
        match &self.content {
            Content::Info(attributes) => Some(attributes),
            _ => None,
        }
    }

    /// Returns whether a section has no bytes, and an offset that does not follow from the sections before it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.fixed_offset.is_some() && matches!(self.content, Content::NoBits(_))
    }

    /// Returns the number of named barriers of the function in this code section: `EIATTR_NUM_BARRIERS` of the given attributes, or in
    /// files of CUDA 12 and before a field of `sh_flags`.
    pub fn barrier_count(&self, attributes: &[Attribute]) -> u32 {
        let stated = attributes.iter().find_map(|attribute| match attribute.value {
            AttributeValue::Byte(number) if attribute.code == AttributeCode::NUM_BARRIERS => Some(u32::from(number)),
            _ => None,
        });
        stated.unwrap_or(((self.flags & flags::BARRIERS) >> flags::BARRIERS.trailing_zeros()) as u32)
    }

    /// Returns the decoded `sh_info` of a code section.
    pub fn text_info(&self) -> TextInfo {
        TextInfo(self.info)
    }
}

/// `sh_info` of a code section: the symbol of the function and, on Turing to Ada, its number of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextInfo(pub u32);

impl TextInfo {
    pub fn new(symbol: u32, registers: u8) -> TextInfo {
        TextInfo(symbol & 0x00ff_ffff | u32::from(registers) << 24)
    }

    /// Returns the index of the function's symbol.
    pub fn symbol(self) -> u32 {
        self.0 & 0x00ff_ffff
    }

    /// Returns the number of registers; 0 on targets that store it in `EIATTR_REGCOUNT` only.
    pub fn registers(self) -> u8 {
        self.0.to_be_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_names() {
        assert_eq!(SectionKind::of(".text.a.b"), SectionKind::Text("a.b"));
        assert_eq!(SectionKind::of(".nv.constant0.k"), SectionKind::Constant(0, Some("k")));
        assert_eq!(SectionKind::of(".nv.constant3"), SectionKind::Constant(3, None));
        assert_eq!(SectionKind::of(".nv.merc.nv.info"), SectionKind::MercuryTwin("nv.info"));
        assert_eq!(SectionKind::of(".rela.text.k"), SectionKind::Relocations);
        assert_eq!(SectionKind::of(".nv.constant.weird"), SectionKind::Other);
    }
}
